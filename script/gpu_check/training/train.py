"""Trains one case in this process and appends what it measures to a file, line by line.

  train.py OUTPUT.jsonl TRACE.json.gz DEVICE MODEL CASE
Every line has "case" and "line":
  begin   versions, device, processors; written before the model is made
  ready   configuration, seconds until the first micro-step
  part    micro-steps of one way of measuring. Of each: "at_ns" (CLOCK_MONOTONIC), milliseconds that
          forward, backward and step took to return, whether weights are updated, whether columns
          are selected. "total_ms" is the part's, until the device is idle
  end     losses
"""
import json
import math
import os
import pathlib
import platform
import socket
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402

from gpu_check import traces  # noqa: E402
from gpu_check.training.cases import Case, parse  # noqa: E402
from gpu_check.training.shapes import SHAPES, parameters  # noqa: E402


class Output:
    def __init__(self, path, case):
        self.path = path
        self.case = case.name

    def line(self, kind, **fields):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"case": self.case, "line": kind, **fields}) + "\n")


def join_group_of_one():
    """What DeepSpeed's launcher would have set."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_WORLD_SIZE="1",
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def shared_memory_free():
    facts = os.statvfs("/dev/shm")
    return facts.f_bavail * facts.f_frsize


def require_shared_memory(case):
    """ZenFlow's worker shares 16 bytes a parameter; a file system that is full is a bus error."""
    need = 16 * parameters(SHAPES[case.model])
    if case.method == "zenflow" and shared_memory_free() < need:
        sys.exit(f"skipped: /dev/shm has {shared_memory_free()} bytes free, {need} are needed")


def software(case):
    versions = {"python": platform.python_version(), "torch": torch.__version__,
                "cuda": torch.version.cuda}
    if case.method != "plain":
        import deepspeed
        versions["deepspeed"] = deepspeed.__version__
    return versions


class Measurement:
    """Takes micro-steps and times them."""

    def __init__(self, case, device, trainer, output):
        shape = SHAPES[case.model]
        self.case, self.trainer, self.output = case, trainer, output
        self.synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
        self.generator = torch.Generator(device=device).manual_seed(2)
        # A few batches over and over: their losses fall, if training works.
        self.batches = [torch.randint(shape.vocabulary, (shape.micro_batch, shape.sequence),
                                      device=device, generator=self.generator) for _ in range(4)]
        self.losses = []

    def micro_step(self, wait):
        """`wait` is called after forward, backward and step."""
        trainer = self.trainer
        number, update = trainer.micro_step, trainer.boundary()
        at = time.monotonic_ns()
        loss = trainer.forward(self.batches[number % len(self.batches)])
        wait()
        forward = time.monotonic_ns()
        trainer.backward(loss)
        wait()
        backward = time.monotonic_ns()
        trainer.step()
        wait()
        end = time.monotonic_ns()
        self.losses.append(loss.detach())
        print(f"gpu-check micro_step {number}", flush=True)  # between DeepSpeed's lines
        return {"micro_step": number, "update": update, "selects": trainer.selections() > 0,
                "at_ns": at, "forward_ms": (forward - at) / 1e6,
                "backward_ms": (backward - forward) / 1e6, "step_ms": (end - backward) / 1e6}

    def part(self, name, count, wait=lambda: None):
        """(micro-steps, the part's end on CLOCK_MONOTONIC); the device is idle before and after."""
        self.synchronize()
        start = time.monotonic_ns()
        steps = [self.micro_step(wait) for _ in range(count)]
        self.synchronize()
        end = time.monotonic_ns()
        self.output.line("part", part=name, total_ms=(end - start) / 1e6, micro_steps=steps)
        return steps, end

    def profiled(self, trace):
        """PyTorch's profiler around some micro-steps; `trace` gets them, cut to size."""
        self.part("before profiled", self.case.before_profiled)
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        offset = time.time_ns() - time.monotonic_ns()  # Kineto's clock is that of time.time_ns
        with torch.profiler.profile(activities=activities) as profiler:
            steps, end = self.part("profiled", self.case.profiled)
        with tempfile.TemporaryDirectory() as folder:
            whole = pathlib.Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(whole))
            bounds = [step["at_ns"] + offset for step in steps] + [end + offset]
            self.output.line("trace", by="torch.profiler", **traces.cut(
                whole, trace, bounds, steps[0]["micro_step"], self.case.name))

    def run(self, trace):
        case = self.case
        self.part("warm-up", case.warm_up)
        if case.mode == "timing":
            self.part("free", case.measured)
            self.part("synchronized", case.measured, self.synchronize)
            self.profiled(trace)
        elif case.mode == "breakdown":
            self.part("breakdown", case.measured)
        else:
            self.part("before recorded", case.before_profiled)
            _, end = self.part("recorded", case.profiled)
            # The part's end, for whoever cuts the recording.
            self.output.line("recorded", end_ns=end, process=os.getpid())
        losses = [loss.item() for loss in self.losses]
        first_bad = next((i for i, loss in enumerate(losses) if not math.isfinite(loss)), None)
        self.output.line("end", losses=[x if math.isfinite(x) else None for x in losses],
                         not_finite_at=first_bad)


def main():
    output_file, trace, device, model, text = sys.argv[1:]
    case = Case(model, **parse(text), quick=bool(os.environ.get("GPU_CHECK_QUICK")))
    output = Output(output_file, case)
    require_shared_memory(case)
    join_group_of_one()
    on_gpu = device == "cuda"
    output.line("begin", **case.__dict__, shape=SHAPES[model].__dict__,
                parameters=parameters(SHAPES[model]), versions=software(case),
                device=torch.cuda.get_device_name() if on_gpu else "cpu",
                cpus=len(os.sched_getaffinity(0)), omp_threads=os.environ.get("OMP_NUM_THREADS"),
                shared_memory_free=shared_memory_free(),
                date=time.strftime("%Y-%m-%d", time.gmtime()))
    from gpu_check.training.trainers import new_trainer
    start = time.monotonic()
    trainer = new_trainer(case, device)
    output.line("ready", seconds=time.monotonic() - start, optimizer=trainer.optimizer_text,
                configuration=trainer.config, keeps_weights=trainer.keeps_weights,
                torch_threads=torch.get_num_threads())
    measurement = Measurement(case, device, trainer, output)
    measurement.run(pathlib.Path(trace))
    if on_gpu:
        output.line("memory", device_peak=torch.cuda.max_memory_allocated(),
                    cpus_left_to_training=len(os.sched_getaffinity(0)))
    print("gpu-check done", flush=True)


if __name__ == "__main__":
    main()
