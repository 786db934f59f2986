"""Does DeepSpeed's ZenFlow run micro steps as zenflow-sim's deepspeed-zenflow schedule says?

Run by script/interop in a virtual environment with deepspeed:
  schedule.py ZENFLOW_SIM [--steps N]
For every configuration a toy model takes 16 micro steps on the CPU (train.py) and
`zenflow-sim steps` says what they should do: boundaries, selections, which of the two gradient
buffers an update reads, which update's weights arrive. Exit code 1 if anything differs.

Stages 1 and 2. Stage 3 does not run on a CPU: at its first selection update_selected_channels in
deepspeed/runtime/zenflow/engine_stage3.py allocates with device='cuda' (0.19.8).
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NATIVE_WORKER = (0, 19, 3)  # the first release whose overlapped update is one process and op


def configuration(stage, overlap, warm_up, interval, select):
    return {
        "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1,
        "bf16": {"enabled": True}, "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": {
            "stage": stage, "overlap_comm": True,
            "offload_optimizer": {"device": "cpu", "pin_memory": True},
            "zenflow": {"topk_ratio": 0.25, "select_strategy": "step", "select_interval": select,
                        "update_interval": interval, "full_warm_up_rounds": warm_up,
                        "overlap_step": overlap}},
    }


# (stage, overlap_step, full_warm_up_rounds, update_interval, select_interval). Windows that
# selection cuts short (4 and 10, 3 and 5) and warm-up that is no multiple of them are among these.
VARIED = (
    (2, False, 0, 4, 8), (2, False, 1, 4, 8), (2, False, 4, 4, 8), (2, False, 0, 2, 0),
    (2, False, 3, 4, 10), (2, False, 0, 1, 4),
    (2, True, 0, 4, 8), (2, True, 1, 4, 8), (2, True, 4, 4, 8), (2, True, 0, 2, 0),
    (2, True, 0, 4, 10), (2, True, 4, 4, 10), (2, True, 1, 2, 6), (2, True, 3, 2, 5),
    (2, True, 0, 3, 5), (2, True, 2, 1, 4),
    (1, False, 1, 2, 8), (1, True, 4, 4, 8),
)
SHIPPED = ("zenflow_k10_s4", "corebinding")


class Failed(RuntimeError):
    """A program did not do what it was started for."""


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False,
                          **more)
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-15:])
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{tail}")
    return done.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def simulated(program, folder, config, steps):
    scenario = folder / "scenario.yaml"
    micro = json.loads(config.read_text())
    size = micro.get("train_micro_batch_size_per_gpu") or micro["train_batch_size"]
    scenario.write_text(
        f"name: interop\nmodel: {ROOT}/scenarios/models/opt_125m.json\n"
        f"hardware: {ROOT}/profiles/h200_x1.yaml\ngpus: 1\nnodes: 1\n"
        f"training: {{micro_batch_size_per_gpu: {size}, sequence_length: 128, dtype: bf16}}\n"
        f"deepspeed: {config}\nschedules: [deepspeed-zenflow]\nrun: {{steps: {steps}}}\n")
    output = run([program, "steps", str(scenario), "--count", str(steps), "--json", "--quiet"])
    return json.loads(output)["schedules"][0]["micro_steps"]


def executed(folder, config, steps):
    """What train.py recorded, in the words of `zenflow-sim steps`."""
    output = folder / "records.json"
    run([sys.executable, "-W", "ignore", str(pathlib.Path(__file__).with_name("train.py")),
         str(config), str(steps), str(output)],
        env={**os.environ, "MASTER_PORT": str(free_port())}, timeout=600)
    micro_steps = []
    submitted = []
    for number, record in enumerate(json.loads(output.read_text())):
        calls = record["calls"]
        submits = calls.get("zenflow_cpu_optimizer_step", [])
        weights_of = None
        # Updates are handed over and awaited in order, so the n-th wait is for the n-th update.
        submitted += [number] * len(submits)
        if "_wait_for_optimizer_process" in calls:
            weights_of = submitted.pop(0)
        if "step" in calls:  # the blocking update of overlap_step false
            weights_of = number
        written = set(calls.get("async_inplace_copy_grad_to_fp32_buffer_from_gpu", submits))
        if submits and written != set(submits):
            raise Failed(f"step {number}: gradients went to buffers {sorted(written)}, the worker "
                         f"reads {submits}")
        synchronised = [step for step in calls.get("sync_fp32_param_from_gpu", []) if step > 0]
        micro_steps.append({
            "step": number, "boundary": record["boundary"],
            "updates": bool(submits) or "step" in calls,
            "selects": "update_selected_channels" in calls,
            "resynchronises": bool(synchronised),
            "buffer": submits[0] if submits else None, "weights_of": weights_of})
    return micro_steps


def differences(expected, found):
    """Lines that say where the two differ; empty if nowhere."""
    lines = []
    for simulation, reality in zip(expected, found, strict=True):
        both = {
            "boundary": (simulation["boundary"], reality["boundary"]),
            "update": (simulation["boundary"], reality["updates"]),
            "selection": (simulation["selects"], reality["selects"]),
            "master overwritten": (simulation["selects"] and simulation["step"] > 0,
                                   reality["resynchronises"]),
            "buffer": (simulation["buffer"], reality["buffer"]),
            "weights of": (simulation["weights_of"], reality["weights_of"]),
        }
        lines += [f"step {simulation['step']}: {what}: simulated {one}, DeepSpeed {other}"
                  for what, (one, other) in both.items() if one != other]
    return lines


def documents(program, folder):
    """(name, document) of every configuration: made here, fixed by lint, and shipped ones."""
    for values in VARIED:
        yield ("stage {} overlap {} W {} S {} select {}".format(*values), configuration(*values))
    crooked = folder / "crooked.json"
    crooked.write_text(json.dumps(configuration(2, True, 3, 4, 10)))
    fixed = folder / "fixed.json"
    run([program, "lint", str(crooked), "--fix", str(fixed), "-f"])
    yield "the above as lint --fix writes it", json.loads(fixed.read_text())
    for name in SHIPPED:
        file = ROOT / "scenarios" / "ds" / f"{name}.json"
        document = json.loads(file.read_text())
        document.pop("train_batch_size", None)  # of more ranks than the one here
        document["train_micro_batch_size_per_gpu"] = 4
        yield f"{name}.json", document


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="zenflow-sim")
    parser.add_argument("--steps", type=int, default=16)
    options = parser.parse_args()
    start = time.monotonic()
    import deepspeed
    version = tuple(int(part) for part in deepspeed.__version__.split("+")[0].split("."))
    if version < NATIVE_WORKER:
        print(f"schedule: not compared with DeepSpeed {deepspeed.__version__}: before 0.19.3 "
              "ZenFlow's updates pass through a pipe, which this does not watch")
        return 0
    compared = differing = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = folder / "ds.json"
        for title, document in documents(options.program, folder):
            config.write_text(json.dumps(document))
            expected = simulated(options.program, folder, config, options.steps)
            found = executed(folder, config, options.steps)
            lines = differences(expected, found)
            compared += 1
            differing += bool(lines)
            updates = sum(step["updates"] for step in found)
            selections = sum(step["selects"] for step in found)
            print(f"{title:<42} {updates:>2} updates {selections:>2} selections  "
                  f"{'DIFFERS' if lines else 'agrees'}", flush=True)
            for line in lines:
                print(f"  {line}")
    print(f"\nDeepSpeed {deepspeed.__version__}: {compared} configurations of {options.steps} "
          f"micro steps, {compared - differing} agree, {time.monotonic() - start:.0f} s")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
