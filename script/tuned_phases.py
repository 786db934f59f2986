"""A tuned run of zenflow-train, its CPU optimizer alone, beside a load and alone again, and what it came
to beside runs with each fixed update_interval. For ./script/closed-loop and gpu-check.
"""
import os
import statistics
import subprocess
import sys
import threading

# Ends with the process that is told, its parent, even where that one is killed.
BURN = """import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(100_000):
        pass
"""
REACHED = 0.03  # above the best step time
NAMES = ("from S = 1", "loaded", "alone again")
WITHIN = (12, 6, 6)  # windows


class Load:
    """A process on each of these cores that takes as much of it as the scheduler gives it."""

    def __init__(self, cores):
        self.cores = cores
        self.processes = []

    def start(self):
        self.processes = [
            subprocess.Popen([sys.executable, "-c", BURN, str(os.getpid())],
                             preexec_fn=lambda core=core: os.sched_setaffinity(0, {core}))
            for core in self.cores]

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []


def follow(command, out, at_step, log=None, seconds=None):
    """Runs zenflow-train -v with its result going to the file `out`; (exit code, what it said). At the
    steps of `at_step`, {step: function}, the function is called. After `seconds` it is killed."""
    at_step = dict(at_step)
    said = []
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(seconds, process.kill) if seconds is not None else None
    if timer:
        timer.start()
    try:
        for line in process.stderr:
            said.append(line)
            if log:
                log.write(line)
            words = line.split()
            if len(words) > 1 and words[0] == "step" and "/" in words[1]:
                done = int(words[1].split("/")[0])
                for step in [s for s in at_step if s <= done]:
                    at_step.pop(step)()
        return process.wait(), "".join(said)
    finally:
        if timer:
            timer.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stderr.close()


def parts(windows, steps):
    """The tuned run's windows by thirds of the run. A window belongs where it begins."""
    bounds = (0, steps // 3, 2 * steps // 3, steps)
    return [[w for w in windows if low <= w["first_step"] < high]
            for low, high in zip(bounds, bounds[1:])]


def interpolated(times, interval, loaded):
    """`times`: {(S, loaded): milliseconds}. Of an S that was not run: between its neighbours."""
    known = sorted(i for i, l in times if l == loaded)
    low = max((i for i in known if i <= interval), default=known[0])
    high = min((i for i in known if i >= interval), default=known[-1])
    if low == high:
        return times[low, loaded]
    share = (interval - low) / (high - low)
    return (1 - share) * times[low, loaded] + share * times[high, loaded]


def best_allowed(windows, times, loaded):
    """(milliseconds, S) of the fastest fixed S that importance allowed in most of these windows."""
    candidates = [(t, i) for (i, l), t in times.items() if l == loaded]
    due = [w["importance_due"] for w in windows if w["importance_due"] is not None]
    most = max(1, statistics.median_low(due)) if due else max(i for _, i in candidates)
    return min([c for c in candidates if c[1] <= most] or [min(candidates, key=lambda c: c[1])])


def answered(windows, times, loaded):
    """Windows until the setting is, for good, within REACHED of the best; none: never."""
    best = best_allowed(windows, times, loaded)[0]
    late = [n for n, w in enumerate(windows)
            if interpolated(times, w["update_interval"], loaded) > (1 + REACHED) * best]
    count = late[-1] + 1 if late else 0
    return count if count < len(windows) else None


def judged(times, windows, steps):
    """What each part of the run came to."""
    found = []
    for name, limit, part, loaded in zip(NAMES, WITHIN, parts(windows, steps), (False, True, False)):
        best = best_allowed(part, times, loaded)
        count = answered(part, times, loaded)
        second_half = part[len(part) // 2:]
        found.append(
            {"phase": name, "windows": len(part), "windows_to_answer": count, "limit": limit,
             "reached": count is not None and count <= limit,
             "update_interval_at_end": part[-1]["update_interval"],
             "step_time_ms": statistics.median(w["step_time_ms"] for w in second_half),
             "best_fixed": {"update_interval": best[1], "step_time_ms": best[0]},
             "importance_due": statistics.median_low(w["importance_due"] or 0 for w in part)})
    return found


def cost_of_recording(windows):
    """How much longer recorded windows take than others of the same S and third of the run, relative:
    the median over those that have both; none if there are none."""
    ratios = []
    steps = windows[-1]["first_step"] + windows[-1]["update_interval"]
    for part in parts(windows, steps):
        for interval in {w["update_interval"] for w in part}:
            of = {recorded: [w["step_time_ms"] for w in part
                             if w["update_interval"] == interval and w["recorded"] == recorded]
                  for recorded in (False, True)}
            if of[False] and of[True]:
                ratios.append(statistics.median(of[True]) / statistics.median(of[False]) - 1)
    return statistics.median(ratios) if ratios else None


def line_of(phase):
    """One of `judged` in words."""
    count = phase["windows_to_answer"]
    best = phase["best_fixed"]
    return (f"{phase['phase']}: S = {phase['update_interval_at_end']} after "
            f"{'?' if count is None else count} windows (limit {phase['limit']}), "
            f"{phase['step_time_ms']:.1f} ms a step; best fixed S = {best['update_interval']}, "
            f"{best['step_time_ms']:.1f} ms")
