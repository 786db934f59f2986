"""One rank of a training that steps.py measures: a small Llama under DeepSpeed on the CPU.

  steps_rank.py SETTINGS.json OUTPUT.json
Started with RANK, WORLD_SIZE and what belongs to them. Trains `warmup` steps, then `steps` timed
ones, with `probe` what a machine's probe cannot know, then prints MEMORY, trains `memory_steps`
during which steps.py reads the memory of the process, and waits to be ended. OUTPUT.json has, by
clock (`wall`, and `cpu`, the process's own time, which other programs hardly change), seconds of
[forward, backward, step] for each timed step, and the probe's rates.
"""

import json
import os
import select
import sys
import time

GLOO_BYTES = (64 << 10, 16 << 20)


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def quick(work, repetitions, clock="cpu"):
    """Seconds of `work`: the lower quartile of `repetitions` calls, after one that does not count.
    """
    work()
    times = []
    for _ in range(repetitions):
        start = CLOCKS[clock]()
        work()
        times.append(CLOCKS[clock]() - start)
    return sorted(times)[repetitions // 4]


def gemm_rate(torch, model, tokens):
    """FLOP/s of the model's own products: forward, and backward's two."""
    flops = seconds = 0
    shapes = [tuple(one.weight.ds_shape if hasattr(one.weight, "ds_shape") else one.weight.shape)
              for one in model.modules() if isinstance(one, torch.nn.Linear)]
    for shape in sorted(set(shapes)):
        weight = torch.randn(shape, dtype=torch.bfloat16)
        inputs = torch.randn(tokens, shape[1], dtype=torch.bfloat16)
        outputs = torch.randn(tokens, shape[0], dtype=torch.bfloat16)
        time_of_three = sum(quick(work, 15) for work in (
            lambda: torch.nn.functional.linear(inputs, weight),
            lambda: outputs @ weight,
            lambda: outputs.t() @ inputs))
        flops += shapes.count(shape) * 6 * tokens * weight.numel()
        seconds += shapes.count(shape) * time_of_three
    return flops / seconds


def dispatch(torch, transformers):
    """Seconds of a kernel of a Llama block on tensors so small that arithmetic does not count."""
    kernels = 40  # of a block's forward: 7 products, attention, and what is between them

    def forward_of(layers):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=layers,
            num_attention_heads=2, num_key_value_heads=2)).to(torch.bfloat16)
        tokens = torch.zeros((1, 4), dtype=torch.long)
        return quick(lambda: model(input_ids=tokens), 15)
    return (forward_of(10) - forward_of(2)) / (8 * kernels)


def gloo(torch, clock):
    """(seconds of latency, bytes/s) of an all-reduce, each rank to each."""
    def reduce(size):
        data = torch.zeros(size // 2, dtype=torch.bfloat16)
        return quick(lambda: torch.distributed.all_reduce(data), 12, clock)
    small, large = (reduce(size) for size in GLOO_BYTES)
    return small / 2, (GLOO_BYTES[1] - GLOO_BYTES[0]) / max(large - small, 1e-9)


def probe(torch, transformers, model, tokens, clock):
    found = {"gemm_rate": gemm_rate(torch, model, tokens),
             "kernel_seconds": dispatch(torch, transformers)}
    if torch.distributed.get_world_size() == 2:
        found["gloo_latency"], found["gloo_rate"] = gloo(torch, clock)
    return found


def train(settings):
    import deepspeed
    import torch
    import transformers

    torch.manual_seed(1)
    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    config = transformers.LlamaConfig(**settings["model"])
    config._attn_implementation = "sdpa"
    engine, _, _, _ = deepspeed.initialize(model=transformers.LlamaForCausalLM(config),
                                           config=settings["deepspeed"])
    batch = torch.randint(0, config.vocab_size, (settings["sequences"], settings["tokens"]))

    def now():
        return [clock() for clock in CLOCKS.values()]

    def step():
        marks = [now()]
        loss = engine(input_ids=batch, labels=batch, use_cache=False).loss
        marks.append(now())
        engine.backward(loss)
        marks.append(now())
        engine.step()
        marks.append(now())
        return {name: [after[i] - before[i] for before, after in zip(marks, marks[1:])]
                for i, name in enumerate(CLOCKS)}

    for _ in range(settings["warmup"]):
        step()
    result = {"steps": [step() for _ in range(settings["steps"])],
              "parameters": sum(getattr(one, "ds_numel", one.numel())
                                for one in engine.module.parameters())}
    if settings["probe"]:
        result["probe"] = probe(torch, transformers, engine.module, batch.numel(),
                                settings["clock"])
    return result, step


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    result, step = train(settings)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(result, file)
    print("MEMORY", flush=True)
    for _ in range(settings["memory_steps"]):
        step()
    print("DONE", flush=True)
    while select.select([sys.stdin], [], [])[0] and sys.stdin.readline():
        pass
    os._exit(0)  # ZenFlow's worker would be waited for


if __name__ == "__main__":
    main()
