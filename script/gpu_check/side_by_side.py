"""zenflow-train beside PyTorch and DeepSpeed on one GPU: GPT-2 XL, 4 sequences of 1,024 tokens.

  side_by_side.py RESULTS      a folder that gpu-check has filled, with training.jsonl and live.jsonl
A ratio above 1 says that zenflow-train is faster. DeepSpeed's "free" part is its own pace.
"""
import json
import pathlib
import sys

# Our runs, and the cases that train the same in the same way.
PAIRS = (("gpt2_xl-gpu-only", "gpt2-xl-plain"),
         ("gpt2_xl-zero-offload", "gpt2-xl-zero-offload"),
         *((f"gpt2_xl-zenflow-k{k}-s{s}", f"gpt2-xl-zenflow-k{k}-s{s}")
           for k in ("05", "10") for s in (2, 4, 8)))


def lines(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def milliseconds(training):
    """Of a micro-step of each case."""
    return {line["case"]: line["total_ms"] / len(line["micro_steps"]) for line in training
            if line["line"] == "part" and line["part"] == "free"}


def table(live, training):
    """Rows of (our run, its milliseconds, theirs or None)."""
    ours = {line["run"]: line["step_time_ms"] for line in live if "step_time_ms" in line}
    theirs = milliseconds(training)
    return [(run, ours[run], theirs.get(case)) for run, case in PAIRS if run in ours]


def main():
    folder = pathlib.Path(sys.argv[1])
    training = folder / "training.jsonl"
    rows = table(lines(folder / "live.jsonl"), lines(training) if training.exists() else [])
    print(f"{'run':32}{'ours, ms':>12}{'theirs, ms':>12}{'ratio':>8}")
    for run, ours, theirs in rows:
        beside = f"{theirs:12.1f}{theirs / ours:8.2f}" if theirs else f"{'not run':>12}{'':>8}"
        print(f"{run:32}{ours:12.1f}{beside}")


if __name__ == "__main__":
    main()
