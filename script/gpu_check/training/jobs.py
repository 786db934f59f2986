"""Ordinary DeepSpeed jobs, one after the other: step time by phase, memory of GPU and host.

  jobs.py OUTPUT.jsonl DEVICE [JOB...]  run by the phase; without JOB all of JOBS that time allows
Models are transformers' own with random weights. Each job is a process forked from this one, which
has imported everything and never touched the GPU, so that a job costs no import and leaves nothing
to the next. A line for each job, with "job" and its keys:
  deepspeed      the configuration as given
  step_s         seconds of each optimizer step (all of its micro-steps), GPU idle before and after
  phases_s       [forward, backward, step()] of further steps, waited for after each; sums over
                 micro-steps
  gpu            bytes: "allocated" and "reserved" at most by PyTorch, "used" as the driver counts
  host           bytes: "before" DeepSpeed, with the libraries loaded, and at the end ("peak"),
                 resident (Pss); "system": what the system has less available than before DeepSpeed,
                 "system_before": what it had less then than when the process began; "pinned" by
                 PyTorch's host allocator
  host_us        of one core before any job, the least of several rounds: "python" a method call in a
                 loop, "torch" an addition of two small tensors in RAM
  error          instead of these, if it failed
Of the jobs that $GPU_CHECK_TRACED names, separated by commas, a step more is recorded by PyTorch's
profiler (under ZenFlow the window that selects): traces/JOB.json.gz beside OUTPUT. Exit code 0, or 1 if a job failed.
"""
import dataclasses
import faulthandler
import gc
import json
import os
import pathlib
import signal
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

WARMUP, TIMED, PHASED = 3, 6, 3
LIMIT = int(os.environ.get("GPU_CHECK_LIMIT", "525")) - 15
JOB_SECONDS = 90

MODELS = {
    # Sheared-LLaMA-1.3B.
    "llama_1_3b": {"model_type": "llama", "vocab_size": 32000, "hidden_size": 2048,
                   "intermediate_size": 5504, "num_hidden_layers": 24, "num_attention_heads": 16,
                   "num_key_value_heads": 16, "max_position_embeddings": 4096,
                   "tie_word_embeddings": False},
    "qwen2_5_0_5b": {"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896,
                     "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
                     "num_key_value_heads": 2, "max_position_embeddings": 32768,
                     "tie_word_embeddings": True},
    "gpt2_xl": {"model_type": "gpt2", "vocab_size": 50257, "n_embd": 1600, "n_layer": 48,
                "n_head": 25, "n_positions": 1024, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
                "attn_pdrop": 0.0},
    "llama3_2_1b": {"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048,
                    "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
                    "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072,
                    "tie_word_embeddings": True},
    "gpt2_medium": {"model_type": "gpt2", "vocab_size": 50257, "n_embd": 1024, "n_layer": 24,
                    "n_head": 16, "n_positions": 1024, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
                    "attn_pdrop": 0.0},
    "llama3_2_3b": {"model_type": "llama", "vocab_size": 128256, "hidden_size": 3072,
                    "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24,
                    "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072,
                    "tie_word_embeddings": True},
    "qwen3_1_7b": {"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 2048,
                   "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
                   "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
                   "tie_word_embeddings": True},
    "llama_tiny": {"model_type": "llama", "vocab_size": 512, "hidden_size": 64,
                   "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
                   "num_key_value_heads": 4, "tie_word_embeddings": False},
}
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM",
                 "qwen3": "Qwen3ForCausalLM", "gpt2": "GPT2LMHeadModel"}


