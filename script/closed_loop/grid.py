"""Which settings are run fixed, beside the tuned run."""
import math

INTERVALS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16)  # the tuner's candidates
FEWER_INTERVALS = (1, 2, 4, 6, 8, 12, 16)  # beside several k
RATIO = 0.1  # without a range, the only one


class Usage(Exception):
    """An option that cannot be meant."""


def parse_range(text):
    """(low, high) of LOW:HIGH, as zenflow-train --topk-range takes it."""
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise Usage(f"--topk-range: expected LOW:HIGH, such as 0.05:0.4; found \"{text}\"") from None
    if not 0 < low < high < 1:
        raise Usage(f"--topk-range: expected two numbers above 0 and below 1, the smaller one first; "
                    f"found \"{text}\"")
    return low, high


def ratios(topk_range):
    """Both ends and the middle, by ratio, rounded as the tuner rounds its candidates; the tuned run
    begins with the middle."""
    if topk_range is None:
        return (RATIO,)
    low, high = topk_range
    middle = float(f"{math.sqrt(low * high):.3g}")
    return tuple(sorted({low, min(max(middle, low), high), high}))


def start(topk_range):
    """topk_ratio of the tuned run's first windows."""
    between = ratios(topk_range)
    return between[len(between) // 2]


def settings(topk_range, quick):
    """[(topk_ratio, update_interval)]"""
    intervals = INTERVALS if topk_range is None else FEWER_INTERVALS
    return [(k, s) for k in ratios(topk_range) for s in (intervals[::3] if quick else intervals)]


def visited(parts):
    """{(topk_ratio, update_interval, loaded)} in which the tuned run was."""
    return {(w["topk_ratio"], w["update_interval"], loaded)
            for loaded, windows in zip((False, True, False), parts) for w in windows}
