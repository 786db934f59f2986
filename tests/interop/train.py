"""Trains a toy model under a DeepSpeed configuration on the CPU and records what ZenFlow does.

  train.py CONFIG.json STEPS OUTPUT.json
One rank. DeepSpeed's methods are wrapped from outside, none is replaced; every wrapper notes the
micro step in which its method ran. Run by schedule.py, a process for each configuration, since
ZenFlow's optimizer process and core binding outlive the engine.
"""

import json
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1",
                  MASTER_ADDR="127.0.0.1")


class Recorder:
    """The calls of wrapped methods, by micro step."""

    def __init__(self, steps):
        self.records = [{"calls": {}} for _ in range(steps)]
        self.step = None

    def note(self, name, value):
        if self.step is not None:
            self.records[self.step]["calls"].setdefault(name, []).append(value)

    def wrap(self, owner, name, value=lambda _: None):
        """Notes each call of owner.name; `value` turns its arguments into what is noted."""
        wrapped = getattr(owner, name)

        def noting(*args, **kwargs):
            self.note(name, value(args))
            return wrapped(*args, **kwargs)
        setattr(owner, name, noting)


def wrap_optimizer(recorder, optimizer):
    recorder.wrap(optimizer, "update_selected_channels")
    recorder.wrap(optimizer, "sync_fp32_param_from_gpu", lambda _: optimizer.micro_step)
    recorder.wrap(optimizer, "selective_optimizer_step")
    if not hasattr(optimizer, "wait_last_update_and_copy"):  # overlap_step false
        recorder.wrap(optimizer.optimizer, "step")
        return
    # The buffer into which gradients are copied, and the one that the worker is told to read.
    recorder.wrap(optimizer, "async_inplace_copy_grad_to_fp32_buffer_from_gpu",
                  lambda _: optimizer.get_overlap_step_state())
    recorder.wrap(optimizer, "zenflow_cpu_optimizer_step", lambda args: args[0])
    recorder.wrap(optimizer, "_wait_for_optimizer_process")


def train(config, steps):
    import deepspeed
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 24),
                                torch.nn.ReLU(), torch.nn.Linear(24, 8))
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(),
                                           config=config)
    recorder = Recorder(steps)
    wrap_optimizer(recorder, engine.optimizer)
    dtype = next(engine.module.parameters()).dtype
    for step in range(steps):
        recorder.step = step
        record = recorder.records[step]
        record["boundary"] = bool(engine.is_gradient_accumulation_boundary())
        loss = engine(torch.randn(4, 16, dtype=dtype)).float().square().mean()
        engine.backward(loss)
        engine.step()
        record["loss"] = loss.item()
    return recorder.records


def main():
    config, steps, output = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    records = train(config, steps)
    with open(output, "w", encoding="utf-8") as file:
        json.dump(records, file)


if __name__ == "__main__":
    main()
