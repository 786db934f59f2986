"""What the programs do, as functions."""

import json
import os
import tempfile
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from zenflow._calls import run
from zenflow._results import Check, Lint, Simulation, Trace, Tuned, decoded

Path = Union[str, "os.PathLike[str]"]
#: A DeepSpeed configuration, or the file that has it.
Config = Union[Path, Mapping[str, Any]]
_OFF_BY_TWO = 4  # exit code: an answer, whose `config` is None
Settings = Union[Mapping[str, Any], Sequence[str]]


@contextmanager
def _as_file(config: Optional[Config]) -> Iterator[Optional[str]]:
    """The configuration's file; one of its own if it is a dictionary."""
    if not isinstance(config, Mapping):
        yield None if config is None else os.fspath(config)
        return
    with tempfile.TemporaryDirectory(prefix="zenflow-") as folder:
        path = os.path.join(folder, "ds_config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)
        yield path


def _flags(options: Mapping[str, Any]) -> List[str]:
    """{"gpus": 2, "json": True} as flags. None: the flag is not given."""
    flags: List[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            if value:
                flags.append(flag)
            elif name == "activation_checkpointing":  # the one that a file may say otherwise
                flags.append("--no-activation-checkpointing")
        elif isinstance(value, (list, tuple)):
            for one in value:
                flags += [flag, os.fspath(one)]
        else:
            flags += [flag, str(value)]
    return flags


def _sets(settings: Optional[Settings]) -> List[str]:
    """{"topk_ratio": 0.05} as --set topk_ratio=0.05."""
    if settings is None:
        return []
    if isinstance(settings, Mapping):
        texts = ["%s=%s" % (key, json.dumps(value) if not isinstance(value, str) else value)
                 for key, value in settings.items()]
    else:
        texts = list(settings)
    return [word for text in texts for word in ("--set", text)]


def check(*, model: Optional[Path] = None, gpu: Optional[str] = None, ds: Optional[Config] = None,
          gpus: Optional[int] = None, nodes: Optional[int] = None, ram: Optional[str] = None,
          cores: Optional[int] = None, sockets: Optional[int] = None, gpu_link: Optional[str] = None,
          network: Optional[str] = None, host: Optional[Path] = None, adapter: Optional[Path] = None,
          sequence_length: Optional[int] = None, micro_batch_size: Optional[int] = None,
          gradient_accumulation_steps: Optional[int] = None, dtype: Optional[str] = None,
          activation_checkpointing: Optional[bool] = None, set: Optional[Settings] = None,
          deepspeed_version: Optional[str] = None, target: Optional[str] = None) -> Check:
    """Whether a job fits, how long its step is, where the GPU waits, and what would help.

    model: a config.json, its folder, weights, or a Hub name; gpu: a card ("RTX 4090"); ds: the job's file, of
    DeepSpeed, accelerate, transformers' Trainer, LLaMA-Factory, axolotl or ms-swift, or a DeepSpeed configuration as a
    dictionary; ram: of a node ("256GB"); host: "this", or a profile; network: line rate of a node ("400 Gb/s");
    sequence_length: tokens; micro_batch_size: sequences of a GPU; dtype: bf16, fp16 or fp32; set: keys of the
    scenario. A job that does not fit is an answer and no error. Raises InputError.
    """
    job = dict(locals())
    settings, config = job.pop("set"), job.pop("ds")
    with _as_file(config) as file:
        # Facts, notes and what is assumed are in the document.
        out, _ = run("zenflow-sim", ["check", "--json", "-q"] + _flags({"ds": file, **job}) + _sets(settings), (0, 3))
    document = json.loads(out)
    return decoded(Check, {**document, "document": document})


def simulate(scenario: Optional[Path] = None, *, schedules: Sequence[str] = (), set: Optional[Settings] = None,
             profile: Optional[str] = None, trace: Optional[Path] = None, ds: Optional[Config] = None,
             **job: Any) -> Simulation:
    """Step time, GPU busy, stall by cause, traffic and memory of a scenario's schedules.

    scenario: a file; in its place the arguments of `check` describe a job. schedules: in place of the scenario's; set:
    keys of the scenario ({"topk_ratio": 0.05}); profile: hardware in place of the scenario's; trace: a file to write
    the simulated run to, which Perfetto opens (it is overwritten). Raises InputError.
    """
    arguments = ["run", "--json"] + ([] if scenario is None else [os.fspath(scenario)])
    if trace is not None:
        arguments += ["--trace", os.fspath(trace), "--force"]
    with _as_file(ds) as file:
        flags = _flags({"schedule": list(schedules), "profile": profile, "ds": file, **job})
        out, warnings = run("zenflow-sim", arguments + flags + _sets(set))
    document = json.loads(out)
    return decoded(Simulation, {**document, "warnings": warnings, "document": document})


def tune(scenario: Optional[Path] = None, *, set: Optional[Settings] = None, vary: Sequence[str] = (),
         ds: Optional[Config] = None, trace: Sequence[Path] = (), output: Optional[Path] = None,
         **options: Any) -> Tuned:
    """The best configuration of a job, by exact search, and the DeepSpeed configuration for it.

    scenario: a file; in its place the arguments of `check`, or recordings of the job (trace, with model, base and what
    docs/tuning.md names). vary: "update_interval=2,4,8"; output: a folder for the results (they are overwritten). Other
    options are those of zenflow-tune: objective ("step_time", "tokens_per_second"), max_gpu_memory ("40 GiB"),
    max_host_memory, max_staleness (steps), global_batch (sequences), top, threads, measured_step ("2.3 s"), ... Where
    that is off by more than a factor of two of what the model says, `config` of the answer is None. Raises InputError,
    and Infeasible where nothing holds within the limits.
    """
    with _as_file(ds) as file, tempfile.TemporaryDirectory(prefix="zenflow-") as own:
        folder = os.path.join(own, "tuned") if output is None else os.fspath(output)
        arguments = ["--json", "--force", "-o", folder] + ([] if scenario is None else [os.fspath(scenario)])
        flags = _flags({"ds": file, "vary": list(vary), "trace": list(trace), **options})
        out, warnings = run("zenflow-tune", arguments + flags + _sets(set), (0, _OFF_BY_TWO))
        config: Optional[Dict[str, Any]] = None
        written = os.path.join(folder, "ds_config_optimal.json")
        if os.path.exists(written):
            with open(written, encoding="utf-8") as text:
                config = json.load(text)
    document = json.loads(out)
    return decoded(Tuned, {**document, "config": config, "warnings": warnings, "document": document})


def lint(ds: Config, *, target: Optional[str] = None, deepspeed_version: Optional[str] = None,
         world_size: Optional[int] = None, model: Optional[Path] = None, notes: bool = False) -> Lint:
    """What DeepSpeed will reject, ignore or do unexpectedly with a configuration, a file or a dictionary.

    target: what launches the training, "deepspeed", "hf" or "accelerate"; world_size: ranks. A configuration with
    errors is an answer and no error; what cannot be read is. Raises InputError.
    """
    flags = _flags({"target": target, "deepspeed_version": deepspeed_version, "world_size": world_size, "model": model})
    with _as_file(ds) as file:
        out, _ = run("zenflow-sim", ["lint", "--json", str(file)] + flags + (["--notes"] if notes else []), (0, 1))
    document = json.loads(out)
    findings = [{**one, "at": "{file}:{line}:{column}".format(**one)} for one in document["findings"]]
    return decoded(Lint, {**document, "findings": findings, "document": document})


def read_trace(trace: Path, *, steps: Optional[str] = None, rules: Optional[Path] = None) -> Trace:
    """What a recorded run shows: steps, how busy GPUs are and why they wait.

    trace: of the PyTorch profiler (also gzip), Nsight Systems (SQLite), zenflow-train, or DeepSpeed's log; steps: a
    regular expression for the ranges that are steps; rules: a file that names phases. Raises InputError.
    """
    flags = _flags({"trace": os.fspath(trace), "steps": steps, "rules": rules})
    out, _ = run("zenflow-sim", ["explain", "--json"] + flags)
    document = json.loads(out)["traces"][0]
    return decoded(Trace, {**document, "document": document})
