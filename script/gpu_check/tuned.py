"""zenflow-train --tune live beside every fixed update_interval, with and without a load on the optimizer.

  tuned.py MODEL       run by a phase: what it is told comes from the phase's environment

The optimizer's threads are bound to cores of their own. The tuned run begins with S = 1; after a third of
its steps a process takes half of each of those cores, after two thirds it is gone. Lines in live.jsonl, and
tuned.txt, a table. Exit code 1 on a GPU if a run fails, or if what is to be reached is not: within 3 % of
the best fixed S in 12 windows, and after each change of the load in 6.
"""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from gpu_check import live  # noqa: E402
from tuned_phases import Load, cost_of_recording, follow, judged, line_of  # noqa: E402

INTERVALS = (1, 2, 3, 4, 6, 8, 12, 16)
STALENESS = 31  # at most: S up to 16
TOPK = 0.1
STEPS = 720
FIXED_STEPS = 40


def cores_of_optimizer(usable):
    """All but a quarter of the cores, which sums and the training thread have."""
    return usable[max(1, len(usable) // 4):] or usable


def table(model, times, phases, recording):
    """`times`: {(S, loaded): milliseconds}."""
    lines = [f"{model}: update_interval fixed, ms a step; the optimizer alone, and loaded",
             f"{'S':>4}{'alone':>10}{'loaded':>10}"]
    for interval in sorted({i for i, _ in times}):
        shown = [f"{times[interval, loaded]:10.1f}" if (interval, loaded) in times else f"{'-':>10}"
                 for loaded in (False, True)]
        lines.append(f"{interval:>4}{''.join(shown)}")
    lines += ["tuned while training", *(f"  {line_of(phase)}" for phase in phases)]
    if recording is not None:
        lines.append(f"  recorded windows take {100 * recording:+.1f} %")
    return "\n".join(lines) + "\n"


def missed(phases):
    """What is wrong with a run whose parts were judged so; empty: nothing."""
    return "; ".join(f"not reached: {line_of(phase)}" for phase in phases if not phase["reached"])


class Tuned(live.Phase):
    def __init__(self, model):
        super().__init__()
        self.model, scenario, settings = self.scenario(model)
        usable = sorted(os.sched_getaffinity(0))
        self.cores = cores_of_optimizer(usable)
        self.arguments = ["--model", scenario.parent / settings["model"], "--dtype", settings["dtype"],
                          "--micro-batch-size", settings["micro_batch_size_per_gpu"],
                          "--sequence-length", settings["sequence_length"], "--topk-ratio", TOPK,
                          "--max-staleness", STALENESS, "--sum-threads",
                          max(1, len(usable) - len(self.cores)), "--optimizer-threads",
                          len(self.cores), "--optimizer-cores", ",".join(map(str, self.cores)),
                          "--verbose"]
        self.times = {}

    def run(self, name, steps, arguments, at_step=None):
        """(result, why it failed)."""
        left = self.ends - time.monotonic()
        if left < 1:
            return None, "no time is left"
        out = self.results / f"{name}.json"
        command = self.command([*self.arguments, "--steps", steps, *arguments],
                               "cuda" if self.on_gpu else "cpu")
        with open(out, "w", encoding="utf-8") as file, \
                open(self.results / f"{name}.log", "w", encoding="utf-8") as log:
            code, said = follow(command, file, at_step or {}, log, left)
        if code < 0:
            return None, "stopped by the phase's limit"
        if code != 0:
            return None, f"exit code {code}: {(said.strip().splitlines() or ['it said nothing'])[-1]}"
        return json.loads(out.read_text(encoding="utf-8"))["results"][0], ""

    def fixed(self, interval, loaded):
        steps = max((10 if self.quick else FIXED_STEPS) // interval, 3 if self.quick else 5) * interval
        name = f"{self.model}-fixed-s{interval}{'-loaded' if loaded else ''}"
        load = Load(self.cores if loaded else [])
        load.start()
        try:
            result, why = self.run(name, steps, ["--update-interval", interval])
        finally:
            load.stop()
        if why:
            return self.say(name, why)
        self.times[interval, loaded] = result["step_time_ms"]
        return self.say(name, "", loaded=loaded, **{key: result[key] for key in (
            "update_interval", "step_time_ms", "gpu_compute_ms", "stall_by_cause_ms")})

    def tuned(self):
        steps = 90 if self.quick else STEPS
        load = Load(self.cores)
        try:
            result, why = self.run(f"{self.model}-tuned", steps,
                                   ["--update-interval", "auto", "--tune", "live",
                                    "--start-interval", 1],
                                   {steps // 3: load.start, 2 * steps // 3: load.stop})
        finally:
            load.stop()
        return result, why, steps

    def all(self):
        name = f"{self.model}-tuned"
        result, why, steps = self.tuned()
        for interval in INTERVALS[::3] if self.quick else INTERVALS:
            for loaded in (False, True):
                self.fixed(interval, loaded)
        if why:
            return self.say(name, why)
        windows = result["tuning"]["windows"]
        recording = cost_of_recording(windows)
        known = {loaded for _, loaded in self.times}
        phases = judged(self.times, windows, steps) if known == {False, True} else []
        text = table(self.model, self.times, phases, recording)
        (self.publish / "tuned.txt").write_text(text, encoding="utf-8")
        print(text)
        if not phases:
            return self.say(name, "nothing to compare it with")
        # What a rehearsal on a busy machine reaches says nothing.
        return self.say(name, missed(phases) if self.on_gpu and not self.quick else "",
                        phases=phases, recording_costs=recording, final_loss=result["final_loss"],
                        staleness=result["staleness_steps"],
                        events=[{key: e[key] for key in ("window", "kind", "previous", "next",
                                                         "measured_ms", "predicted_ms", "reason")}
                                for e in result["tuning"]["events"]])


def main():
    phase = Tuned(sys.argv[1])
    phase.all()
    (phase.results / "why").write_text("; ".join(phase.wrong))
    return 1 if phase.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
