#!/usr/bin/env python3
"""Our AdamW against DeepSpeed's CPU Adam, on one thread: compare_adam.py LIBRARY [PARAMETERS [TURNS]]

LIBRARY is the shared library of kernels_c.cpp. Both sides update the same arrays and take turns, so
that a slow moment of the machine hits both alike; each is timed by the processor time of the thread.
Ratios are DeepSpeed's time over ours: the median over the turns, and the quartiles.
`script/bench --deepspeed` builds what is needed and runs this.
"""
import ctypes
import statistics
import struct
import sys
import time

import deepspeed
import torch
from deepspeed.ops.op_builder import CPUAdamBuilder

LEARNING_RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01
UPDATES = 5
# As from clipping; not far from 1, as DeepSpeed's pass leaves it in the gradients.
SCALE = 0.999

SETTINGS = struct.pack("5f", LEARNING_RATE, BETA1, BETA2, EPSILON, DECAY)


class Theirs:
    def __init__(self):
        self.op = CPUAdamBuilder().load(verbose=False)
        self.op.create_adam(0, LEARNING_RATE, BETA1, BETA2, EPSILON, DECAY, True, True)

    def update(self, arrays):
        self.op.adam_update(0, UPDATES, LEARNING_RATE, BETA1, BETA2, EPSILON, DECAY, True,
                            arrays["p"], arrays["g"], arrays["m"], arrays["v"])

    def update_partition(self, arrays):
        """As ZeRO stage 1 and 2 with offloading: unscale and clip, update, copy for the upload."""
        arrays["g"].mul_(SCALE)
        self.update(arrays)
        arrays["copy"].copy_(arrays["p"])


class Ours:
    def __init__(self, path):
        self.kernels = ctypes.CDLL(path)

    def call(self, name, scale, arrays, *more):
        pointers = [ctypes.c_void_p(arrays[key].data_ptr()) for key in ("p", "m", "v", "g")]
        getattr(self.kernels, name)(SETTINGS, ctypes.c_uint64(UPDATES), ctypes.c_float(scale),
                                    ctypes.c_size_t(arrays["p"].numel()), *pointers, *more)

    def update_fp32(self, arrays):
        self.call("zenflow_adamw_fp32", 1.0, arrays, ctypes.c_void_p(None))

    def update_bf16_parameters(self, arrays):
        self.call("zenflow_adamw_bf16_parameters", 1.0, arrays)

    def update_all_bf16(self, arrays):
        self.call("zenflow_adamw_all_bf16", 1.0, arrays)

    def update_partition(self, arrays):
        copy = ctypes.c_void_p(arrays["copy"].data_ptr())
        self.call("zenflow_adamw_fp32", SCALE, arrays, copy)


def make_arrays(count, parameter_type, moment_type):
    torch.manual_seed(1)
    return {
        "p": (torch.randn(count) * 0.02).to(parameter_type),
        "g": (torch.randn(count) * 1e-3).to(parameter_type),
        "m": (torch.randn(count) * 1e-3).to(moment_type),
        "v": (torch.rand(count) * 1e-6).to(moment_type),
        "copy": torch.zeros(count, dtype=torch.bfloat16),
    }


def check_same_work(name, types, theirs, ours):
    """Otherwise the times say nothing. The two round in different places."""
    before = make_arrays(10007, *types)
    theirs_after, ours_after = make_arrays(10007, *types), make_arrays(10007, *types)
    theirs(theirs_after)
    ours(ours_after)
    for key in ("p", "m", "v", "copy"):
        a, b = theirs_after[key].float(), ours_after[key].float()
        # One unit in the last place, bfloat16's where that is what is stored.
        unit = 2.0**-7 if theirs_after[key].dtype == torch.bfloat16 else 2.0**-22
        allowed = unit * a.abs()
        if key == "m":  # a sum that may cancel: of what goes into it
            allowed = torch.maximum(allowed, unit * before[key].float().abs())
        if key == "p":  # DeepSpeed forms 1 - beta2^t in fp32, which after a few updates is off by 1e-5
            allowed += 1e-5 * (a - before[key].float()).abs()
        worst = ((a - b).abs() - allowed).max().item()
        if worst > 0:
            sys.exit(f"{name}: {key} differs by {worst:.3g} more than rounding explains")


def seconds(update, arrays):
    start = time.thread_time()
    update(arrays)
    return time.thread_time() - start


def compare(name, types, count, turns, theirs, ours):
    check_same_work(name, types, theirs, ours)
    arrays = make_arrays(count, *types)
    theirs_times, ours_times = [], []
    for _ in range(turns):
        theirs_times.append(seconds(theirs, arrays))
        ours_times.append(seconds(ours, arrays))
    ratios = [t / o for t, o in zip(theirs_times, ours_times)]
    first, middle, third = statistics.quantiles(ratios, n=4)
    nanoseconds = [statistics.median(times) / count * 1e9 for times in (theirs_times, ours_times)]
    print(f"{name:17} {nanoseconds[0]:9.3f} {nanoseconds[1]:9.3f} {middle:7.3f}"
          f"  [{first:.3f}, {third:.3f}]", flush=True)


def main():
    library = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 64 << 20
    turns = int(sys.argv[3]) if len(sys.argv) > 3 else 21
    torch.set_num_threads(1)
    theirs, ours = Theirs(), Ours(library)
    fp32, bf16 = torch.float32, torch.bfloat16
    print(f"DeepSpeed {deepspeed.__version__}, PyTorch {torch.__version__}, {count} parameters, "
          f"{turns} turns")
    print("                  ns a parameter")
    print("update            DeepSpeed      ours   ratio  [quartiles]")
    compare("fp32", (fp32, fp32), count, turns, theirs.update, ours.update_fp32)
    compare("bf16 parameters", (bf16, fp32), count, turns, theirs.update, ours.update_bf16_parameters)
    compare("all bf16", (bf16, bf16), count, turns, theirs.update, ours.update_all_bf16)
    compare("partition", (fp32, fp32), count, turns, theirs.update_partition, ours.update_partition)


main()
