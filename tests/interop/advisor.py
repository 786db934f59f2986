"""Does an OffloadAdvisor do within real trainings what docs/advisor.md says?

Run by script/interop in a virtual environment with deepspeed, transformers, tensorboard and the
wheel:
  advisor.py [--clock wall|cpu] [interval|live|trainer|gain ...]
On the CPU accelerator:
  interval  ZenFlow's update_interval is changed in a running engine: from there on each call,
            buffer and gradient is as in a run that had the new interval from the start; a change at
            another micro step is told from that
  live      two ranks, whose advisor decides for another interval and changes it
  trainer   as a callback of transformers' Trainer: what TensorBoard has, report, tuned file
  gain      around an engine: record, tune, run again with the tuned file, which DeepSpeed takes;
            predicted gain against measured gain
Exit code 1 if anything differs; of the gain, if it is off by more than half: trainer and gain are
measurements, and the machine may be busy (--clock cpu).
"""

import argparse
import copy
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

from schedule import configuration, free_port

HERE = pathlib.Path(__file__).resolve().parent
FAR = 0.5  # of the gain
STEPS = 32
SMALL = {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 256}
# (stage, overlap_step, full_warm_up_rounds, update_interval, select_interval, changed to)
CHANGES = ((2, True, 0, 2, 8, 4), (2, True, 4, 1, 8, 4), (2, True, 8, 4, 16, 2),
           (2, True, 0, 2, 0, 1), (1, True, 0, 2, 8, 4), (2, False, 0, 2, 8, 4),
           (2, False, 4, 1, 0, 4))


