"""Step times of fixed settings from rounds in which every setting runs once.

`runs`: {setting: [milliseconds a step of each round]}, all of the same length. A setting is
(topk_ratio, update_interval, loaded).
"""
import math
import statistics

REACHED = 0.03  # above the best step time
ERROR = REACHED / 3  # that a setting's time may have, for what is compared with it to mean anything
LEAST_ROUNDS = 3  # to know an error by
OUTLIERS = 1.4826  # standard deviations of a normal distribution in its median absolute deviation
OF_MEDIAN = 1.2533  # standard error of a median to that of a mean: sqrt(pi / 2)


def without_drift(runs):
    """What makes a whole round slow is not of its settings: each round's times, alone and loaded
    apart, are divided by how they compare with the median round."""
    usual = {setting: statistics.median(times) for setting, times in runs.items()}
    count = len(next(iter(runs.values())))
    result = {setting: [] for setting in runs}
    for turn in range(count):
        for loaded in {setting[2] for setting in runs}:
            of_kind = [setting for setting in runs if setting[2] == loaded]
            slower = math.exp(statistics.fmean(math.log(runs[s][turn] / usual[s]) for s in of_kind))
            for setting in of_kind:
                result[setting].append(runs[setting][turn] / slower)
    return result


def step_times(runs):
    """{setting: (milliseconds a step, its relative standard error)}; the median over rounds. The
    error of less than LEAST_ROUNDS rounds is not known: infinity."""
    found = {}
    for setting, times in without_drift(runs).items():
        middle = statistics.median(times)
        deviation = OUTLIERS * statistics.median(abs(t - middle) for t in times)
        error = (OF_MEDIAN * deviation / math.sqrt(len(times)) / middle
                 if len(times) >= LEAST_ROUNDS else math.inf)
        found[setting] = (middle, error)
    return found


def deciding(times, visited):
    """Settings that the verdict rests on: those the tuned run was in, and those that may be best."""
    best = {loaded: min(t for s, t in times.items() if s[2] == loaded)
            for loaded in {s[2] for s in times}}
    return {s for s, t in times.items() if s in visited or t <= (1 + REACHED) * best[s[2]]}


def worst_error(found, visited):
    """The largest relative error of a setting that the verdict rests on."""
    times = {setting: time for setting, (time, _) in found.items()}
    return max(found[setting][1] for setting in deciding(times, visited))
