"""Step times of fixed settings from rounds in which settings run once each.

`runs`: {setting: {round: milliseconds a step}}; settings may be left out of rounds. A setting is
(topk_ratio, update_interval, loaded).

`most`: {loaded: {the largest update_interval that importance allows at some time; None: any}}.
"""
import itertools
import math
import statistics

REACHED = 0.03  # above the best step time
ERROR = REACHED / 4  # that a setting's time may have, for what is compared with it to mean anything
LEAST_ROUNDS = 3  # to know an error by
MOST_TURNS, CLOSE = 200, 1e-6  # in which, and how closely, drift is found
SURE = 3  # standard errors after which a setting is out of the question
SURE_OF_VERDICT = 1  # standard errors by which it has to be on one side of REACHED
OUTLIERS = 1.4826  # standard deviations of a normal distribution in its median absolute deviation
OF_MEAN = 1.0233  # standard error of the Hodges-Lehmann estimate to that of a mean: sqrt(pi / 3)


def drift(runs):
    """{loaded: {round: how many times as long as usual things take}}: how a round's times, alone and loaded
    apart, compare with what the settings that ran in it take otherwise. As not all run in every round,
    one is found from the other by turns."""
    result = {}
    for loaded in {setting[2] for setting in runs}:
        of_kind = {setting: times for setting, times in runs.items() if setting[2] == loaded}
        turns = sorted(set().union(*of_kind.values()))
        slower = dict.fromkeys(turns, 1.0)
        for _ in range(MOST_TURNS):
            before = slower
            usual = {setting: statistics.median(time / slower[turn] for turn, time in times.items())
                     for setting, times in of_kind.items()}
            slower = {turn: math.exp(statistics.fmean(
                math.log(times[turn] / usual[s]) for s, times in of_kind.items() if turn in times))
                for turn in turns}
            typical = statistics.median(slower.values())
            slower = {turn: factor / typical for turn, factor in slower.items()}
            if all(abs(slower[turn] - before[turn]) < CLOSE for turn in turns):
                break
        result[loaded] = slower
    return result


def without_drift(runs):
    """{setting: [milliseconds a step]}: what makes a whole round slow is not of its settings."""
    slower = drift(runs)
    return {setting: [times[turn] / slower[setting[2]][turn] for turn in sorted(times)]
            for setting, times in runs.items()}


def middle(values):
    """Hodges and Lehmann's: the median of the means of all pairs, each value with itself included. As
    little moved by outliers as a quarter of them allows, and almost as certain as a mean without."""
    return statistics.median((a + b) / 2
                             for a, b in itertools.combinations_with_replacement(values, 2))


def step_times(runs):
    """{setting: (milliseconds a step, its relative standard error)}, over rounds. The error of less
    than LEAST_ROUNDS rounds is not known: infinity."""
    found = {}
    for setting, times in without_drift(runs).items():
        time = middle(times)
        deviation = OUTLIERS * statistics.median(abs(t - time) for t in times)
        error = (OF_MEAN * deviation / math.sqrt(len(times)) / time
                 if len(times) >= LEAST_ROUNDS else math.inf)
        found[setting] = (time, error)
    return found


def deciding(found, visited, most):
    """Settings that the verdict rests on: of those that importance allows at some time or the tuned run
    was in, all that, as far as their errors tell, may be close enough to the best one allowed then."""
    result = set()
    for loaded, limits in most.items():
        of_kind = {setting: one for setting, one in found.items() if setting[2] == loaded}
        for limit in limits:
            def is_allowed(setting):
                return limit is None or setting[1] <= limit
            longest = min((t * (1 + SURE * e) for s, (t, e) in of_kind.items() if is_allowed(s)),
                          default=math.inf)
            result |= {s for s, (t, e) in of_kind.items() if (is_allowed(s) or s in visited)
                       and t * (1 - SURE * e) <= (1 + REACHED) * longest}
    return result


def in_doubt(found, held):
    """Settings that the tuned run was in and the best ones allowed then, where their errors do not tell
    whether the one is close enough to the other. `held`: {(setting, limit of `most`)} of its windows."""
    result = set()
    for setting, limit in held:
        allowed = {s: one for s, one in found.items()
                   if s[2] == setting[2] and (limit is None or s[1] <= limit)}
        if not allowed or setting not in found:
            continue
        best = min(allowed, key=lambda s: allowed[s][0])
        time, error = found[setting]
        doubt = SURE_OF_VERDICT * math.hypot(error, allowed[best][1])
        if setting != best and abs(math.log(time / allowed[best][0] / (1 + REACHED))) < doubt:
            result |= {setting, best}
    return result


def worst_error(found, settings):
    """The largest relative error of these."""
    return max(found[setting][1] for setting in settings)
