"""What zenflow-sim predicts of a training that steps.py measures."""

import json

from schedule import run

PHASES = ("forward", "backward")


def schedules_of(program):
    """Names of the schedules that this zenflow-sim knows."""
    return {line.split()[0] for line in run([program, "list", "schedules"]).splitlines()
            if line and line[0].isalpha()}


def schedule_of(document, known):
    zero = document["zero_optimization"]
    if "zenflow" in zero:
        return "deepspeed-zenflow"
    if "offload_optimizer" in zero:
        return "deepspeed-zero-offload"
    return "deepspeed-zero" if "deepspeed-zero" in known else "gpu-only"


def scenario_of(folder, model, document, ranks, tokens, profile, known):
    """Writes model, DeepSpeed file and scenario; the scenario's file."""
    (folder / "model.json").write_text(json.dumps(model))
    (folder / "ds.json").write_text(json.dumps(document))
    zenflow = "zenflow" in document["zero_optimization"]
    file = folder / "steps.yaml"
    file.write_text(
        f"name: steps\nmodel: model.json\nhardware: {profile}\ngpus: {ranks}\nnodes: 1\n"
        "training: {micro_batch_size_per_gpu: "
        f"{document['train_micro_batch_size_per_gpu']}, sequence_length: {tokens}, dtype: bf16, "
        "activation_checkpointing: false}\n"
        "deepspeed: ds.json\nlaunch: {omp_num_threads: 1, bind_cores_to_rank: false}\n"
        f"schedules: [{schedule_of(document, known)}]\n"
        f"run: {{warmup_steps: {8 if zenflow else 4}, steps: {16 if zenflow else 4}}}\n")
    return file


def phases_in(trace):
    """Seconds of forward, backward and the rest of a step on the first GPU, the mean of all steps,
    by the host's clock: a copy or reduction before the next phase belongs to the one before."""
    spans = [one for one in trace["traceEvents"] if one.get("ph") == "X" and one.get("pid", 0) == 0]
    steps = [one for one in spans if one["name"].startswith("ProfilerStep")]
    sums = [0.0, 0.0, 0.0]
    for step in steps:
        start, end = step["ts"], step["ts"] + step["dur"]
        inside = [one for one in spans if one.get("cat") == "kernel" and
                  start - 1e-3 <= one["ts"] < end - 1e-3]
        backward = [one for one in inside if one["name"].startswith(("backward", "gradient norm"))]
        first = min(one["ts"] for one in backward)
        last = max(one["ts"] + one["dur"] for one in backward)
        sums = [sums[0] + first - start, sums[1] + last - first, sums[2] + end - last]
    return [one / len(steps) / 1e6 for one in sums]


def predict(program, scenario, folder, *overrides):
    """Seconds of the step and its phases; bytes of all buffers of GPUs and host, and in /dev/shm.
    """
    flags = [word for one in overrides for word in ("--set", one)]
    trace = folder / "predicted.json"
    text = run([program, "run", str(scenario), "--json", "-q", "-f", "--trace", str(trace), *flags])
    result = json.loads(text)["results"][0]
    memory = result["memory"]
    ranks = json.loads(text)["hardware"]["gpus"]
    # Contexts and processes are not what DeepSpeed holds; the profile of a run says their size.
    buffers = (ranks * (memory["gpu_peak_bytes"] - memory["gpu"].get("context", 0)) +
               memory["host_peak_bytes"] - memory["host"].get("framework", 0))
    fit = json.loads(run([program, "fit", str(scenario), "--json", "-q", *flags]))
    shared = sum(one["bytes_at_peak"] for one in fit["results"][0]["host"]["buffers"]
                 if "shm" in one["where"] or "shared" in one["where"])
    return {"schedule": result["schedule"], "step": result["step_time_ms"] / 1e3,
            "phases": phases_in(json.loads(trace.read_text())), "buffers": buffers,
            "shared_memory": shared}
