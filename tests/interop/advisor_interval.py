"""A toy model under ZenFlow on the CPU whose update_interval changes while it trains.

  advisor_interval.py JOB.json
Run by advisor.py, a process for each training. JOB: `deepspeed`, `steps`, `to` (null: it stays),
`at` (null: at the first micro step from `from` on that is_due allows; else at this one, whatever
is_due says), `result`. The batch and, with a learning rate of 0, the weights are the same in every
micro step, so every window's gradient is the same one, however long it is. The result has what
train.py records, the norm of the gradient that each update reads, and the micro step of the change.
"""

import json
import sys

from train import Recorder, wrap_optimizer


def wrap_gradients(recorder, optimizer):
    """Notes the norm of what an update reads, before it is read."""
    if hasattr(optimizer, "wait_last_update_and_copy"):
        recorder.wrap(optimizer, "zenflow_cpu_optimizer_step", lambda args: norms(
            one.overlap_grad[args[0]] for one in optimizer.single_partition_of_fp32_groups))
    else:
        recorder.wrap(optimizer.optimizer, "step", lambda _: norms(
            one.grad for one in optimizer.single_partition_of_fp32_groups))


def norms(gradients):
    return [one.float().norm().item() for one in gradients]


def train(job):
    import deepspeed
    import torch
    from zenflow.integrations import _interval

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 24),
                                torch.nn.ReLU(), torch.nn.Linear(24, 8))
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(),
                                           config=job["deepspeed"])
    calls, gradients = Recorder(job["steps"]), Recorder(job["steps"])
    wrap_optimizer(calls, engine.optimizer)
    wrap_gradients(gradients, engine.optimizer)
    batch = torch.randn(4, 16, dtype=next(engine.module.parameters()).dtype)
    changed = None
    for step in range(job["steps"]):
        calls.step = gradients.step = step
        if job["to"] is not None and changed is None:
            refused = _interval.refusal(engine, deepspeed.__version__, job["to"])
            if refused:
                raise SystemExit(refused)
            due = step >= job["from"] and _interval.is_due(engine, job["to"])
            if due if job["at"] is None else step == job["at"]:
                _interval.change(engine, job["to"])
                changed = step
        calls.records[step]["boundary"] = bool(engine.is_gradient_accumulation_boundary())
        engine.backward(engine(batch).float().square().mean())
        engine.step()
    return {"changed": changed, "calls": calls.records,
            "gradients": [one["calls"] for one in gradients.records]}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    result = train(job)
    with open(job["result"], "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
