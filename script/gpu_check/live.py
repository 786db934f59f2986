"""zenflow-train on a GPU: losses beside the host's, and a grid of schedules with their closed forms.

  live.py ranks                two ranks with a GPU each beside one with the same global batch
  live.py losses               run by phases: what it is told comes from the phase's environment
  live.py grid MODEL POINT...  MODEL of scenarios/live; POINT: gpu-only, zero-offload,
                               zero-offload-dpu or zenflow:K:S; ":trace" behind it records,
                               ":optional" takes a refusal for want of memory for an answer
Exit code 0, or 1 with what is wrong in the phase's file "why". A line of live.jsonl for each run.
"""
import dataclasses
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from gpu_check import traces  # noqa: E402

# What losses of two devices may differ by, relative: issue "the live runtime on CUDA".
LOSS_TOLERANCE = {"fp32": 1e-5, "bf16": 1e-2}
LOSS_STEPS = 50
# Dense bf16 peak of NVIDIA's datasheets, by what the driver calls the GPU.
PEAK_BF16 = {"H200": 989.4e12, "H100": 989.4e12, "A100": 312e12}
GRACE = 5
DOES_NOT_FIT = 3  # exit code of zenflow-train


@dataclasses.dataclass(frozen=True)
class Point:
    schedule: str
    topk: float = 0.0
    interval: int = 1
    traced: bool = False
    optional: bool = False

    @property
    def name(self):
        if self.schedule != "zenflow":
            return self.schedule
        return f"zenflow-k{round(100 * self.topk):02}-s{self.interval}"

    def steps(self, quick):
        """Two windows that do not count, and at least three that do and eight steps."""
        windows = max(3, -(-8 // self.interval))
        return self.interval * (2 + (1 if quick else windows)) + 1

    def flags(self):
        flags = ["--schedule", self.schedule]
        if self.schedule == "zenflow":
            flags += ["--topk-ratio", str(self.topk), "--update-interval", str(self.interval)]
        return flags


def parse(text):
    words = text.split(":")
    how = {}
    if words[-1] in ("trace", "optional"):
        how["traced" if words.pop() == "trace" else "optional"] = True
    if words[0] == "zenflow" and len(words) == 3:
        return Point("zenflow", float(words[1]), int(words[2]), **how)
    if words[0] in ("gpu-only", "zero-offload", "zero-offload-dpu") and len(words) == 1:
        return Point(words[0], **how)
    raise ValueError(f"{text}: expected gpu-only, zero-offload, zero-offload-dpu or zenflow:K:S")


def flops_per_token(config, length):
    """Of forward and backward: 6 for each weight of a product, and attention's two products over
    half of the sequence, forward once and backward twice. The convention of PaLM, appendix B."""
    gpt2 = config["model_type"] == "gpt2"
    hidden = config["n_embd"] if gpt2 else config["hidden_size"]
    layers = config["n_layer"] if gpt2 else config["num_hidden_layers"]
    heads = config["n_head"] if gpt2 else config["num_attention_heads"]
    inner = (config.get("n_inner") or 4 * hidden) if gpt2 else config["intermediate_size"]
    width = config.get("head_dim") or hidden // heads
    pairs = heads if gpt2 else config.get("num_key_value_heads", heads)
    block = 2 * hidden * heads * width + 2 * hidden * pairs * width
    block += (2 if gpt2 else 3) * hidden * inner
    weights = layers * block + config["vocab_size"] * hidden
    return 6 * weights + 6 * layers * heads * width * length


def peak_of(gpu):
    return next((peak for name, peak in PEAK_BF16.items() if name in gpu), None)


def launch_variables(ranks):
    """Of each rank's environment, as torchrun sets it. A port that was free just now."""
    if ranks == 1:
        return [{}]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [{"WORLD_SIZE": str(ranks), "RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(port)} for rank in range(ranks)]


def compare_losses(host, other):
    """The largest relative difference, and the step it is at."""
    if len(host) != len(other):
        raise ValueError(f"{len(host)} losses on the host, {len(other)} beside them")
    apart = [abs(a - b) / abs(a) for a, b in zip(host, other, strict=True)]
    step = max(range(len(apart)), key=apart.__getitem__)
    return apart[step], step


def figures_of(result, config, batch, length, gpu):
    """What is published of a run: times in ms, ratios without unit."""
    found = {key: result[key] for key in ("step_time_ms", "gpu_compute_ms", "gpu_stall_ms",
                                          "stall_by_cause_ms", "tokens_per_second", "pcie",
                                          "final_loss")}
    found["steady"] = result["steps"]["steady"]
    found["gpu_peak_bytes"] = result["memory"]["gpu_peak_bytes"]
    found["host_peak_bytes"] = result["memory"]["host_peak_bytes"]
    peak = peak_of(gpu)
    rate = result["tokens_per_second"] * flops_per_token(config, length)
    found["mfu"] = rate / peak if peak else None
    return found


def traffic_error(measured, simulated):
    """Empty if bytes down and up are those of the closed form, to the byte."""
    for key in ("d2h_bytes_per_step", "h2d_bytes_per_step"):
        if abs(measured["pcie"][key] - simulated["pcie"][key]) > 1:  # each is rounded
            return f"{key} {measured['pcie'][key]}, the closed form says {simulated['pcie'][key]}"
    return ""


def cut_trace(source, target):
    """Whole if it is small, else its last steps' activity on the GPU."""
    if source.stat().st_size <= traces.LARGEST:
        source.rename(target)
        return {"file": target.name, "whole": True}
    document = traces.load(source)
    steps = sorted((e["ts"], e["dur"]) for e in document["traceEvents"]
                   if str(e.get("name", "")).startswith("ProfilerStep#"))[-2:]
    base = traces.base_ns(document)
    bounds = [base + 1000 * ts for ts, _ in steps] + [base + 1000 * sum(steps[-1])]
    return {"whole": False, **traces.cut(source, target, bounds, 0, target.name)}


class Phase:
    def __init__(self):
        given = os.environ
        self.root = pathlib.Path(given["GPU_CHECK_ROOT"])
        self.build = pathlib.Path(given["GPU_CHECK_BUILD"])
        self.results = pathlib.Path(given["GPU_CHECK_RESULTS"])
        self.publish = pathlib.Path(given["GPU_CHECK_PUBLISH"])
        self.on_gpu = given["GPU_CHECK_DEVICE"] == "cuda"
        self.gpu = given.get("GPU_CHECK_GPU", "")
        self.quick = bool(given.get("GPU_CHECK_QUICK")) or not self.on_gpu
        self.ends = time.monotonic() + int(given["GPU_CHECK_LIMIT"]) - GRACE
        self.figures = {}
        self.wrong = []

    def data(self):
        """Bytes as tokens, the same in every run: a million, so that none is seen twice soon."""
        file = self.results / "bytes.txt"
        if not file.exists():
            file.write_bytes(random.Random(1).randbytes(1_000_000))
        return file

    def command(self, arguments, device):
        """Of a run, which goes into the phase's list of commands."""
        command = [str(self.build / "tools" / "zenflow-train"), "--json", "--data",
                   str(self.data()), "--byte-tokens", "--device", device,
                   "--validation-fraction", "0",
                   *map(str, arguments)]
        with open(self.results / "commands", "a", encoding="utf-8") as file:
            file.write(" ".join(command).replace(f"{self.root}/", "") + "\n")
        return command

    def train(self, name, arguments, device, ranks=1):
        """(result, why it failed)."""
        arguments = ["--quiet", *arguments]
        command = self.command(arguments, device)
        left = self.ends - time.monotonic()
        if left < 1:
            return None, "no time is left"
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, env={**os.environ, **variables})
                   for variables in launch_variables(ranks)]
        try:
            said = [rank.communicate(timeout=max(1, self.ends - time.monotonic()))
                    for rank in started]
        except subprocess.TimeoutExpired:
            for rank in started:
                rank.kill()
                rank.communicate()
            return None, "stopped by the phase's limit"
        errors = "".join(error for _, error in said)
        (self.results / f"{name}.log").write_text(errors, encoding="utf-8")
        code = next((rank.returncode for rank in started if rank.returncode != 0), 0)
        if code != 0:
            lines = errors.strip().splitlines()
            return None, f"exit code {code}: {lines[-1] if lines else 'it said nothing'}"
        return json.loads(said[0][0])["results"][0], ""

    def ranks(self):
        """Two ranks, a GPU each, give the losses of one with two micro-batches, and exchange each
        gradient and each weight once; without GPUs on the host."""
        device = "cuda" if self.on_gpu else "cpu"
        for schedule in ("gpu-only", "zero-offload", "zenflow"):
            arguments = ["--model", self.root / "scenarios" / "training" / "llama_3m.json",
                         "--steps", 6 if self.quick else LOSS_STEPS, "--sequence-length", 64,
                         "--micro-batch-size", 4, "--lr", 3e-4, "--schedule", schedule]
            name = f"ranks-{schedule}"
            alone, why = self.train(f"{name}-alone",
                                    [*arguments, "--gradient-accumulation-steps", 2], device)
            both = None
            if not why:
                both, why = self.train(name, arguments, device, ranks=2)
            if why:
                self.say(name, why)
                continue
            apart, step = compare_losses(alone["losses"], both["losses"])
            sent = both["ranks"]
            if apart > LOSS_TOLERANCE["fp32"]:
                why = f"losses differ by {apart:.2e} at step {step}"
            elif sent["gradient_bytes_per_step"] != sent["weight_bytes_per_step"]:
                why = "gradients and weights are not the same number of bytes"
            self.say(name, why, apart=apart, at_step=step, ranks=sent,
                     step_time_ms=both["step_time_ms"], alone_step_time_ms=alone["step_time_ms"],
                     stall_by_cause_ms=both["stall_by_cause_ms"])

    def say(self, name, why, **fields):
        self.figures[name] = {**fields, **({"wrong": why} if why else {})}
        (self.results / "figures.json").write_text(json.dumps(self.figures))
        with open(self.publish / "live.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"run": name, "gpu": self.gpu, **self.figures[name]}) + "\n")
        print(f"{name}: {why or 'passed'}", flush=True)
        if why:
            self.wrong.append(f"{name}: {why}")

    def losses(self):
        """Of the two devices on the same batches, for both families; without a GPU the host beside
        itself with another number of threads, which changes no bit."""
        device, threads = ("cuda", []) if self.on_gpu else ("cpu", ["--threads", 1])
        steps = 6 if self.quick else LOSS_STEPS
        for model in ("llama_3m", "gpt2_3m"):
            for dtype, tolerance in LOSS_TOLERANCE.items():
                name = f"losses-{model}-{dtype}"
                arguments = ["--model", self.root / "scenarios" / "training" / f"{model}.json",
                             "--dtype", dtype, "--steps", steps, "--sequence-length", 64,
                             "--micro-batch-size", 4, "--lr", 3e-4]
                host, why = self.train(f"{name}-host", arguments, "cpu")
                other = None
                if not why:
                    other, why = self.train(name, [*arguments, *threads], device)
                if why:
                    self.say(name, why)
                    continue
                apart, step = compare_losses(host["losses"], other["losses"])
                why = f"losses differ by {apart:.2e} at step {step}" if apart > tolerance else ""
                self.say(name, why, apart=apart, at_step=step, allowed=tolerance,
                         first=host["losses"][0], last=host["losses"][-1])

    def simulated(self, scenario, point):
        command = [str(self.build / "tools" / "zenflow-sim"), "run", str(scenario), "--json",
                   "--quiet", "--schedule", f"live-{point.schedule}"]
        if point.schedule == "zenflow":
            command += ["--set", f"topk_ratio={point.topk}", "--set",
                        f"update_interval={point.interval}", "--set", "select_interval=0", "--set",
                        "full_warm_up_rounds=0"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["results"][0]

    def scenario(self, model):
        """(name, file, its keys and values) of scenarios/live; without a GPU the tiny one."""
        model = model if self.on_gpu else "tiny"
        scenario = self.root / "scenarios" / "live" / f"{model}.yaml"
        return model, scenario, {key.strip(): value.strip() for key, _, value in
                                 (line.partition(":") for line in scenario.read_text().splitlines())}

    def grid(self, model, texts):
        model, scenario, settings = self.scenario(model)
        file = scenario.parent / settings["model"]
        config = json.loads(file.read_text())
        batch, length = (int(settings[key]) for key in ("micro_batch_size_per_gpu",
                                                        "sequence_length"))
        for point in map(parse, texts):
            name = f"{model}-{point.name}"
            arguments = ["--model", file, "--dtype", settings["dtype"], "--micro-batch-size", batch,
                         "--sequence-length", length, "--steps", point.steps(self.quick),
                         *point.flags()]
            if settings["activation_checkpointing"] == "true":
                arguments.append("--activation-checkpointing")
            result, why = self.train(name, arguments, "cuda" if self.on_gpu else "cpu")
            if why and point.optional and why.startswith(f"exit code {DOES_NOT_FIT}:"):
                self.say(name, "", refused=why)
                continue
            if why:
                self.say(name, why)
                continue
            found = figures_of(result, config, batch, length, self.gpu)
            simulated = self.simulated(scenario, point)
            found["predicted_step_time_ms"] = simulated["step_time_ms"]
            if found["steady"]:
                why = traffic_error(result, simulated)
            if point.traced and not why:
                why, found["trace"] = self.record(name, arguments, point)
            self.say(name, why, **found)

    def record(self, name, arguments, point):
        """A run of its own: what recording costs is not in the figures."""
        source = self.results / f"{name}.whole.json.gz"
        steps = ["--steps", 3 * point.interval + 1]
        at = arguments.index("--steps")
        arguments = [*arguments[:at], *steps, *arguments[at + 2:], "--trace", source]
        _, why = self.train(f"{name}-recorded", arguments, "cuda" if self.on_gpu else "cpu")
        if why:
            return f"recording: {why}", None
        folder = self.publish / "traces"
        folder.mkdir(exist_ok=True)
        return "", cut_trace(source, folder / f"live-{name}.json.gz")


def main():
    phase = Phase()
    if sys.argv[1] == "losses":
        phase.losses()
    elif sys.argv[1] == "ranks":
        phase.ranks()
    else:
        phase.grid(sys.argv[2], sys.argv[3:])
    (phase.results / "why").write_text("; ".join(phase.wrong))
    return 1 if phase.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
