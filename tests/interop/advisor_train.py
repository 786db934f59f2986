"""A small Llama under DeepSpeed on the CPU with an OffloadAdvisor.

  advisor_train.py JOB.json
Run by advisor.py, a process for each training. JOB: `deepspeed` (configuration), `steps` (calls of
step()), `advisor` (arguments of OffloadAdvisor), `model` (else MODEL), `clock` ("cpu": the advisor
takes the process's own time, which other programs hardly change; of one rank on one thread it is
all that passes), `trainer` (true: transformers' Trainer, which logs to TensorBoard in `logs`; else
a loop), `result` (a file: losses, where windows end, what was logged).
"""

import json
import sys
import time
import types

MODEL = {"vocab_size": 8192, "hidden_size": 640, "intermediate_size": 1728, "num_hidden_layers": 4,
         "num_attention_heads": 10, "num_key_value_heads": 10, "max_position_embeddings": 256}
TOKENS = 64


def loop(job, model, advisor, logged):
    import deepspeed
    import torch
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    engine, _, _, _ = deepspeed.initialize(model=model, config=job["deepspeed"])
    rows = engine.train_micro_batch_size_per_gpu()
    batch = torch.randint(0, model.config.vocab_size, (rows, TOKENS))
    hooks = count_of_hooks(engine)
    losses, windows = [], []
    with advisor.watch(engine):
        for _ in range(job["steps"]):
            windows.append(bool(engine.is_gradient_accumulation_boundary()))
            loss = engine(input_ids=batch, labels=batch, use_cache=False).loss
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
    return {"losses": losses, "logged": logged, "windows": windows,
            "update_interval": getattr(engine, "update_interval", None),
            "left_behind": sorted({"backward", "step"} & set(vars(engine))) +
                           ["hooks"] * (count_of_hooks(engine) - hooks)}


def count_of_hooks(engine):
    return sum(len(one) for module in (engine, engine.module)
               for one in (module._forward_pre_hooks, module._forward_hooks))


def trainer(job, model, advisor, logged):
    import torch
    from transformers import Trainer, TrainingArguments
    rows = [{"input_ids": one, "labels": one}
            for one in torch.randint(0, MODEL["vocab_size"], (64, TOKENS))]
    zero = job["deepspeed"]
    arguments = TrainingArguments(
        output_dir=job["logs"], deepspeed=zero, max_steps=job["steps"], report_to=["tensorboard"],
        logging_steps=5, save_strategy="no", bf16=True, disable_tqdm=True, use_cpu=True,
        learning_rate=1e-5,
        per_device_train_batch_size=zero["train_micro_batch_size_per_gpu"])
    one = Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[advisor])
    one.train()
    return {"logged": logged, "history": one.state.log_history}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    import torch
    import transformers
    from zenflow.integrations import OffloadAdvisor, _advisor, _host, _steps

    if job.get("clock") == "cpu":
        for module in (_advisor, _host, _steps):
            module.time = types.SimpleNamespace(perf_counter=time.process_time)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    logged = []
    advisor = OffloadAdvisor(**job["advisor"],
                             log=lambda numbers, step: logged.append([step, numbers]))
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**job.get("model", MODEL)))
    result = (trainer if job.get("trainer") else loop)(job, model, advisor, logged)
    result["is_callback"] = isinstance(advisor, transformers.TrainerCallback)
    with open(job["result"], "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
