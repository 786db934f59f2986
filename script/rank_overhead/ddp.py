"""Seconds a step of PyTorch's DistributedDataParallel over gloo, as one JSON document of rank 0.

  ddp.py CONFIG SEQUENCES TOKENS STEPS     RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as torchrun sets them

A model of transformers from a config.json, fp32, one thread, fused AdamW, random tokens. The first third of
the steps, at least two, is not counted.
"""
import json
import os
import pathlib
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch.distributed
import transformers


def main():
    config = transformers.AutoConfig.for_model(**json.loads(pathlib.Path(sys.argv[1]).read_text()))
    sequences, tokens, steps = map(int, sys.argv[2:5])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(transformers.AutoModelForCausalLM.from_config(config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    times = []
    for _ in range(steps):
        batch = torch.randint(config.vocab_size, (sequences, tokens))
        torch.distributed.barrier()
        start = time.perf_counter()
        model(input_ids=batch, labels=batch, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - start)
    kept = times[max(2, steps // 3):]
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"step_seconds": sum(kept) / len(kept), "torch": torch.__version__,
                          "transformers": transformers.__version__,
                          "parameters": sum(p.numel() for p in model.parameters())}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
