"""Trains the cases of a phase one after the other, each in a process of its own with a limit.

  measure.py MODEL CASE...     run by phases: what it is told comes from the phase's environment
Exit code 0 if all cases were measured, 1 if any failed, 77 if all were skipped. On standard output,
a line for each. What a case has measured until it fails or is stopped is kept.
"""
import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from gpu_check import process, traces  # noqa: E402
from gpu_check.training.cases import REHEARSED, Case, parse  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
CASE_SECONDS = 240
GRACE = 5  # less than a phase is given: what is told to end passes it on
TIMERS = re.compile(r"time \(ms\) \| (.+)")
TIMER = re.compile(r"([A-Za-z_]+): ([0-9.]+)")
MICRO_STEP = re.compile(r"gpu-check micro_step (\d+)")


def read_lines(file, case):
    """Of a file of JSON lines, those of the case. A last line that was cut off is left out."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if document["case"] == case.name:
            found.append(document)
    return found


def one(lines, kind, **fields):
    return next((line for line in lines if line["line"] == kind
                 and all(line.get(key) == value for key, value in fields.items())), None)


def timers(log):
    """What DeepSpeed's wall_clock_breakdown says of each micro-step, in milliseconds. Its lines
    come within step(), before the micro-step is named."""
    steps, current = [], {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if found := TIMERS.search(line):
            current.update({name: float(value) for name, value in TIMER.findall(found[1])})
        elif found := MICRO_STEP.search(line):
            steps.append({"micro_step": int(found[1]), "timers_ms": current})
            current = {}
    return steps



def figures(lines):
    """Medians of the measured micro-steps, apart for those that update weights."""
    found = {}
    for part in (line for line in lines if line["line"] == "part"):
        if part["part"] not in ("free", "synchronized", "breakdown"):
            continue
        steps = part["micro_steps"]
        total = [step["forward_ms"] + step["backward_ms"] + step["step_ms"] for step in steps]
        found[part["part"]] = {"mean_ms": part["total_ms"] / len(steps)}
        for kind, updates in (("update", True), ("other", False)):
            chosen = [ms for ms, step in zip(total, steps, strict=True)
                      if step["update"] == updates]
            if chosen:
                found[part["part"]][f"{kind}_median_ms"] = statistics.median(chosen)
    return found


class Phase:
    def __init__(self, model):
        given = os.environ
        self.root = pathlib.Path(given["GPU_CHECK_ROOT"])
        self.device = given["GPU_CHECK_DEVICE"]
        self.python = given["GPU_CHECK_PYTHON"]
        self.build = pathlib.Path(given["GPU_CHECK_BUILD"])
        self.results = pathlib.Path(given["GPU_CHECK_RESULTS"])
        self.publish = pathlib.Path(given["GPU_CHECK_PUBLISH"])
        self.ends = time.monotonic() + int(given["GPU_CHECK_LIMIT"])
        self.model = model if self.device == "cuda" else REHEARSED[model]
        self.output = self.publish / "training.jsonl"
        self.signals = process.Signals()

    def append(self, case, kind, **fields):
        with open(self.output, "a", encoding="utf-8") as file:
            file.write(json.dumps({"case": case.name, "line": kind, **fields}) + "\n")

    def command(self, case, text, trace):
        """(command, the file that a recording of it goes to)."""
        train = [self.python, str(HERE / "train.py"), str(self.output), str(trace), self.device,
                 self.model, text]
        if case.mode != "recording":
            return train, None
        folder = tempfile.mkdtemp(dir=os.environ["GPU_CHECK_WORK"])
        recording = pathlib.Path(folder) / "trace.json.gz"
        recorder = [str(self.build / "tools" / "zenflow-calibrate"), "record"]
        return [*recorder, "-o", str(recording), "--", *train], recording

    def cut_recording(self, case, recording, trace, lines):
        """The recording of the process that trained, to the micro-steps that were asked for."""
        recorded = one(lines, "recorded")
        of_process = recording.with_name(f"trace.{recorded['process']}.json.gz")
        source = of_process if of_process.exists() else recording
        if not source.exists():
            return None
        document = traces.load(source).get("zenflow_recording", {})
        steps = one(lines, "part", part="recorded")["micro_steps"]
        bounds = [step["at_ns"] for step in steps] + [recorded["end_ns"]]
        return traces.cut(source, trace, bounds, steps[0]["micro_step"], case.name), document

    def finish(self, case, log, recording, trace):
        """After a case has run through. Returns what is wrong with it, or None."""
        lines = read_lines(self.output, case)
        end = one(lines, "end")
        if end is None:
            return "it ended without its last line"
        if case.mode == "breakdown":
            self.append(case, "timers", micro_steps=timers(log))
        if case.mode == "recording":
            cut = self.cut_recording(case, recording, trace, lines)
            if cut is None:
                return None if self.device == "cpu" else "there is no recording of it"
            self.append(case, "trace", by="zenflow-calibrate record", recording=cut[1], **cut[0])
        if end["not_finite_at"] is not None:
            return f"its loss is not finite at micro-step {end['not_finite_at']}"
        return None

    def run(self, text):
        """("passed" | "failed" | "skipped", why)."""
        case = Case(self.model, **parse(text))
        left = self.ends - time.monotonic() - GRACE
        if left < 20:
            return case, "failed", "no time is left"
        log = self.results / f"{case.name}.log"
        # Beside the published one, so that a trace that is being written is not taken for one.
        trace = self.results / f"{case.name}.json.gz"
        command, recording = self.command(case, text, trace)
        start = time.monotonic()
        code, by_limit = process.run_limited(
            command, limit=min(CASE_SECONDS, left), grace=GRACE, signals=self.signals, log=log,
            environment=os.environ, folder=self.root)
        seconds = time.monotonic() - start
        self.append(case, "ran", exit_code=code, stopped_by_limit=by_limit,
                    seconds=round(seconds, 1))
        said = log.read_text(encoding="utf-8", errors="replace").splitlines()
        reason = next((line for line in said if line.startswith("skipped: ")), None)
        if reason:
            return case, "skipped", reason.removeprefix("skipped: ")
        if by_limit:
            return case, "failed", f"stopped after {seconds:.0f} s"
        if code != 0:
            print("\n".join(said[-25:]))
            return case, "failed", f"exit code {code}; {said[-1] if said else 'it said nothing'}"
        wrong = self.finish(case, log, recording, trace)
        if recording:
            shutil.rmtree(recording.parent)  # of the whole run: large
        if trace.exists():
            trace.rename(self.publish / "traces" / trace.name)
        return case, *(("failed", wrong) if wrong else ("passed", f"{seconds:.0f} s"))


def main():
    process.adopt_orphans()
    model, *texts = sys.argv[1:]
    phase = Phase(model)
    outcomes, known = [], {}
    for text in texts:
        case, state, why = phase.run(text)
        outcomes.append((case.name, state, why))
        known[case.name] = {"state": state, "why": why, **figures(read_lines(phase.output, case))}
        (phase.results / "figures.json").write_text(json.dumps(known))
        print(f"{case.name}: {state}: {why}", flush=True)
    bad = [(name, state, why) for name, state, why in outcomes if state != "passed"]
    (phase.results / "why").write_text("; ".join(f"{name}: {why}" for name, _, why in bad))
    if any(state == "failed" for _, state, _ in bad):
        return 1
    return SKIPPED if len(bad) == len(outcomes) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except process.Ended as ended:
        sys.exit(128 + ended.number)
