"""What is trained, found by looking at the engine, the model and the Trainer's arguments."""

import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional

from zenflow._calls import InputError
from zenflow.integrations._steps import BatchShapes


@dataclass
class Job:
    """As zenflow.check takes it; `said` has a line for each fact with where it is from."""
    arguments: Dict[str, Any]
    ds: Optional[Dict[str, Any]]
    ranks: int
    zenflow: bool
    said: List[str] = field(default_factory=list)

    def note(self, name: str, value: Any, source: str) -> Any:
        """`value`, written down with where it is from."""
        self.said.append("%s: %s (%s)" % (name, value, source))
        return value


def find_job(folder: str, *, module: Any, engine: Any, arguments: Any, shapes: BatchShapes, model: Optional[str],
             sequence_length: Optional[int]) -> Job:
    """The job; the model's configuration is written into `folder`. `arguments` are transformers' or None; `model` and
    `sequence_length` are what the user says. Raises InputError for what is nowhere to be found."""
    ds = _ds_config(engine, arguments)
    ranks, local = _ranks()
    job = Job({}, ds, ranks, bool(getattr(engine, "zenflow", False)))
    found = job.arguments
    found["model"] = _model_file(job, folder, module, model)
    adapter = _adapter_file(job, folder, module)
    if adapter:
        found["adapter"] = adapter
    found["gpus"] = job.note("ranks of a node", local, "torch.distributed")
    if ranks > local:
        found["nodes"] = job.note("nodes", -(-ranks // local), "torch.distributed")
    batch = shapes.mean()
    if sequence_length is not None:
        found["sequence_length"] = job.note("sequence length", sequence_length, "sequence_length=")
    elif batch is not None:
        found["sequence_length"] = job.note(
            "sequence length", batch[1], "the batches' mean" if shapes.differ() else "the batches")
    else:
        raise InputError("no batch with a sequence length was seen: say sequence_length=", 2)
    found["micro_batch_size"] = _micro_batch(job, engine, arguments, batch[0] if batch else None)
    found["gradient_accumulation_steps"] = _accumulation(job, engine, arguments)
    found["dtype"] = job.note("type", _dtype(engine, module), "the engine" if engine is not None else "the model")
    checkpointing = bool(getattr(module, "is_gradient_checkpointing", False))
    found["activation_checkpointing"] = job.note("activation checkpointing", checkpointing, "the model")
    return job


def version_of(package: str) -> Optional[str]:
    """Of an installed package; None if it is not."""
    import importlib.metadata
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def write_json(path: str, document: Any) -> str:
    """Writes a document that people can read; its path."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2, default=_plain)
        file.write("\n")
    return path


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, (set, frozenset)) else str(value)


def _ds_config(engine: Any, arguments: Any) -> Optional[Dict[str, Any]]:
    """The configuration with which DeepSpeed runs; None without one."""
    if engine is not None:
        config = engine._config._param_dict
    else:
        holder = getattr(arguments, "hf_deepspeed_config", None)
        config = getattr(holder, "config", None) or getattr(arguments, "deepspeed", None)
    if isinstance(config, str):
        with open(config, encoding="utf-8") as file:
            config = json.load(file)
    # A copy, and plain dictionaries: the engine's own are of other classes.
    return json.loads(json.dumps(config, default=_plain)) if isinstance(config, Mapping) else None


def _ranks() -> "tuple[int, int]":
    """Of the job, and of this node."""
    import torch.distributed
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return 1, 1
    ranks = torch.distributed.get_world_size()
    local = int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("LOCAL_SIZE") or ranks)
    return ranks, min(local, ranks)


def _model_file(job: Job, folder: str, module: Any, said: Optional[str]) -> str:
    if said is not None:
        return str(job.note("model", said, "model="))
    config = getattr(module, "config", None)
    if config is None or not hasattr(config, "to_dict"):
        raise InputError("the model has no configuration of transformers: say model=, a config.json or a Hub name", 2)
    job.note("model", getattr(config, "model_type", "?"), "model.config")
    return write_json(os.path.join(folder, "config.json"), config.to_dict())


def _adapter_file(job: Job, folder: str, module: Any) -> Optional[str]:
    adapters = getattr(module, "peft_config", None)
    if not isinstance(adapters, Mapping) or not adapters:
        return None
    name, config = next(iter(adapters.items()))
    job.note("adapter", name, "model.peft_config")
    return write_json(os.path.join(folder, "adapter_config.json"), config.to_dict())


def _micro_batch(job: Job, engine: Any, arguments: Any, seen: Optional[int]) -> int:
    if engine is not None:
        return int(job.note("sequences of a rank and micro step", engine.train_micro_batch_size_per_gpu(),
                            "the engine"))
    if arguments is not None:
        return int(job.note("sequences of a rank and micro step", arguments.per_device_train_batch_size,
                            "TrainingArguments"))
    return int(job.note("sequences of a rank and micro step", seen or 1, "the batches"))


def _accumulation(job: Job, engine: Any, arguments: Any) -> int:
    if job.zenflow:
        return int(job.note("accumulation steps", 1, "ZenFlow's windows are update_interval"))
    if engine is not None:
        return int(job.note("accumulation steps", engine.gradient_accumulation_steps(), "the engine"))
    return int(job.note("accumulation steps", arguments.gradient_accumulation_steps, "TrainingArguments"))


def _dtype(engine: Any, module: Any) -> str:
    if engine is not None:
        return "bf16" if engine.bfloat16_enabled() else "fp16" if engine.fp16_enabled() else "fp32"
    name = str(next(module.parameters()).dtype)
    return {"torch.bfloat16": "bf16", "torch.float16": "fp16"}.get(name, "fp32")
