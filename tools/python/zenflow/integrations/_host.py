"""A profile of a machine without a GPU: its cores are the device, as under DeepSpeed's CPU accelerator.

A second of measuring says how fast products, copies and passes over memory are; the recorded run says the rest: the
element-wise rate with which its forward and backward come out right, and the optimizer's with which its step does.
So what is predicted of this very run is no prediction. That of other settings is.
"""

import json
import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from zenflow._functions import simulate

_HALVINGS = 16
_BYTES = 64 << 20


def seconds(work: Callable[[], Any], repetitions: int = 9) -> float:
    """Of `work`: the lower quartile of calls, after one that does not count."""
    work()
    times: List[float] = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return sorted(times)[repetitions // 4]


@dataclass
class Rates:
    """What a second of measuring shows."""
    product: float  #: FLOP/s of the model's products
    copy: float  #: B/s of a copy
    stream: float  #: B/s that are read and written by a pass over memory
    latency: float  #: s of a small copy
    dispatch: float  #: s of an operator without work


def measure(module: Any, tokens: int, dtype: str) -> Rates:
    """In this process, for a model and the tokens of its micro-batch. PyTorch's random numbers go on afterwards as if
    nothing had been."""
    import torch
    types = {"bf16": torch.bfloat16, "fp16": torch.float16}
    with torch.random.fork_rng(devices=[]):
        product = _product_rate(torch, module, tokens, types.get(dtype, torch.float32))
        dispatch = _dispatch(torch)
    large, other = torch.zeros(_BYTES, dtype=torch.uint8), torch.zeros(_BYTES, dtype=torch.uint8)
    numbers, small = torch.zeros(_BYTES // 4), torch.zeros(64, dtype=torch.uint8)
    return Rates(product, _BYTES / seconds(lambda: other.copy_(large)),
                 2 * _BYTES / seconds(lambda: numbers.mul_(1.0)), seconds(lambda: small.copy_(small.clone()), 99),
                 dispatch)


def profile_of(rates: Rates, ranks: int) -> Dict[str, Any]:
    """A profile of this host, with what was measured."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    shared = os.statvfs("/dev/shm")
    dram = max(rates.stream, 2 * rates.copy)

    def number(value: float, unit: str, source: str) -> Dict[str, Any]:
        return {"value": ("%.6g %s" % (value, unit)) if unit else value, "source": source}

    took = "measured by zenflow.integrations in the training process"
    gpu = {
        "name": "this host's cores",
        "count": number(ranks, "", "ranks of this host"),
        "memory": number(memory / 2**20, "MiB", "the host's: the device has no memory of its own"),
        "context_memory": number(64, "MiB", "estimate: a process"),
        "memory_bandwidth": number(dram / 1e9, "GB/s", took),
        "peak": {name: number(rates.product / 1e9, "GFLOPS", took + ": the model's products")
                 for name in ("bf16", "fp16", "fp32")},
        "gemm_efficiency": number(1, "", "the peak is what products reach"),
        "gemm_half_size": number(1e-6, "MFLOP", "no loss is separated"),
        "attention_efficiency": number(0.3, "", "assumed: of the products' rate"),
        "elementwise_efficiency": number(0.1, "", "fitted to forward and backward of the recorded run"),
        "streaming_efficiency": number(1, "", took),
        "kernel_launch": number(1e6 * rates.dispatch, "us", took + ": an operator of a tiny module"),
    }
    host = {
        "name": "this host",
        "sockets": number(1, "", "assumed"),
        "cores": number(cores, "", "those that the process may use"),
        "memory": number(memory / 2**20, "MiB", "sysconf"),
        "shared_memory": number(min(shared.f_blocks * shared.f_frsize, memory) / 2**20, "MiB", "statvfs /dev/shm"),
        "dram_bandwidth": number(dram / 1e9, "GB/s", took),
        "core_bandwidth": number(dram / 1e9, "GB/s", "as dram_bandwidth"),
        "adam_bandwidth": number(dram / 1e9, "GB/s", "as dram_bandwidth, unless the recorded run says it"),
        "adam_half_cores": number(0.1, "", "assumed: one core reaches nearly all"),
        "elementwise_bandwidth": number(dram / 1e9, "GB/s", "as dram_bandwidth, unless the recorded run says it"),
    }
    link = {"kind": "memcpy", "latency": number(1e6 * rates.latency, "us", took)}
    for name in ("h2d", "d2h", "pageable_h2d", "pageable_d2h", "bidirectional"):
        link[name] = number(rates.copy / 1e9, "GB/s", took + ": a copy within memory")
    profile: Dict[str, Any] = {"name": "this_host", "description": "this host, its cores as the device", "gpu": gpu,
                               "host": host, "host_link": link}
    if ranks > 1:
        # Not measured: the other ranks are at their work.
        profile["gpu_link"] = {"kind": "gloo", "bandwidth": number(1.5, "GB/s", "assumed: gloo on one host"),
                               "latency": number(280, "us", "assumed: gloo on one host")}
    return profile


def fit(profile: Dict[str, Any], file: str, arguments: Mapping[str, Any], phases_ms: Optional[Mapping[str, float]],
        step_ms: float) -> Tuple[Dict[str, float], bool]:
    """Writes the profile into `file` with what the recorded run says of it: forward, backward and step in ms, if they
    are known, and the whole step. Returns the fitted constants, and whether they explain the step within 5 %."""
    gpu, host = profile["gpu"], profile["host"]

    def predicted() -> Any:
        with open(file, "w", encoding="utf-8") as text:
            json.dump(profile, text, indent=1)  # JSON is YAML
        return simulate(host=file, **arguments).results[0]

    computes = step_ms if phases_ms is None else phases_ms["forward"] + phases_ms["backward"]

    def pass_rate(value: float) -> bool:
        gpu["elementwise_efficiency"]["value"] = float("%.6g" % value)
        return bool(predicted().gpu_compute_ms > computes)

    def product_rate(value: float) -> bool:
        for one in gpu["peak"].values():
            one.update(value="%.6g GFLOPS" % value, source="fitted to forward and backward of the recorded run")
        return bool(predicted().gpu_compute_ms > computes)

    def host_rate(value: float) -> bool:
        for name in ("adam_bandwidth", "elementwise_bandwidth"):
            host[name]["value"] = "%.6g GB/s" % value
            host[name]["source"] = "fitted to the step of the recorded run"
        return bool(predicted().step_time_ms > step_ms)

    def device_rate(value: float) -> bool:
        gpu["streaming_efficiency"] = {"value": float("%.6g" % value), "source": "fitted to step() of the recorded run"}
        return bool(predicted().step_time_ms > step_ms)

    fitted = {"gpu.elementwise_efficiency": _bisect(1e-3, 1.0, pass_rate)}
    if predicted().gpu_compute_ms > 1.02 * computes:  # products alone take longer: they were measured too slow
        rate = float(gpu["peak"]["bf16"]["value"].split()[0])
        fitted["gpu.peak"] = _bisect(rate, 100 * rate, product_rate)
    if phases_ms is not None:  # the rest is the optimizer's, where it runs
        if predicted().pcie.d2h_bytes_per_step > 0:
            limit = float(host["dram_bandwidth"]["value"].split()[0])
            fitted["host.adam_bandwidth"] = _bisect(0.01, limit, host_rate)
        else:
            fitted["gpu.streaming_efficiency"] = _bisect(1e-3, 1.0, device_rate)
    return fitted, bool(abs(predicted().step_time_ms / step_ms - 1) <= 0.05)


def _bisect(low: float, high: float, too_slow: Callable[[float], bool]) -> float:
    """The value between `low` and `high` at which a prediction stops to be too slow."""
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if too_slow(middle) else (low, middle)
    found = float((low * high) ** 0.5)
    too_slow(found)  # which leaves it in the profile
    return found


def _product_rate(torch: Any, module: Any, tokens: int, dtype: Any) -> float:
    """FLOP/s of the model's linear layers: forward, and backward's two products."""
    shapes = [tuple(getattr(one.weight, "ds_shape", one.weight.shape)) for one in module.modules()
              if isinstance(one, torch.nn.Linear)]
    shapes = shapes or [(256, 256)]
    flops = spent = 0.0
    for shape in sorted(set(shapes), key=shapes.count, reverse=True)[:4]:
        weight = torch.randn(shape, dtype=dtype)
        inputs, outputs = torch.randn(tokens, shape[1], dtype=dtype), torch.randn(tokens, shape[0], dtype=dtype)
        products: List[Callable[[], Any]] = [
            lambda: torch.nn.functional.linear(inputs, weight), lambda: outputs @ weight, lambda: outputs.t() @ inputs]
        spent += shapes.count(shape) * sum(seconds(one) for one in products)
        flops += shapes.count(shape) * 6 * tokens * weight.numel()
    return flops / spent


def _dispatch(torch: Any) -> float:
    """Seconds of an operator on a tensor so small that arithmetic does not count."""
    layers = 20
    tiny = torch.nn.Sequential(*[part for _ in range(layers) for part in (torch.nn.Linear(8, 8), torch.nn.SiLU())])
    inputs = torch.zeros(1, 8)
    return seconds(lambda: tiny(inputs), 19) / (2 * layers)
