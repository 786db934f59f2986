"""A tuned run of zenflow-train, its CPU optimizer alone, beside a load and alone again, and what it came
to beside runs with each fixed update_interval. For gpu-check; ./script/closed-loop has the load from here.
"""
import os
import statistics
import subprocess
import sys
import threading

from closed_loop import verdict

# Ends with the process that is told, its parent, even where that one is killed.
BURN = """import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(100_000):
        pass
"""


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


def interpolated(times, interval, loaded):
    """`times`: {(S, loaded): milliseconds}. Of an S that was not run: between its neighbours."""
    known = sorted(i for i, l in times if l == loaded)
    low = max((i for i in known if i <= interval), default=known[0])
    high = min((i for i in known if i >= interval), default=known[-1])
    if low == high:
        return times[low, loaded]
    share = (interval - low) / (high - low)
    return (1 - share) * times[low, loaded] + share * times[high, loaded]


def judged(times, windows, steps):
    """What each third of the run came to, as closed_loop/verdict.py has it. `times`: {(S, loaded):
    milliseconds}, all of one k."""
    verdict.mark_importance(windows)
    of_settings = {}
    for third, (_, _, loaded) in zip(verdict.phases(windows, steps), verdict.PHASES):
        for window in third:
            window.setdefault("slower", 1)
            setting = window["topk_ratio"], window["update_interval"], loaded
            of_settings[setting] = interpolated(times, window["update_interval"], loaded)
    of_settings |= {(windows[0]["topk_ratio"], interval, loaded): time
                    for (interval, loaded), time in times.items()}
    return [verdict.of_phase(*one, of_settings)
            for one in zip(verdict.PHASES, verdict.phases(windows, steps))]


def cost_of_recording(windows):
    """How much longer recorded windows take than others of the same S and third of the run, relative:
    the median over those that have both; none if there are none."""
    ratios = []
    steps = windows[-1]["first_step"] + windows[-1]["update_interval"]
    for part in verdict.phases(windows, steps):
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