@dataclasses.dataclass(frozen=True)
class Job:
    model: str
    micro_batch: int
    sequence: int
    stage: int
    offloaded: tuple = ()
    accumulation: int = 1
    checkpointing: bool = False
    dtype: str = "bf16"
    pinned: bool = True
    zenflow: tuple = ()  # (topk_ratio, update_interval)

    @property
    def name(self):
        parts = [self.model, f"b{self.micro_batch}x{self.sequence}", f"z{self.stage}",
                 *(f"off_{what}" for what in self.offloaded)]
        parts += [f"ga{self.accumulation}"] if self.accumulation > 1 else []
        parts += ["ckpt"] if self.checkpointing else []
        parts += [self.dtype] if self.dtype != "bf16" else []
        parts += [] if self.pinned else ["pageable"]
        if self.zenflow:
            parts.append(f"zenflow_k{self.zenflow[0]}_s{self.zenflow[1]}")
        return "-".join(parts)

    def configuration(self):
        zero = {"stage": self.stage, "overlap_comm": self.stage > 0}
        for what in self.offloaded:
            zero[f"offload_{what}"] = {"device": "cpu", "pin_memory": self.pinned}
        if self.zenflow:
            k, interval = self.zenflow
            zero["zenflow"] = {"topk_ratio": k, "select_strategy": "step",
                               "select_interval": 4 * interval, "update_interval": interval,
                               "full_warm_up_rounds": 0, "overlap_step": True}
            zero["overlap_comm"] = False
        precision = {"fp16": {"enabled": True, "loss_scale": 1024}} if self.dtype == "fp16" else {
            "bf16": {"enabled": True}}
        return {"train_micro_batch_size_per_gpu": self.micro_batch,
                "gradient_accumulation_steps": self.accumulation, **precision,
                "gradient_clipping": 1.0, "steps_per_print": 1_000_000,
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}, "zero_optimization": zero}


OPTIMIZER, BOTH = ("optimizer",), ("optimizer", "param")
JOBS = (
    Job("llama_1_3b", 2, 2048, 2, OPTIMIZER),
    Job("llama_1_3b", 2, 2048, 0),
    Job("qwen2_5_0_5b", 4, 1024, 2, OPTIMIZER),
    Job("qwen2_5_0_5b", 4, 1024, 3, BOTH),
    Job("qwen2_5_0_5b", 1, 512, 2, OPTIMIZER),
    Job("qwen2_5_0_5b", 4, 1024, 2),
    Job("qwen2_5_0_5b", 4, 1024, 3),
    Job("llama_1_3b", 2, 2048, 3, BOTH),
    Job("llama_1_3b", 4, 2048, 2, OPTIMIZER, accumulation=4, checkpointing=True),
    Job("gpt2_xl", 4, 1024, 2, OPTIMIZER, dtype="fp16"),
    Job("qwen2_5_0_5b", 4, 1024, 2, OPTIMIZER, zenflow=(0.1, 4)),
    Job("qwen2_5_0_5b", 4, 1024, 3, OPTIMIZER),
    Job("qwen2_5_0_5b", 4, 1024, 1),
    Job("qwen2_5_0_5b", 4, 1024, 0),
    Job("gpt2_xl", 4, 1024, 1),
    Job("qwen2_5_0_5b", 4, 1024, 2, OPTIMIZER, pinned=False),
    Job("qwen2_5_0_5b", 16, 1024, 2, OPTIMIZER),
    Job("llama_1_3b", 1, 512, 2, OPTIMIZER),
    Job("llama3_2_1b", 2, 2048, 2, OPTIMIZER),
    Job("llama3_2_1b", 2, 2048, 3, BOTH),
    Job("llama3_2_1b", 8, 2048, 2, checkpointing=True),
    Job("gpt2_medium", 8, 1024, 2, OPTIMIZER, accumulation=2),
    Job("gpt2_medium", 8, 1024, 0, accumulation=4),
    Job("gpt2_xl", 4, 1024, 2, OPTIMIZER),
    Job("gpt2_xl", 4, 1024, 2, OPTIMIZER, zenflow=(0.1, 4)),
    Job("llama_1_3b", 2, 2048, 2, OPTIMIZER, zenflow=(0.1, 4)),
    Job("llama_1_3b", 2, 2048, 2, OPTIMIZER, zenflow=(0.05, 8)),
    Job("qwen3_1_7b", 2, 1024, 2, OPTIMIZER),
    Job("qwen3_1_7b", 4, 2048, 2, OPTIMIZER, accumulation=8, checkpointing=True),
    Job("llama3_2_3b", 2, 2048, 3, BOTH, checkpointing=True),
    Job("llama3_2_3b", 4, 1024, 2, OPTIMIZER, checkpointing=True),
)
REHEARSED = (Job("llama_tiny", 2, 32, 2, OPTIMIZER), Job("llama_tiny", 2, 32, 3, BOTH),
             Job("llama_tiny", 2, 32, 0, accumulation=2))


