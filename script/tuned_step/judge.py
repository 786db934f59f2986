"""Whether predicted and measured step times agree, and whether the machine was quiet enough to say so.

Times of one setting are in milliseconds a step, one for each run, in order.
"""
import statistics

TOLERANCE = 0.10
NOISE = TOLERANCE / 3  # as docs/validation.md has it


def spread(times):
    """(longest - shortest) / median"""
    return (max(times) - min(times)) / statistics.median(times)


def newest(times, rounds):
    """What counts of all runs; it has to agree with itself."""
    return times[-rounds:]


def quiet(times, rounds):
    return spread(newest(times, rounds)) <= NOISE


def of_setting(predicted, times, rounds):
    """A tuned setting: what was said of it, and what came of it."""
    counted = newest(times, rounds)
    measured = statistics.median(counted)
    error = (predicted - measured) / measured
    return {"predicted_ms": predicted, "measured_ms": measured, "error": error,
            "spread": spread(counted), "runs_ms": times, "noisy": not quiet(times, rounds),
            "within": abs(error) <= TOLERANCE}


def of_recorded(recorded, times, rounds):
    """The recorded setting, run again beside the tuned ones: what the machine does by now.
    `recorded`: what the recording that was tuned from says."""
    counted = newest(times, rounds)
    again = statistics.median(counted)
    change = again / recorded - 1
    return {"recorded_ms": recorded, "again_ms": again, "change": change, "spread": spread(counted),
            "runs_ms": times, "noisy": not quiet(times, rounds) or abs(change) > NOISE}


def outcome(cases):
    """"agrees", "differs", or "too noisy to judge by". A job counts as noisy as a whole: the tuned
    setting's prediction rests on the recorded one's run."""
    settings = [one for case in cases for one in case["tuned"]]
    if any(one["noisy"] for one in settings) or any(case["recorded"]["noisy"] for case in cases):
        return "too noisy to judge by"
    return "agrees" if all(one["within"] for one in settings) else "differs"


EXIT_CODES = {"agrees": 0, "too noisy to judge by": 1, "differs": 4}


def table(cases):
    """One line a setting."""
    header = ("job", "setting", "runs", "spread", "predicted ms", "measured ms", "error")
    rows = [header]
    for case in cases:
        recorded = case["recorded"]
        rows.append((case["name"], f"{case['setting']} (recorded)", str(len(recorded["runs_ms"])),
                     f"{100 * recorded['spread']:.1f} %", "", f"{recorded['again_ms']:.2f}",
                     f"{100 * recorded['change']:+.1f} % since"))
        for one in case["tuned"]:
            rows.append(("", one["setting"], str(len(one["runs_ms"])), f"{100 * one['spread']:.1f} %",
                         f"{one['predicted_ms']:.2f}", f"{one['measured_ms']:.2f}",
                         f"{100 * one['error']:+.1f} %"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    return "\n".join("  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
                     for row in rows)
