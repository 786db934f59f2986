#!/usr/bin/env python3
"""Writes adamw_torch.txt: trajectories of torch.optim.AdamW in fp32.

    python3 tests/data/adamw_torch.py > tests/data/adamw_torch.txt

Needs PyTorch. Settings are fp32 numbers exactly, so that both sides use the same ones: PyTorch keeps
them in double. Numbers are written as the hexadecimal bits of an fp32.
"""
import struct

import torch

ELEMENTS = 24
STEPS = 5

# learning rate, beta1, beta2, epsilon, weight decay
SETTINGS = [
    (1e-3, 0.9, 0.999, 1e-8, 0.01),
    (3e-4, 0.9, 0.95, 1e-5, 0.1),
    (1e-2, 0.5, 0.75, 1e-6, 0.0),
]


def fp32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def bits(tensor):
    return " ".join(struct.pack(">f", x).hex() for x in tensor.tolist())


def main():
    torch.manual_seed(1)
    print(f"# torch.optim.AdamW, PyTorch {torch.__version__}; see adamw_torch.py")
    print("# case: learning rate, beta1, beta2, epsilon, weight decay; then the parameters;")
    print("# per step: gradient, parameters, first moment, second moment")
    for settings in SETTINGS:
        lr, beta1, beta2, epsilon, decay = map(fp32, settings)
        parameter = torch.nn.Parameter(torch.randn(ELEMENTS) * 0.1)
        optimizer = torch.optim.AdamW([parameter], lr=lr, betas=(beta1, beta2), eps=epsilon,
                                      weight_decay=decay, foreach=False, fused=False)
        print("case", bits(torch.tensor([lr, beta1, beta2, epsilon, decay])))
        print("parameters", bits(parameter.detach()))
        for _ in range(STEPS):
            # From 1e-6 to 10 in magnitude.
            parameter.grad = torch.randn(ELEMENTS) * 10 ** torch.empty(ELEMENTS).uniform_(-6, 1)
            optimizer.step()
            state = optimizer.state[parameter]
            print("gradient", bits(parameter.grad))
            print("parameters", bits(parameter.detach()))
            print("first_moment", bits(state["exp_avg"]))
            print("second_moment", bits(state["exp_avg_sq"]))


main()
