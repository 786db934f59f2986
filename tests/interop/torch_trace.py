"""Records a small training with the real PyTorch profiler and holds zenflow-sim's reading of it
against what PyTorch itself says of the recording.

  torch_trace.py PROGRAM [--keep FOLDER]
PROGRAM is zenflow-sim. Nothing here reads the trace for its expectations but to count events by
category and to name those that PyTorch's own list hides. --keep writes the recording and the
expectations where the unit test reads them.
"""

import argparse
import collections
import datetime
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

STEPS = 3
# torch.autograd.profiler_util._filter_name: recorded, and not shown.
HIDDEN = {"[memory]", "[OutOfMemory]", "profiler::_record_function_enter",
          "profiler::_record_function_enter_new", "profiler::_record_function_exit",
          "aten::is_leaf", "aten::output_nr", "aten::_version"}
ANNOTATION = re.compile(r"ProfilerStep(#\d+|\*)|Optimizer\.(step|zero_grad)#.*")

README = """# A real recording of the PyTorch profiler

`trace.json.gz`: PyTorch {version}, CPU only, {steps} steps of two linear layers and AdamW under
`torch.profiler` with `record_shapes=True`, {date}. One thing was changed: the name of the host.
`expected.json`: what PyTorch's own API (`events()`, `key_averages()`) says of the same recording.

Made by `./script/interop --only torch-trace --keep-trace`; `tests/interop/torch_trace.py` trains.
"""


def train(folder):
    """Writes trace.json into `folder`; what PyTorch says of it."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    said = {}

    def ready(profiler):
        # Relative: the trace holds its own name.
        before = os.getcwd()
        os.chdir(folder)
        profiler.export_chrome_trace("trace.json")
        os.chdir(before)
        said.update(expectations(profiler))

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True,
                 schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
                 on_trace_ready=ready) as profiler:
        for _ in range(STEPS + 1):
            inputs = torch.randn(4, 16)
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
            profiler.step()
    said["pytorch"] = torch.__version__
    return said


def expectations(profiler):
    events = profiler.events()
    ranges = [event for event in events if ANNOTATION.fullmatch(event.name)]
    operators = [event for event in events if not ANNOTATION.fullmatch(event.name)]
    averages = {one.key: one.count for one in profiler.key_averages()
                if not ANNOTATION.fullmatch(one.key)}
    return {
        "operators": dict(sorted(averages.items())),
        "operators_us": round(sum(one.time_range.elapsed_us() for one in operators), 3),
        "ranges": [{"name": one.name, "us": round(one.time_range.elapsed_us(), 3)}
                   for one in sorted(ranges, key=lambda one: one.time_range.start)],
    }


def is_shown(spans):
    """Which spans of one thread events() shows: not what it filters by name, nor an operator that
    is the only child of its namesake (its _remove_dup_nodes)."""
    order = sorted(range(len(spans)), key=lambda i: (spans[i]["ts"], -spans[i]["dur"]))
    parent = {}
    children = collections.Counter()
    open_spans = []
    for i in order:
        while open_spans and ends(spans[open_spans[-1]]) <= spans[i]["ts"]:
            open_spans.pop()
        parent[i] = open_spans[-1] if open_spans else None
        children[parent[i]] += 1
        open_spans.append(i)

    def is_repeated(i):
        above = parent[i]
        return above is not None and children[above] == 1 and \
            spans[above]["name"] == spans[i]["name"]
    return [spans[i]["name"] not in HIDDEN and not is_repeated(i) for i in range(len(spans))]


def ends(span):
    return span["ts"] + span["dur"]


def add_hidden(said, trace):
    """Operators that events() hides, and all events: only the file has them."""
    threads = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event.get("cat") in ("cpu_op", "user_annotation"):
            threads[event["tid"]].append(event)
    shown = collections.Counter()
    hidden = []
    for spans in threads.values():
        for span, seen in zip(spans, is_shown(spans)):
            if span["cat"] != "cpu_op":
                continue
            if seen:
                shown[span["name"]] += 1
            else:
                hidden.append(span)
    if shown != said["operators"]:
        different = {name: (shown[name], said["operators"].get(name, 0))
                     for name in set(shown) | set(said["operators"])
                     if shown[name] != said["operators"].get(name, 0)}
        raise SystemExit(f"torch-trace: the file and key_averages() disagree: {different}")
    said["hidden"] = dict(sorted(collections.Counter(one["name"] for one in hidden).items()))
    said["hidden_us"] = round(sum(one["dur"] for one in hidden), 3)
    said["events"] = len(trace["traceEvents"])


def explain(program, path):
    result = subprocess.run([program, "explain", "--trace", path, "--json", "-q"],
                            capture_output=True, text=True, check=True)
    return json.loads(result.stdout)["traces"][0]


def differences(said, found):
    """Where zenflow-sim reads another thing than PyTorch says."""
    wrong = []

    def same(what, expected, seen, tolerance=0):
        if abs(expected - seen) > tolerance:
            wrong.append(f"{what}: PyTorch says {expected}, zenflow-sim {seen}")

    left_out = {one["what"]: one for one in found["left_out"]}
    operators = left_out.get("cpu_op", {"count": 0, "time_ms": 0})
    count = sum(said["operators"].values()) + sum(said["hidden"].values())
    same("events", said["events"], found["events"])
    same("operators", count, operators["count"])
    # events() counts in doubles from a far origin: a nanosecond each.
    same("operators' time (us)", said["operators_us"] + said["hidden_us"],
         operators["time_ms"] * 1e3, 1e-3 * count)
    same("ranges", len(said["ranges"]), found["spans_kept"])
    steps = [one for one in said["ranges"] if one["name"].startswith("ProfilerStep")]
    same("steps", len(steps), found["steps"]["count"])
    if found["steps"]["source"] != "annotation":
        wrong.append(f"steps by {found['steps']['source']}, not by annotation")
    # events() calls them all ProfilerStep*; the warm-up was step 0.
    for number, (expected, seen) in enumerate(zip(steps, found["steps"]["each"]), 1):
        same(f"step {number}: number", number, seen["step"])
        same(f"step {number} (us)", expected["us"], seen["duration_ms"] * 1e3, 1.5e-3)
    if found["devices"]:
        wrong.append("zenflow-sim sees GPU work in a CPU-only trace")
    return wrong


def keep(folder, text, said):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "trace.json.gz"), "wb") as file:
        file.write(gzip.compress(text.encode(), 9, mtime=0))
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(said, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write(README.format(version=said["pytorch"], steps=STEPS,
                                 date=datetime.date.today().isoformat()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--keep", metavar="FOLDER")
    arguments = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        said = train(folder)
        path = os.path.join(folder, "trace.json")
        with open(path, encoding="utf-8") as file:
            text = re.sub(r'("host_name": )"[^"]*"', r'\1"host"', file.read())
        add_hidden(said, json.loads(text))
        packed = os.path.join(folder, "packed")  # the name says nothing
        with gzip.open(packed, "wt", encoding="utf-8") as file:
            file.write(text)
        for name in (path, packed):
            wrong += differences(said, explain(arguments.program, name))
        if arguments.keep:
            keep(arguments.keep, text, said)
    operators = sum(said["operators"].values())
    print(f"PyTorch {said['pytorch']}: {said['events']} events, {operators} operators shown and "
          f"{sum(said['hidden'].values())} hidden, {len(said['ranges'])} ranges; JSON and gzip")
    for line in wrong:
        print("  " + line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
