"""The command line, the loop over phases, the summary."""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import shutil
import sys
import time

from gpu_check import machine, phases, process, results

ROOT = pathlib.Path(__file__).resolve().parents[2]
USAGE, NO_GPU = 2, 5
SKIPPED = 77
STATES = ("passed", "failed", "limit", "skipped")
EPILOG = """Exit codes: 0 nothing failed or ran past its limit, 1 something did, 2 wrong usage, 5 no
usable GPU, 128 + N ended by signal N. Details: docs/gpu-check.md"""


class Refused(Exception):
    """Wrong usage."""


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="gpu-check", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Checks and measures a machine with a GPU, in phases; works without a network.")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="folder for the results")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: rehearse every phase on a machine without a GPU (default: cuda)")
    parser.add_argument("--only", metavar="PHASE[,PHASE...]", help="these phases alone")
    parser.add_argument("--list", action="store_true", help="name the phases and end")
    parser.add_argument("--limit", type=int, metavar="SECONDS",
                        help="for each phase, at most; default: its own, under nine minutes")
    parser.add_argument("--within", type=int, metavar="SECONDS",
                        help="for all together: no phase runs past it")
    parser.add_argument("--deps", type=pathlib.Path, metavar="DIR",
                        help="folder or archive of script/fetch-deps, for installed packages")
    parser.add_argument("--python", metavar="PYTHON",
                        help="an interpreter with PyTorch: trains under it and DeepSpeed too")
    parser.add_argument("--wheels", type=pathlib.Path, metavar="DIR",
                        help="Python packages that it may lack, DeepSpeed above all")
    parser.add_argument("--quick", action="store_true", help="shorter measurements; for rehearsals")
    parser.add_argument("--work", type=pathlib.Path, metavar="DIR",
                        default=ROOT / "build" / "gpu-check",
                        help="folder for intermediate files (default: build/gpu-check)")
    parser.add_argument("--commit", metavar="ID", help="of the sources, where git does not know it")
    parser.add_argument("--grace", type=int, metavar="SECONDS", default=10,
                        help="between asking a phase to end and killing it (default: 10)")
    parser.add_argument("--phases", type=pathlib.Path, metavar="DIR",
                        default=ROOT / "script" / "gpu-check.d", help="another folder of phases")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite earlier results")
    options = parser.parse_args(arguments)
    for name in ("limit", "within", "grace"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name}: expected at least 1 second")
    if not options.list and options.out is None:
        parser.error("--out DIR is missing")
    return options


def chosen(known, only):
    if only is None:
        return known
    wanted = only.split(",")
    names = [phase.name for phase in known]
    for name in wanted:
        if name not in names:
            raise Refused(f"--only: there is no phase \"{name}\"; there are {', '.join(names)}")
    return [phase for phase in known if phase.name in wanted]


def now_utc():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def say(text):
    print(f"gpu-check: {text}", flush=True)


def environment(options, gpu, folder, limit):
    """What a phase is told, beside the caller's environment."""
    def resolved(path):
        return str(path.resolve()) if path else ""

    preset = "cuda" if options.device == "cuda" else "default"
    return {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
            "GPU_CHECK_ROOT": str(ROOT), "GPU_CHECK_DEVICE": options.device,
            "GPU_CHECK_GPU": next(iter(gpu.get("names", [])), ""),
            "GPU_CHECK_PRESET": preset, "GPU_CHECK_BUILD": str(options.work / preset),
            "GPU_CHECK_WORK": str(options.work), "GPU_CHECK_NVCC": machine.nvcc() or "",
            "GPU_CHECK_DEPS": resolved(options.deps), "GPU_CHECK_WHEELS": resolved(options.wheels),
            "GPU_CHECK_PYTHON": options.python or "",
            "GPU_CHECK_QUICK": "1" if options.quick else "", "GPU_CHECK_LIMIT": str(limit),
            "GPU_CHECK_RESULTS": str(folder), "GPU_CHECK_PUBLISH": str(folder / "publish")}


def read_lines(file):
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []


def state_of(code, by_limit, why, limit):
    """(state, why) of a phase that has ended."""
    if by_limit:
        return "limit", f"stopped after {limit} s; results so far are kept"
    if code == SKIPPED:
        return "skipped", why or "gives no reason"
    if code == 0:
        return "passed", why
    return "failed", why or (f"exit code {code}" if code > 0 else f"signal {-code}")


def read_figures(folder):
    """What the phase reports in figures.json, and what is wrong with it."""
    file = folder / "figures.json"
    try:
        return (json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}), None
    except ValueError as error:
        return {}, f"figures.json: {error}"


