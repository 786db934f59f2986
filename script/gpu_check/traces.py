"""Chrome traces of PyTorch's profiler and of zenflow-calibrate record, which share field names:
totals, and small copies of what happened in some micro-steps.

  traces.py TRACE.json[.gz]    totals as one line of JSON
"""
import collections
import gzip
import json
import pathlib
import sys

LARGEST = 1_900_000  # bytes, compressed: small enough to be committed
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
KEPT = (*ON_GPU, "cuda_runtime", "cuda_driver", "cuda_sync", "user_annotation",
        "gpu_user_annotation")
KEPT_ARGS = ("bytes", "Bytes", "correlation", "stream", "device", "grid", "block")
LONGEST_NAME = 120


def load(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def base_ns(trace):
    return int(trace.get("baseTimeNanoseconds") or 0)


def totals(events):
    """Of copies by name (direction and kind of memory): count, bytes, milliseconds; of kernels and
    memsets: count, milliseconds."""
    found = collections.defaultdict(lambda: {"count": 0, "ms": 0.0})
    for event in events:
        category = event.get("cat")
        if event.get("ph") != "X" or category not in ON_GPU:
            continue
        name = event["name"] if category == "gpu_memcpy" else category
        total = found[name]
        total["count"] += 1
        total["ms"] += event.get("dur", 0) / 1e3
        if category != "kernel":
            arguments = event.get("args", {})
            size = arguments.get("bytes", arguments.get("Bytes", 0))
            total["bytes"] = total.get("bytes", 0) + int(size)
    return {name: {**total, "ms": round(total["ms"], 3)} for name, total in sorted(found.items())}


def _slim(event):
    fields = ("ph", "cat", "name", "pid", "tid", "ts", "dur")
    small = {key: event[key] for key in fields if key in event}
    small["name"] = str(small.get("name", ""))[:LONGEST_NAME]
    arguments = {key: value for key, value in event.get("args", {}).items() if key in KEPT_ARGS}
    if arguments or event["ph"] == "M":
        small["args"] = event["args"] if event["ph"] == "M" else arguments
    return small


def _write(path, trace, events):
    document = {key: value for key, value in trace.items() if not isinstance(value, list)}
    text = json.dumps({**document, "traceEvents": events}, separators=(",", ":"))
    # No time in the header: the same events give the same bytes.
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return path.stat().st_size


def cut(source, target, bounds, first_step, name):
    """Writes the micro-steps between `bounds` (nanoseconds on the trace's clock, one more than
    there are micro-steps) of `source` to `target`: device activity and the calls that caused it, as
    much of its end as fits. Returns what is in it, and the totals of each micro-step."""
    trace = load(source)
    base = base_ns(trace)
    events = trace["traceEvents"]
    whole = [event for event in events if event.get("ph") == "X"]
    per_step = []
    for number, (begin, end) in enumerate(zip(bounds, bounds[1:])):
        inside = [e for e in whole if begin <= base + e["ts"] * 1000 < end]
        per_step.append({"micro_step": first_step + number, "totals": totals(inside)})
    marks = [{"ph": "X", "cat": "user_annotation", "name": f"micro_step {first_step + number}",
              "pid": 0, "tid": 0, "ts": (begin - base) / 1000, "dur": (end - begin) / 1000}
             for number, (begin, end) in enumerate(zip(bounds, bounds[1:]))]
    names = [_slim(event) for event in events if event.get("ph") == "M"]
    kept = [_slim(e) for e in whole if e.get("cat") in KEPT]
    for number, begin in enumerate(bounds[:-1]):
        inside = [e for e in kept if begin <= base + e["ts"] * 1000 < bounds[-1]]
        size = _write(target, {**trace, "name": name}, names + marks[number:] + inside)
        if size <= LARGEST:
            return {"file": target.name, "micro_steps": len(bounds) - 1 - number, "bytes": size,
                    "events": len(inside), "by_micro_step": per_step}
    target.unlink()
    return {"file": None, "why": f"one micro-step takes {size} bytes", "by_micro_step": per_step}


def main():
    trace = load(pathlib.Path(sys.argv[1]))
    recording = trace.get("zenflow_recording", {})
    print(json.dumps({"events": len(trace["traceEvents"]), "recording": recording,
                      "totals": totals(trace["traceEvents"])}))


if __name__ == "__main__":
    main()
