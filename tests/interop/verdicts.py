"""What the linter and what DeepSpeed say of one file: the two sides of the comparison."""

import enum
import importlib
import json
import subprocess
from dataclasses import dataclass


class Says(enum.Enum):
    ACCEPTED = "accepted"    # by DeepSpeed's configuration classes
    REJECTED = "rejected"    # by them


@dataclass(frozen=True)
class Verdict:
    says: Says
    why: str = ""


class LintFailed(RuntimeError):
    """The linter did not answer."""


def _command(program, files, version, world_size):
    return [program, "lint", *map(str, files), "--json", "--deepspeed-version", version,
            "--world-size", str(world_size)]


def _run(command):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def lint(program, file, version, world_size=1):
    """The linter's verdict on what DeepSpeed's configuration classes will do with `file`."""
    command = _command(program, [file], version, world_size)
    run = _run(command)
    if run.returncode == 2 and not run.stdout:  # it cannot be read
        return Verdict(Says.REJECTED, run.stderr.strip())
    return _verdicts(command, run)[str(file)]


def lint_all(program, files, version, world_size=1):
    """Verdicts by file. One process for all files, unless one of them cannot be read: then there is
    no report, and each is asked about by itself."""
    command = _command(program, files, version, world_size)
    run = _run(command)
    if run.returncode == 2 and not run.stdout:
        return {str(file): lint(program, file, version, world_size) for file in files}
    return _verdicts(command, run)


def _verdicts(command, run):
    if run.returncode not in (0, 1):
        raise LintFailed(f"{' '.join(command)}: exit code {run.returncode}: {run.stderr.strip()}")
    return verdicts_of(json.loads(run.stdout))


def verdicts_of(report):
    """Verdicts by file, of a report of `lint --json`."""
    why = {file: [] for file in report["files"]}
    for one in report["findings"]:
        if one["rejected_by"] == "config":
            why[one["file"]].append(f"{one['code']} {one['path']}: {one['what']}")
    return {file: Verdict(Says.REJECTED if found else Says.ACCEPTED, "; ".join(found))
            for file, found in why.items()}


class DeepSpeed:
    """DeepSpeed's own classes, in this process. Importing them takes seconds: make one."""

    def __init__(self):
        import logging
        logging.disable(logging.CRITICAL)  # a warning a configuration would bury the report
        import deepspeed
        from deepspeed.runtime import config
        self.version = deepspeed.__version__.split("+")[0].strip()
        self._config = config
        self._world_size = 1
        # The number of ranks comes from torch.distributed, which is not running here.
        config.dist.get_rank = lambda *_, **__: 0
        config.dist.get_world_size = lambda *_, **__: self._world_size

    def verdict(self, file, world_size=1):
        self._world_size = world_size
        try:
            self._config.DeepSpeedConfig(str(file))
        except Exception as error:  # whatever they raise is a rejection
            first = str(error).strip().splitlines() or [""]
            return Verdict(Says.REJECTED, f"{type(error).__name__}: {' '.join(first[:3])[:200]}")
        return Verdict(Says.ACCEPTED)

    def keys(self):
        """The fields of the classes that refuse unknown keys, by block. Older releases have fewer of
        these classes: fp16 and bf16 are classes from 0.17.1 on, zenflow from 0.17.5 on."""
        runtime = "deepspeed.runtime"
        found = {block: _fields(f"{runtime}.{module}", name) for block, module, name in (
            ("zero_optimization", "zero.config", "DeepSpeedZeroConfig"),
            ("zero_optimization.zenflow", "zenflow.zenflow_config", "ZenFlowConfig"),
            ("zero_optimization.offload_optimizer", "zero.offload_config",
             "DeepSpeedZeroOffloadOptimizerConfig"),
            ("zero_optimization.offload_param", "zero.offload_config",
             "DeepSpeedZeroOffloadParamConfig"),
            ("bf16", "precision_config", "DeepSpeedBF16Config"),
            ("fp16", "precision_config", "DeepSpeedFP16Config"))}
        return {block: names for block, names in found.items() if names}


def _fields(module, name):
    """Names and aliases of a class's fields; none if the release does not have it."""
    try:
        kind = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        return set()
    fields = kind.model_fields if hasattr(kind, "model_fields") else kind.__fields__  # pydantic 1
    return {alias for key, field in fields.items() for alias in (key, field.alias) if alias}