class Run:
    """One call of gpu-check."""

    def __init__(self, options, wanted, signals):
        self.options = options
        self.wanted = wanted
        self.signals = signals
        self.began = time.monotonic()
        self.entries = []
        staging = options.work / "results"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        options.out.mkdir(parents=True, exist_ok=True)
        self.results = results.Results(options.out, staging)
        self.gpu = machine.gpus()
        self.summary = {
            "program": "gpu-check", "format": 1, "started": now_utc(),
            "command": shlex.join(["./script/gpu-check", *sys.argv[1:]]),
            "commit": machine.commit(ROOT, options.commit), "device": options.device,
            "gpus": self.gpu.get("names", []), "no_gpu": self.gpu.get("why"),
            "driver": {"release": machine.driver_release(), "cuda": self.gpu.get("cuda")},
            "toolkit": machine.toolkit(), "host": machine.host()}

    def seconds_left(self):
        within = self.options.within
        return None if within is None else within - (time.monotonic() - self.began)

    def run_phase(self, phase):
        entry = {"name": phase.name, "what": phase.what, "started": now_utc()}
        self.entries.append(entry)
        limit = min(phase.limit, self.options.limit or phase.limit)
        left = self.seconds_left()
        if left is not None:
            limit = min(limit, int(left - self.options.grace))
        if limit < 1:
            entry.update(state="skipped", why="no time is left (--within)", seconds=0)
            return
        if phase.needs_python and not self.options.python:
            entry.update(state="skipped", why="needs --python", seconds=0)
            return
        folder = self.results.begin_phase(phase.name)
        say(f"{phase.name}: {phase.what} (at most {limit} s)")
        start = time.monotonic()
        code, by_limit = 0, False
        entry.update(state="failed", why="gpu-check was told to end", limit_s=limit)
        try:
            code, by_limit = process.run_limited(
                [str(phase.file.resolve())], limit=limit, grace=self.options.grace,
                signals=self.signals, log=folder / "log", folder=ROOT,
                environment=environment(self.options, self.gpu, folder, limit))
            why = " ".join(read_lines(folder / "why"))
            entry["state"], entry["why"] = state_of(code, by_limit, why, limit)
        finally:
            entry["seconds"] = round(time.monotonic() - start, 1)
            entry["commands"] = read_lines(folder / "commands")
            entry["figures"], wrong = read_figures(folder)
            if wrong and entry["state"] == "passed":
                entry.update(state="failed", why=wrong)
        if entry["state"] in ("failed", "limit"):
            for line in read_lines(folder / "log")[-20:]:
                print(f"  | {line}")

    def table(self):
        about = self.summary
        commit, host = about["commit"], about["host"]
        lines = [f"gpu-check {about['started']}, commit {commit['id'] or 'unknown'}"
                 + (", with changes" if commit["changed"] else ""),
                 f"{', '.join(about['gpus']) or 'no GPU'}; "
                 f"driver {about['driver']['release'] or '-'}, CUDA {about['toolkit'] or '-'}; "
                 f"{host['cpu']}, {host['cpus']} CPUs",
                 "", f"{'phase':<22} {'state':<8} {'seconds':>8}  why"]
        for entry in self.entries:
            row = f"{entry['name']:<22} {entry['state']:<8} {entry['seconds']:>8.1f}  "
            lines.append((row + entry["why"]).rstrip())
        counts = {state: sum(entry["state"] == state for entry in self.entries) for state in STATES}
        counted = [f"{count} {state}" for state, count in counts.items() if count]
        lines += ["", ", ".join(counted) or "nothing ran"]
        lines += [f"left out: {one['file']}: {one['why']}" for one in self.results.left_out]
        return "\n".join(lines) + "\n"

    def write(self):
        ran = [entry["name"] for entry in self.entries if "limit_s" in entry]
        document = {**self.summary, "ended": now_utc(), "phases": self.entries}
        # Twice: what is left out is known after the first, and the table lists it.
        self.results.write(document, self.table(), ran)
        if self.results.left_out:
            self.results.write(document, self.table(), ran)

    def skip_all(self, why):
        self.entries = [{"name": phase.name, "what": phase.what, "started": now_utc(),
                         "state": "skipped", "why": why, "seconds": 0} for phase in self.wanted]
        self.write()

    def run(self):
        if self.options.device == "cuda" and "why" in self.gpu:
            self.skip_all("no usable GPU")
            print(f"gpu-check: --device cuda: no usable GPU: {self.gpu['why']}\n"
                  "rehearse without one: --device cpu", file=sys.stderr)
            return NO_GPU
        self.write()  # so that a folder that cannot be written to is not found after an hour
        for phase in self.wanted:
            try:
                self.run_phase(phase)
            finally:
                self.write()
        print(f"\n{self.table()}\nresults: {self.options.out}")
        return int(any(entry["state"] in ("failed", "limit") for entry in self.entries))


def prepare(options):
    options.work = options.work.resolve()  # phases run in the repository's root, wherever this does
    if options.out.exists() and not options.out.is_dir():
        raise Refused(f"--out {options.out}: is not a folder")
    if options.deps and not options.deps.exists():
        raise Refused(f"--deps {options.deps}: no such folder or archive")
    if options.wheels and not options.wheels.is_dir():
        raise Refused(f"--wheels {options.wheels}: no such folder")
    if options.python:
        found = shutil.which(options.python)
        if not found:
            raise Refused(f"--python {options.python}: no such program")
        options.python = os.path.abspath(found)
    earlier = results.own_files(options.out)
    if earlier and not options.force:
        raise Refused(f"{options.out}: holds results already; give -f to overwrite them")
    for file in earlier:
        file.unlink(missing_ok=True)


def main():
    options = parse(sys.argv[1:])
    try:
        wanted = chosen(phases.read_phases(options.phases), options.only)
        if options.list:
            for phase in wanted:
                print(f"{phase.name:<22} {phase.limit:>4} s  {phase.what}"
                      + (" (--python)" if phase.needs_python else ""))
            return 0
        prepare(options)
    except (Refused, phases.WrongPhase, OSError) as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return USAGE
    process.adopt_orphans()
    signals = process.Signals()
    try:
        return Run(options, wanted, signals).run()
    except process.Ended as ended:
        print(f"gpu-check: ended by {ended}; what there is, is in {options.out}", file=sys.stderr)
        return 128 + ended.number
