"""Does zenflow-sim predict the step time and memory of the real DeepSpeed on this machine?

Run by script/interop in a virtual environment with deepspeed and transformers:
  steps.py ZENFLOW_SIM ZENFLOW_CALIBRATE [--write FOLDER] [--rounds N] [--clock wall|cpu]
           [--keep FOLDER]
A small Llama is trained on the CPU accelerator under each of CONFIGURATIONS. The machine's profile
is what `zenflow-calibrate probe` measures, and what it cannot know from one of the runs
(steps_profile.py). The others are predicted. The table shows predicted against measured; --write
stores it as table.md and runs.json. Exit code 1 if a run fails or the targets are missed by
more than twice: this is a measurement, and the machine may be busy.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from schedule import Failed
from steps_predict import predict, scenario_of, schedules_of
from steps_profile import fit, probe_machine
from steps_run import train

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 8192,
         "hidden_size": 640, "intermediate_size": 1728, "num_hidden_layers": 4,
         "num_attention_heads": 10, "num_key_value_heads": 10, "max_position_embeddings": 256,
         "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
         "attention_bias": False, "mlp_bias": False}
SEQUENCES, TOKENS = 2, 64
STEP_TARGET = {"mean": 0.15, "worst": 0.30}
MEMORY_TARGET = {"worst": 0.10}
ZENFLOW = {"topk_ratio": 0.1, "select_strategy": "step", "select_interval": 16,
           "update_interval": 4, "full_warm_up_rounds": 0, "overlap_step": True}


def configuration(stage, *offloaded, zenflow=False):
    """A DeepSpeed file; `offloaded` names what is in host memory."""
    zero = {"stage": stage, "overlap_comm": False, "reduce_bucket_size": 8_000_000}
    for what in offloaded:
        zero[f"offload_{what}"] = {"device": "cpu", "pin_memory": False}
    if zenflow:
        zero["zenflow"] = ZENFLOW
    return {"train_micro_batch_size_per_gpu": SEQUENCES, "gradient_accumulation_steps": 1,
            "bf16": {"enabled": True}, "gradient_clipping": 1.0, "steps_per_print": 1_000_000,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}, "zero_optimization": zero}


# (name, ranks, configuration). The profile is fitted to the first.
CONFIGURATIONS = tuple(
    (f"{name}, {ranks} rank{'s'[:ranks - 1]}", ranks, document)
    for ranks in (2, 1) for name, document in (
        ("stage 2, optimizer offloaded", configuration(2, "optimizer")),
        ("stage 2", configuration(2)),
        ("stage 3", configuration(3)),
        ("stage 3, optimizer offloaded", configuration(3, "optimizer")),
        ("stage 3, parameters offloaded", configuration(3, "optimizer", "param")),
        ("stage 2, ZenFlow", configuration(2, "optimizer", zenflow=True)),
    ))


def settings_of(number, document, clock):
    zenflow = "zenflow" in document["zero_optimization"]
    return {"model": MODEL, "deepspeed": document, "sequences": SEQUENCES, "tokens": TOKENS,
            "warmup": 8 if zenflow else 3, "steps": 16 if zenflow else 12, "probe": number == 0,
            "clock": clock,
            "memory_steps": 8 if zenflow else 4}


def phases_of(steps, zenflow):
    """Seconds of forward, backward and step: of the median step of quiet half of the steps. Under
    ZenFlow steps differ, and the mean is that of whole windows."""
    if zenflow:
        return [statistics.fmean(one) for one in zip(*steps)]
    quiet = sorted(steps, key=sum)[:(len(steps) + 1) // 2]
    return [statistics.median(one) for one in zip(*quiet)]


def measure(options, folder, kept):
    """Runs by name; rounds are interleaved, and each run is that of its fastest round."""
    runs, failed = json.loads(kept.read_text()) if kept.exists() else ({}, {})
    there = set(runs)
    for _ in range(options.rounds):
        for number, (name, ranks, document) in enumerate(CONFIGURATIONS):
            if name in failed or name in there:
                continue
            try:
                run = train(settings_of(number, document, options.clock), ranks, folder)
            except Failed as error:
                if number == 0:
                    raise
                failed[name] = str(error)
                continue
            zenflow = "zenflow" in document["zero_optimization"]
            run["phases"] = phases_of(run["steps"][options.clock], zenflow)
            best = runs.get(name)
            if best is None or sum(run["phases"]) < sum(best["phases"]):
                runs[name] = run
            print(f"{name:<42} {sum(run['phases']) * 1e3:7.1f} ms  "
                  f"{run['memory']['Pss'] / 2**20:6.0f} MiB", file=sys.stderr, flush=True)
            kept.write_text(json.dumps([runs, failed]))
    return runs, failed


def error(predicted, measured):
    return predicted / measured - 1


def rows_of(options, runs, profile, folder):
    known = schedules_of(options.program)
    rows = []
    for name, ranks, document in CONFIGURATIONS:
        if name not in runs:
            continue
        run = runs[name]
        scenario = scenario_of(folder, MODEL, document, ranks, TOKENS, profile["file"], known)
        found = predict(options.program, scenario, folder)
        measured = run["phases"]
        memory = found["buffers"] + profile["process"] * ranks + profile["files"]
        rows.append({
            "name": name, "ranks": ranks, "fitted": name == CONFIGURATIONS[0][0],
            "schedule": found["schedule"],
            "phases_ms": {phase: [1e3 * one, 1e3 * other] for phase, one, other in zip(
                ("forward", "backward", "step"), found["phases"], measured)},
            "step_ms": [1e3 * found["step"], 1e3 * sum(measured)],
            "step_error": error(found["step"], sum(measured)),
            "memory_mib": [memory / 2**20, run["memory"]["Pss"] / 2**20],
            "memory_error": error(memory, run["memory"]["Pss"]),
            "shared_memory_mib": [found["shared_memory"] / 2**20, run["shared_memory"] / 2**20]})
    return rows


def summary_of(rows):
    predicted = [row for row in rows if not row["fitted"]]
    summary = {}
    for what in ("step", "memory"):
        errors = [row[f"{what}_error"] for row in predicted]
        sizes = [abs(one) for one in errors]
        summary[what] = {"mean": statistics.fmean(sizes), "signed_mean": statistics.fmean(errors),
                         "worst": max(sizes)}
    return summary


def table_of(document):
    lines = ["| run | forward | backward | step() | whole step | error | memory, MiB | error "
             "| /dev/shm, MiB |", "|---|---|---|---|---|---|---|---|---|"]
    for row in document["rows"]:
        def pair(values, digits=0):
            return " / ".join(f"{one:.{digits}f}" for one in values)
        cells = [row["name"] + (" (fitted)" if row["fitted"] else ""),
                 *(pair(row["phases_ms"][phase]) for phase in ("forward", "backward", "step")),
                 pair(row["step_ms"]), f"{100 * row['step_error']:+.0f} %", pair(row["memory_mib"]),
                 f"{100 * row['memory_error']:+.0f} %", pair(row["shared_memory_mib"])]
        lines.append("| " + " | ".join(cells) + " |")
    for name, why in document["failed"].items():
        lines.append(f"| {name} | does not run: {why.splitlines()[-1]} |" + " |" * 7)
    return lines


def report_of(document):
    step, memory = document["summary"]["step"], document["summary"]["memory"]
    return [
        f"DeepSpeed {document['deepspeed']}, PyTorch {document['pytorch']} on {document['machine']},"
        f" {document['date']}. A Llama of {document['parameters'] / 1e6:.1f} million parameters, "
        f"{SEQUENCES} x {TOKENS} tokens a rank, bf16, one thread a rank. Cells are predicted / "
        "measured, times in ms.", "", *table_of(document), "",
        f"Of the {len(document['rows']) - 1} predicted runs: step time {100 * step['mean']:.0f} % "
        f"mean, {100 * step['worst']:.0f} % worst (signed mean {100 * step['signed_mean']:+.0f} %);"
        f" resident memory {100 * memory['mean']:.0f} % mean, {100 * memory['worst']:.0f} % worst."]


def machine_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip() + ", CPU accelerator"
    return "CPU accelerator"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="zenflow-sim")
    parser.add_argument("calibrate", help="zenflow-calibrate")
    parser.add_argument("--write", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: time of the ranks' own threads, for a machine that others use")
    parser.add_argument("--keep", metavar="FOLDER", type=pathlib.Path,
                        help="scenarios, profile and measured runs are left there; measured runs "
                             "that are there already are taken instead of new ones")
    options = parser.parse_args()
    import deepspeed
    import torch
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or pathlib.Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "runs.json"
        if not (folder / "probed.yaml").exists():
            probe_machine(options.calibrate, folder)
        runs, failed = measure(options, folder, kept)
        first, ranks, document = CONFIGURATIONS[0]
        profile = fit(options.program, folder, runs[first],
                      lambda file: scenario_of(folder, MODEL, document, ranks, TOKENS, file,
                                               schedules_of(options.program)), ranks)
        rows = rows_of(options, runs, profile, folder)
    document = {
        "schema_version": 1, "date": datetime.date.today().isoformat(), "machine": machine_name(),
        "deepspeed": deepspeed.__version__.split("+")[0],
        "pytorch": torch.__version__.split("+")[0], "parameters": runs[first]["parameters"],
        "fitted": profile["fitted"], "rows": rows, "failed": failed, "summary": summary_of(rows)}
    lines = report_of(document)
    print("\n".join(lines))
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        (options.write / "table.md").write_text("\n".join(lines) + "\n")
        (options.write / "runs.json").write_text(json.dumps(document, indent=1) + "\n")
    step, memory = document["summary"]["step"], document["summary"]["memory"]
    missed = (step["mean"] > STEP_TARGET["mean"] or step["worst"] > STEP_TARGET["worst"] or
              memory["worst"] > MEMORY_TARGET["worst"])
    far = (step["mean"] > 2 * STEP_TARGET["mean"] or step["worst"] > 2 * STEP_TARGET["worst"] or
           memory["worst"] > 2 * MEMORY_TARGET["worst"])
    print(f"targets (step 15 % mean, 30 % worst; memory 10 %): {'missed' if missed else 'reached'}")
    return 1 if failed or far else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, subprocess.CalledProcessError) as problem:
        sys.exit(f"steps: {problem}")
