"""What tuned runs are held against: fixed settings, alone and under the load, and synchronous AdamW.

`times`: {(topk_ratio, update_interval, loaded): milliseconds a step}. A window's `slower` says how many
times as long as usual fixed settings took in turns with it.
"""
import statistics

from closed_loop.rounds import ERROR, REACHED

FIRST_WINDOWS, LOAD_WINDOWS, LOSS = 12, 6, 0.01
DUE_WINDOWS = 8  # kWindows of runtime/tune/gradient_limits.cpp
# What a tuned run's steps may differ by from fixed runs of the setting at hand: more, and the machine
# was another one meanwhile, or fits beside the training cost that (what the tuner does at a window's
# end is in no window's step time).
CHANGED = 2 * REACHED
PHASES = (("from S = 1", FIRST_WINDOWS, False), ("loaded", LOAD_WINDOWS, True),
          ("alone again", LOAD_WINDOWS, False))


def phases(windows, steps):
    """The tuned run's windows: alone, loaded, alone again. A window belongs where it begins."""
    bounds = (0, steps // 3, 2 * steps // 3, steps)
    return [[w for w in windows if low <= w["first_step"] < high]
            for low, high in zip(bounds, bounds[1:])]


def mark_importance(windows):
    """Says of every window of a run the largest S that the tuner may go to by what it knows when it
    begins (docs/training.md): the least that importance asked for in the eight windows before; None: any.
    What is due is that of the k at hand; other k are taken to allow as much."""
    for n, window in enumerate(windows):
        due = [w["importance_due"] for w in windows[max(0, n - DUE_WINDOWS):n]
               if w["importance_due"] is not None]
        window["most_interval"] = max(1, min(due)) if due else None


def most_intervals(parts_of_runs):
    """{loaded: {the largest S that importance allows, in some window; None: any}}"""
    most = {}
    for parts in parts_of_runs:
        for (_, _, loaded), windows in zip(PHASES, parts):
            most.setdefault(loaded, set()).update(w["most_interval"] for w in windows)
    return most


def held(parts_of_runs):
    """{((topk_ratio, update_interval, loaded), most_interval)} of all windows."""
    return {((w["topk_ratio"], w["update_interval"], loaded), w["most_interval"])
            for parts in parts_of_runs
            for (_, _, loaded), windows in zip(PHASES, parts) for w in windows}


def best_allowed(most, times, loaded):
    """(milliseconds, topk_ratio, update_interval) of the fastest fixed setting whose S is at most that;
    where none that was run is, of those with the least S."""
    candidates = [(time, k, s) for (k, s, under_load), time in times.items() if under_load == loaded]
    if most is not None:
        most = max(most, min(s for _, _, s in candidates))
    return min(c for c in candidates if most is None or c[2] <= most)


def answered(windows, times, loaded):
    """Windows until the setting is, for good, within REACHED of the best that is allowed then; None:
    never."""
    late = [n for n, w in enumerate(windows)
            if times[w["topk_ratio"], w["update_interval"], loaded] >
            (1 + REACHED) * best_allowed(w["most_interval"], times, loaded)[0]]
    count = late[-1] + 1 if late else 0
    return count if count < len(windows) else None


def against_fixed(windows, times, loaded):
    """The tuned run's step time over that of fixed runs of its settings, on the machine as it was then,
    less 1: the median over the second half of the windows."""
    return statistics.median(
        w["step_time_ms"] / w["slower"] / times[w["topk_ratio"], w["update_interval"], loaded]
        for w in windows[len(windows) // 2:]) - 1


def of_phase(phase, windows, times):
    name, limit, loaded = phase
    best = best_allowed(windows[-1]["most_interval"], times, loaded)
    count = answered(windows, times, loaded)
    second_half = windows[len(windows) // 2:]
    return {"phase": name, "windows": len(windows), "windows_to_answer": count, "limit": limit,
            "reached": count is not None and count <= limit,
            "topk_ratio_at_end": windows[-1]["topk_ratio"],
            "update_interval_at_end": windows[-1]["update_interval"],
            "step_time_ms": statistics.median(w["step_time_ms"] for w in second_half),
            "best_fixed": {"topk_ratio": best[1], "update_interval": best[2],
                           "step_time_ms": best[0]},
            "against_fixed": against_fixed(windows, times, loaded),
            "most_interval_at_end": windows[-1]["most_interval"]}


def changes(events):
    """(of S, of k): a change of both counts as both."""
    made = [e for e in events if e["kind"] == "change"]
    return tuple(sum(e["previous"][key] != e["next"][key] for e in made)
                 for key in ("update_interval", "topk_ratio"))


def of_run(times, result, reference, steps):
    """`reference`: the loss of synchronous AdamW."""
    tuning = result["tuning"]
    loss = result["validations"][-1]["loss"]
    changed, topk_changed = changes(tuning["events"])
    return {"phases": [of_phase(*one, times) for one in zip(PHASES, phases(tuning["windows"], steps))],
            "loss": loss, "loss_above": loss / reference - 1, "changes": changed,
            "topk_changes": topk_changed, "events": tuning["events"]}


def over_runs(runs, anything_counts):
    """What comes of each phase: of the runs in which the machine was, there, the one that the fixed
    settings ran on."""
    result = []
    for number, (name, limit, _) in enumerate(PHASES):
        of_runs = [run["phases"][number] for run in runs]
        counted = [p for p in of_runs if anything_counts or abs(p["against_fixed"]) <= CHANGED]
        result.append({"phase": name, "limit": limit, "runs": len(runs), "counted": len(counted),
                       "reached_in": sum(p["reached"] for p in counted),
                       "reached": all(p["reached"] for p in counted)})
    return result


def first_that_counts(summary):
    """Of the runs, in all phases; else the first one."""
    return next((number for number, run in enumerate(summary["runs"])
                 if all(abs(p["against_fixed"]) <= CHANGED for p in run["phases"])), 0)


def verdict(times, results, synchronous, steps, error=None, doubtful=()):
    """`results`: of the tuned runs. `error`: of `times`, relative; None: not known, as of a quick look,
    and then nobody asks. `doubtful`: settings that may be on the other side of what is to be reached
    (rounds.in_doubt)."""
    reference = synchronous["validations"][-1]["loss"]
    runs = [of_run(times, result, reference, steps) for result in results]
    summary = {"phases": over_runs(runs, error is None), "runs": runs}
    summary["loss"] = {"synchronous": reference, "most_above": max(r["loss_above"] for r in runs)}
    summary["loss"]["reached"] = summary["loss"]["most_above"] <= LOSS
    summary["fixed"] = [{"topk_ratio": k, "update_interval": s, "loaded": loaded, "step_time_ms": time}
                        for (k, s, loaded), time in sorted(times.items())]
    summary["reached"] = all(p["reached"] for p in summary["phases"]) and summary["loss"]["reached"]
    summary["error"] = error
    summary["doubtful"] = [dict(zip(("topk_ratio", "update_interval", "loaded"), one))
                           for one in sorted(doubtful)]
    summary["noisy"] = (error is not None and (error > ERROR or len(doubtful) > 0)) or any(
        2 * p["counted"] <= p["runs"] for p in summary["phases"])
    summary["outcome"] = ("too noisy to judge by" if summary["noisy"] else
                          "reached" if summary["reached"] else "not reached")
    return summary


EXIT_CODES = {"reached": 0, "too noisy to judge by": 1, "not reached": 4}


def text(summary, with_ratio):
    """The lines that are printed."""
    def setting(of, suffix=""):
        ratio = f"k = {of['topk_ratio' + suffix]:g}, " if with_ratio else ""
        return f"{ratio}S = {of['update_interval' + suffix]}"

    lines = []
    for number, run in enumerate(summary["runs"], 1):
        for phase in run["phases"]:
            count = phase["windows_to_answer"]
            best = phase["best_fixed"]
            lines.append(f"run {number}, {phase['phase']}: {setting(phase, '_at_end')} after "
                         f"{'?' if count is None else count} windows (limit {phase['limit']}), "
                         f"{phase['step_time_ms']:.1f} ms a step, {100 * phase['against_fixed']:+.1f} % "
                         f"against fixed runs of it; best fixed {setting(best)}, "
                         f"{best['step_time_ms']:.1f} ms")
        changed = f"{run['changes']} changes of S"
        if with_ratio:
            changed += f", {run['topk_changes']} of k"
        lines.append(f"run {number}, loss: {run['loss']:.4f}, synchronous "
                     f"{summary['loss']['synchronous']:.4f} ({100 * run['loss_above']:+.2f} %); {changed}")
    for phase in summary["phases"]:
        lines.append(f"{phase['phase']}: reached in {phase['reached_in']} of {phase['counted']} runs "
                     f"that count, of {phase['runs']}")
    if summary["error"] is not None:
        lines.append(f"fixed settings that decide are known to {100 * summary['error']:.2f} % "
                     f"({100 * ERROR:g} % is asked for); where steps of a tuned run differ from "
                     f"theirs by more than {100 * CHANGED:.0f} % it does not count")
    if summary["doubtful"]:
        lines.append("these may be on either side of what is to be reached: " + ", ".join(
            setting(one) + (" under the load" if one["loaded"] else "") for one in summary["doubtful"]))
    lines.append(summary["outcome"])
    return "\n".join(lines)