def resident():
    for line in pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/smaps_rollup has no Pss")


def available():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo has no MemAvailable")


class Training:
    def __init__(self, job, device):
        self.at_start = available()
        import deepspeed
        import torch
        import transformers

        self.torch, self.job, self.on_gpu = torch, job, device == "cuda"
        self.steps = 0
        torch.manual_seed(1)
        config = transformers.AutoConfig.for_model(**MODELS[job.model])
        config._attn_implementation = "sdpa"
        with torch.device(device):
            model = transformers.AutoModelForCausalLM.from_config(
                config, dtype=torch.float16 if job.dtype == "fp16" else torch.bfloat16)
        if job.checkpointing:
            model.gradient_checkpointing_enable()
        model.train()
        self.batch = torch.randint(0, config.vocab_size, (job.micro_batch, job.sequence),
                                   device=device)
        if not job.checkpointing:  # libraries are loaded when they are first needed
            model(input_ids=self.batch, labels=self.batch, use_cache=False).loss.backward()
            model.zero_grad(set_to_none=True)
        if self.on_gpu:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        self.before = {"resident": resident(), "available": available()}
        self.engine = deepspeed.initialize(model=model, model_parameters=model.parameters(),
                                           config=job.configuration())[0]

    def synchronize(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def step(self, wait=lambda: None):
        """Seconds of [forward, backward, step()] over the micro-steps of an optimizer step."""
        self.steps += 1
        sums = [0.0, 0.0, 0.0]
        for _ in range(self.job.accumulation):
            marks = [time.perf_counter()]
            loss = self.engine(input_ids=self.batch, labels=self.batch, use_cache=False).loss
            wait()
            marks.append(time.perf_counter())
            self.engine.backward(loss)
            wait()
            marks.append(time.perf_counter())
            self.engine.step()
            wait()
            marks.append(time.perf_counter())
            sums = [total + end - start for total, start, end in zip(sums, marks, marks[1:])]
        self.loss = loss.detach()
        return sums

    def timed(self):
        self.synchronize()
        start = time.perf_counter()
        self.step()
        self.synchronize()
        return time.perf_counter() - start

    def gpu_memory(self):
        if not self.on_gpu:
            return None
        free, total = self.torch.cuda.mem_get_info()
        return {"allocated": self.torch.cuda.max_memory_allocated(),
                "reserved": self.torch.cuda.max_memory_reserved(), "used": total - free,
                "total": total}

    def run(self):
        windows = 4 * self.job.zenflow[1] if self.job.zenflow else 0
        for _ in range(max(WARMUP, windows // 2)):
            self.step()
        step = [self.timed() for _ in range(max(TIMED, windows))]
        phases = [self.step(self.synchronize) for _ in range(PHASED)]
        pinned = None
        if self.on_gpu:
            pinned = self.torch.cuda.host_memory_stats().get("allocated_bytes.peak")
        return {"step_s": step, "phases_s": phases, "gpu": self.gpu_memory(),
                "torch_threads": self.torch.get_num_threads(),
                "host": {"before": self.before["resident"], "peak": resident(), "pinned": pinned,
                         "system": self.before["available"] - available(),
                         "system_before": self.at_start - self.before["available"]},
                "loss": self.loss.item()}


def profiled(training, trace):
    """A step, or ZenFlow's window that selects columns, under PyTorch's profiler, as a file."""
    torch = training.torch
    if training.job.zenflow:
        for _ in range(-training.steps % (4 * training.job.zenflow[1])):
            training.step()
        training.synchronize()
    with torch.profiler.profile() as profiler:
        for _ in range(training.job.zenflow[1] if training.job.zenflow else 1):
            training.step()
        training.synchronize()
    profiler.export_chrome_trace(str(trace))


def child(job, device, write, trace):
    """In the forked process: its line, as JSON, and no return."""
    from gpu_check.training.train import join_group_of_one

    signal.alarm(JOB_SECONDS)
    faulthandler.dump_traceback_later(JOB_SECONDS - 10)
    line = {"job": job.name, **dataclasses.asdict(job), "deepspeed": job.configuration(),
            "config": MODELS[job.model] | {
                "architectures": [ARCHITECTURES[MODELS[job.model]["model_type"]]]}}
    code = 0
    try:
        join_group_of_one()
        start = time.monotonic()
        training = Training(job, device)
        ready = time.monotonic()
        line.update(training.run(), setup_s=ready - start)
        if trace:
            profiled(training, trace)
        line["total_s"] = time.monotonic() - start
    except BaseException as error:  # whatever it is, it is this job's result
        traceback.print_exc()
        line["error"] = f"{type(error).__name__}: {error}"[:400]
        code = 1
    with os.fdopen(write, "w", encoding="utf-8") as pipe:
        pipe.write(json.dumps(line))
    sys.stdout.flush()
    os._exit(code)  # ZenFlow's worker would be waited for


def run(job, device, trace):
    sys.stdout.flush()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.setpgid(0, 0)
        child(job, device, write, trace)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    try:
        os.killpg(pid, signal.SIGKILL)  # what it started and left
    except ProcessLookupError:
        pass
    return json.loads(text) if text else {"job": job.name, "error": f"ended with status {status}"}


class Counter:
    def __init__(self):
        self.count = 0

    def add(self, by):
        self.count += by


def host_us(torch, rounds=20, calls=20_000):
    """Microseconds: how fast this processor runs what PyTorch's and DeepSpeed's Python consist of."""
    def least(call):
        best = float("inf")
        for _ in range(rounds):
            start = time.perf_counter()
            for _ in range(calls):
                call()
            best = min(best, time.perf_counter() - start)
        return 1e6 * best / calls

    counter, one = Counter(), torch.ones(8)
    return {"python": least(lambda: counter.add(1)), "torch": least(lambda: torch.add(one, one))}


def main():
    output, device, *names = sys.argv[1:]
    began = time.monotonic()
    jobs = JOBS if device == "cuda" else REHEARSED
    traced = os.environ.get("GPU_CHECK_TRACED", "").split(",")
    os.environ.update(PYTORCH_NVML_BASED_CUDA_CHECK="1", DS_ACCELERATOR=device)
    import deepspeed
    import torch
    import transformers
    from transformers.models.gpt2 import modeling_gpt2  # noqa: F401
    from transformers.models.llama import modeling_llama  # noqa: F401
    from transformers.models.qwen2 import modeling_qwen2  # noqa: F401
    from transformers.models.qwen3 import modeling_qwen3  # noqa: F401

    versions = {"deepspeed": deepspeed.__version__, "torch": torch.__version__,
                "transformers": transformers.__version__}
    speed = host_us(torch)
    gc.freeze()
    failed = False
    by_name = {job.name: job for job in jobs}
    for job in [by_name[name] for name in names] if names else jobs:
        if time.monotonic() - began > LIMIT - 20:
            print(f"{job.name}: no time is left", flush=True)
            continue
        trace = None
        if job.name in traced:
            trace = pathlib.Path(output).parent / "traces" / f"{job.name}.json.gz"
        line = {**run(job, device, trace), "versions": versions, "host_us": speed,
                "cpus": len(os.sched_getaffinity(0)), "omp_num_threads": os.environ.get("OMP_NUM_THREADS")}
        with open(output, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        failed = failed or "error" in line
        said = line.get("error") or (
            f"{1e3 * sorted(line['step_s'])[len(line['step_s']) // 2]:.0f} ms, phases "
            + " + ".join(f"{1e3 * one:.0f}" for one in line["phases_s"][-1])
            + f" ms, {line['total_s']:.0f} s in all, {line['gpu']}, {line['host']}")
        print(f"{job.name}: {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