def run(program, job, folder, ranks=1):
    """Of a training, a process a rank: each rank's result, and what rank 0 said."""
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "WORLD_SIZE": str(ranks),
                   "LOCAL_WORLD_SIZE": str(ranks), "LOCAL_SIZE": str(ranks),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                   "OMP_NUM_THREADS": "1"}
    started = []
    try:
        for rank in range(ranks):
            file = folder / f"job{rank}.json"
            file.write_text(json.dumps({**job, "result": str(folder / f"result{rank}.json")}))
            with open(folder / f"rank{rank}.log", "w", encoding="utf-8") as log:
                started.append(subprocess.Popen(
                    [sys.executable, "-W", "ignore", str(HERE / program), str(file)],
                    stdout=log, stderr=log,
                    env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
        codes = [one.wait(timeout=1800) for one in started]
    finally:
        for one in started:
            one.kill()
    said = [(folder / f"rank{rank}.log").read_text(errors="replace") for rank in range(ranks)]
    for rank, code in enumerate(codes):
        if code != 0:
            tail = "\n".join(said[rank].strip().splitlines()[-15:])
            raise SystemExit(f"advisor: {program}: exit code {code} of rank {rank}\n{tail}")
    results = [json.loads((folder / f"result{rank}.json").read_text()) for rank in range(ranks)]
    return results, said[0]


def still(stage, overlap, warm_up, interval, select):
    """A configuration under which weights stay as they are."""
    document = configuration(stage, overlap, warm_up, interval, select)
    document["optimizer"]["params"] = {"lr": 0.0}
    document.pop("gradient_clipping")
    return document


def interval_differences(found, reference):
    """Where a run whose interval has changed is not, from there on, as one that always had it."""
    first = found["changed"]
    if first is None:
        return ["the interval never changed"]
    lines = [f"micro step {step}: {one} in place of {other}" for what in ("calls", "gradients")
             for step, (one, other) in enumerate(zip(found[what], reference[what]))
             if step >= first and not alike(one, other)]
    if not any(found["gradients"][first:]):
        lines.append("no update after the change")
    return lines


def alike(one, other):
    """Equal, but for the rounding of sums of other lengths."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-2)
    return one == other


def interval(folder, _):
    """Number of differences."""
    wrong = 0
    for stage, overlap, warm_up, now, select, to in CHANGES:
        base = {"deepspeed": still(stage, overlap, warm_up, now, select), "steps": STEPS,
                "to": None, "from": warm_up + 4, "at": None}
        always = {**base, "deepspeed": still(stage, overlap, warm_up, to, select)}
        [reference], _ = run("advisor_interval.py", always, folder)
        [found], _ = run("advisor_interval.py", {**base, "to": to}, folder)
        lines = interval_differences(found, reference)
        print(f"stage {stage} overlap {overlap!s:<5} W {warm_up} S {now} -> {to} select "
              f"{select:>2}: changed at micro step {found['changed']}: "
              f"{'DIFFERS' if lines else 'as if it had always been'}", flush=True)
        for line in lines[:4]:
            print("  " + line)
        wrong += bool(lines)
    stage, overlap, warm_up, now, select, to = CHANGES[0]
    # Half a period later buffers would no longer take turns.
    base = {"deepspeed": still(stage, overlap, warm_up, now, select), "steps": STEPS, "to": to,
            "from": 0, "at": 12}
    [found], _ = run("advisor_interval.py", base, folder)
    buffers = [one["calls"]["zenflow_cpu_optimizer_step"][0] for one in found["calls"]
               if "zenflow_cpu_optimizer_step" in one["calls"]]
    told = any(one == other for one, other in zip(buffers, buffers[1:]))
    print("a change at micro step 12, where none is due: "
          f"{'told' if told else 'NOT TOLD'} by its buffers {buffers}")
    return wrong + (not told)


def zero(stage, offload):
    block = {"stage": stage, "overlap_comm": False, "reduce_bucket_size": 8_000_000}
    if offload:
        block["offload_optimizer"] = {"device": "cpu", "pin_memory": False}
    return {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1,
            "bf16": {"enabled": True}, "gradient_clipping": 1.0, "steps_per_print": 1_000_000,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}, "zero_optimization": block}


def trainer(folder, clock):
    """Number of things that are wrong."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    output, logs = folder / "advice", folder / "logs"
    document = zero(2, True)
    document.pop("optimizer")  # the Trainer's
    document.update({"optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
                     "gradient_clipping": "auto", "train_micro_batch_size_per_gpu": 2})
    [result], said = run("advisor_train.py", {
        "deepspeed": document, "steps": 12, "clock": clock, "trainer": True, "logs": str(logs),
        "advisor": {"output": str(output), "warmup": 2, "measure": 4, "record": 2,
                    "strict": True}}, folder)
    wrong = []
    names = {"zenflow/measured_step_ms", "zenflow/predicted_step_ms"}
    seen = {}
    for events in sorted({one.parent for one in logs.rglob("events.out.tfevents.*")}):
        accumulator = EventAccumulator(str(events))
        accumulator.Reload()
        for tag in accumulator.Tags()["scalars"]:
            seen[tag] = accumulator.Scalars(tag)[-1].value
    # TensorBoard's callback puts all that is no metric of an evaluation under train/.
    missing = [name for name in names if f"train/{name}" not in seen and name not in seen]
    if missing:
        wrong.append(f"TensorBoard has {sorted(seen)}, not {missing}")
    losses = [one for one in result["history"] if "loss" in one]
    if len(losses) != 2:
        wrong.append(f"the Trainer's own logs: {len(losses)} of 2 losses")
    if not result["is_callback"]:
        wrong.append("is no TrainerCallback")
    wrong += written(output)
    print(f"Trainer: TensorBoard has {', '.join(sorted(one for one in seen if 'zenflow' in one))}")
    for line in wrong:
        print("  " + line + "\n" + said[-2000:])
    return len(wrong)


def written(output):
    """What is wrong with the files of an advice."""
    import deepspeed
    wrong = [f"no {name}" for name in ("report.md", "report.json", "trace.json.gz")
             if not (output / name).exists()]
    tuned = output / "tuned" / "ds_config_optimal.json"
    if not tuned.exists():
        return wrong + ["no tuned file"]
    document = json.loads(tuned.read_text())
    if any(value == "auto" for value in document.values()):
        return wrong  # of the Trainer, which fills it in
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    try:
        deepspeed.runtime.config.DeepSpeedConfig(document)
    except Exception as error:  # whatever DeepSpeed says
        wrong.append(f"DeepSpeed: {error}")
    return wrong


def gain(folder, clock):
    """Number of things that are wrong."""
    first, second = folder / "first", folder / "second"
    # Of offloading a run says something that offloads: the optimizer stays where it is.
    steps = {"warmup": 2, "measure": 6, "record": 1, "strict": True,
             "tune": {"offload_when": "faster",
                      "vary": ["micro_batch_size_per_gpu=1,2,4", "placement=cpu", "stage=2",
                               "offload_param=none", "overlap_comm=false", "pin_memory=false"]}}
    document = {**zero(2, True), "train_micro_batch_size_per_gpu": 1,
                "gradient_accumulation_steps": 4}
    job = {"deepspeed": document, "steps": 11 * 4, "clock": clock,
           "advisor": {**steps, "output": str(first)}}
    [result], _ = run("advisor_train.py", job, folder)
    wrong = written(first)
    if result["left_behind"]:
        wrong.append(f"left behind on the engine: {result['left_behind']}")
    report = json.loads((first / "report.json").read_text())
    job = copy.deepcopy(job)
    job["deepspeed"] = json.loads((first / "tuned" / "ds_config_optimal.json").read_text())
    job["steps"] = 11 * job["deepspeed"].get("gradient_accumulation_steps", 1)
    job["advisor"].update({"output": str(second), "before": str(first)})
    [again], _ = run("advisor_train.py", job, folder)
    before = json.loads((second / "report.json").read_text())["before"]
    predicted, measured = before["predicted_gain"], before["measured_gain"]
    print(f"changes: {report['changes']}")
    print(f"step {report['measured_step_ms']:.1f} ms; gain predicted {predicted:.2f}, "
          f"measured {measured:.2f}")
    if not any("zenflow/earlier_measured_gain" in numbers for _, numbers in again["logged"]):
        wrong.append("the measured gain was not logged")
    if abs(predicted / measured - 1) > FAR:
        wrong.append("predicted gain and measured gain are too far apart")
    for line in wrong:
        print("  " + line)
    return len(wrong)


def live(folder, _):
    """Number of things that are wrong."""
    output = folder / "advice"
    document = configuration(2, True, 8, 1, 16)
    document["train_micro_batch_size_per_gpu"] = 2
    document["csv_monitor"] = {"enabled": True, "output_path": str(folder), "job_name": "monitor"}
    results, said = run("advisor_train.py", {
        "deepspeed": document, "steps": 56, "model": SMALL, "advisor": {
            "output": str(output), "warmup": 2, "measure": 4, "record": 1, "strict": True,
            # So that predictions, and with them what is chosen, are the same on any machine.
            "hardware": "l40s_x8", "change_update_interval": True}}, folder, ranks=2)
    report = json.loads((output / "report.json").read_text())
    wrong = []
    intervals = [one["update_interval"] for one in results]
    if intervals[0] == 1 or len(set(intervals)) != 1:
        wrong.append(f"intervals of the ranks: {intervals}")
    if len({tuple(one["windows"]) for one in results}) != 1:
        wrong.append("windows of the ranks differ")
    logged = {name for _, numbers in results[0]["logged"] for name in numbers}
    if not {"zenflow/update_interval", "zenflow/measured_step_ms_after_change"} <= logged:
        wrong.append(f"logged: {sorted(logged)}")
    monitored = {one.name for one in (folder / "monitor").glob("zenflow_*.csv")}
    if len(monitored) != len(logged):
        wrong.append(f"DeepSpeed's monitor has {sorted(monitored)}")
    if results[0]["left_behind"]:
        wrong.append(f"left behind on the engine: {results[0]['left_behind']}")
    if results[1]["logged"]:
        wrong.append("rank 1 logs, too")
    if report["predicted_gain"] is not None or "not to be relied" not in " ".join(report["notes"]):
        wrong.append("a prediction for other hardware was relied on")
    for line in report["decisions"]:
        print(line)
    for line in wrong:
        print("  " + line + "\n" + said[-2000:])
    return len(wrong)


def main():
    parts = {"interval": interval, "live": live, "trainer": trainer, "gain": gain}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *parts], default=[])
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: gain by the process's own time, for a machine that others use")
    options = parser.parse_args()
    wrong = 0
    for name in options.parts or parts:
        with tempfile.TemporaryDirectory() as folder:
            wrong += parts[name](pathlib.Path(folder), options.clock)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
