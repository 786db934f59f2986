"""Rows for zenflow-validate --published from what the phase "jobs" measured.

  jobs_rows.py JOBS.jsonl [JOBS.jsonl...] FOLDER NODE DATE
Writes FOLDER/rows.yaml and FOLDER/models/. NODE is a profile's name, FOLDER/profiles/NODE.yaml or a
shipped one. Of every job: its optimizer step (the median; under ZenFlow, whose steps differ, the mean), the most that
PyTorch's allocator gave out, and what its process grew by in RAM. A job that was measured on
several machines has a row for each of them; one that failed has none. FOLDER/causes.json, if it is
there, maps rows that are far off to why.
"""
import json
import pathlib
import statistics
import sys

GIB = 2**30


def schedule_of(job):
    if job["zenflow"]:
        return "deepspeed-zenflow"
    return "deepspeed-zero-offload" if job["offloaded"] else "deepspeed-zero"


def figures_of(job):
    """(quantity, value, unit, uncertainty) of each."""
    steps = job["step_s"]
    mean = bool(job["zenflow"])
    step = statistics.fmean(steps) if mean else statistics.median(steps)
    spread = 100 * (max(steps) - min(steps)) / (2 * step)
    yield ("optimizer step", step, "s",
           "steps differ" if mean else f"half of the range of {len(steps)} steps: {spread:.0f} %")
    yield "gpu peak memory", job["gpu"]["allocated"] / GIB, "GiB", "exact: max_memory_allocated"
    # Before "system" was recorded, libraries that are loaded later counted; ZenFlow's worker is
    # another process; without offloading there is nothing but libraries.
    if "system" not in job["host"] or job["zenflow"] or not job["offloaded"]:
        return
    yield ("host memory", (job["host"]["peak"] - job["host"]["before"]) / GIB, "GiB",
           "proportional set size after the last step, less before DeepSpeed")


def rows_of(job, machine, node, date, causes):
    first = None
    for quantity, value, unit, uncertainty in figures_of(job):
        name = {"optimizer step": "step", "gpu peak memory": "gpu", "host memory": "host"}[quantity]
        row = {"id": f"{job['job']}-{machine}-{name}"}
        if first:
            row["like"] = first
        else:
            first = row["id"]
            row |= {"node": node, "model": job["model"], "gpus": 1, "nodes": 1,
                    "micro_batch": job["micro_batch"], "seq": job["sequence"],
                    "ga": job["accumulation"], "dtype": job["dtype"],
                    "activation_checkpointing": job["checkpointing"], "bind_cores": False,
                    "deepspeed_version": job["versions"]["deepspeed"],
                    "schedule": schedule_of(job), "release_modelled": "modelled",
                    "deepspeed": job["deepspeed"]}
        row |= {"quantity": quantity, "value": float(f"{value:.5g}"), "unit": unit}
        if name == "step":
            row |= {"source": f"our own: ./script/gpu-check --only jobs, {date}, machine {machine}",
                    "how_read": f"measured: torch {job['versions']['torch']}, transformers "
                                f"{job['versions']['transformers']}, {job['cpus']} cores"}
        row |= {"uncertainty": uncertainty, "judged": True, "simulated": True}
        if row["id"] in causes:
            row["cause"] = causes[row["id"]]
        yield row


def written(row):
    """One row; JSON is YAML."""
    lines = []
    for key, value in row.items():
        lines.append(f"{'  ' if lines else '- '}{key}: {json.dumps(value)}")
    return "\n".join(lines)


def main():
    *files, folder, node, date = sys.argv[1:]
    folder = pathlib.Path(folder)
    (folder / "models").mkdir(parents=True, exist_ok=True)
    file = folder / "causes.json"
    causes = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    rows = []
    for number, file in enumerate(files, 1):
        for line in pathlib.Path(file).read_text(encoding="utf-8").splitlines():
            job = json.loads(line)
            if "error" in job:
                continue
            model = folder / "models" / f"{job['model']}.json"
            model.write_text(json.dumps(job["config"], indent=1) + "\n", encoding="utf-8")
            rows += rows_of(job, number, node, date, causes)
    head = "# Written by script/gpu_check/jobs_rows.py from jobs*.jsonl; see README.md.\n"
    (folder / "rows.yaml").write_text(head + "\n".join(map(written, rows)) + "\n",
                                      encoding="utf-8")


if __name__ == "__main__":
    main()
