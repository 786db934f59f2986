"""What the linter and what DeepSpeed say of one file: the two sides of the comparison."""

import enum
import json
import subprocess
from dataclasses import dataclass


class Says(enum.Enum):
    ACCEPTED = "accepted"    # by DeepSpeed's configuration classes
    REJECTED = "rejected"    # by them
    UNREAD = "not read"      # the linter reads JSON with comments, and this is not that


@dataclass(frozen=True)
class Verdict:
    says: Says
    why: str = ""


class LintFailed(RuntimeError):
    """The linter did not answer."""


# The linter's message where a text may still be Hjson, which it does not read.
NOT_JSON = "DeepSpeed reads Hjson"


def lint(program, file, version, world_size=1):
    """The linter's verdict on what DeepSpeed's configuration classes will do with `file`."""
    command = [program, "lint", str(file), "--json", "--deepspeed-version", version,
               "--world-size", str(world_size)]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace",
                         check=False)
    if run.returncode == 2 and not run.stdout:
        undecided = NOT_JSON in run.stderr
        return Verdict(Says.UNREAD if undecided else Says.REJECTED, run.stderr.strip())
    if run.returncode not in (0, 1):
        raise LintFailed(f"{' '.join(command)}: exit code {run.returncode}: {run.stderr.strip()}")
    findings = [one for one in json.loads(run.stdout)["findings"]
                if one["rejected_by"] == "config"]
    why = "; ".join(f"{one['code']} {one['path']}: {one['what']}" for one in findings)
    return Verdict(Says.REJECTED if findings else Says.ACCEPTED, why)


class DeepSpeed:
    """DeepSpeed's own classes, in this process. Importing them takes seconds: make one."""

    def __init__(self):
        import logging
        logging.disable(logging.CRITICAL)  # a warning a configuration would bury the report
        import deepspeed
        from deepspeed.runtime import config
        self.version = deepspeed.__version__.split("+")[0]
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
        """The fields of the classes that refuse unknown keys, by block."""
        from deepspeed.runtime import precision_config
        from deepspeed.runtime.zenflow.zenflow_config import ZenFlowConfig
        from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
        from deepspeed.runtime.zero.offload_config import (DeepSpeedZeroOffloadOptimizerConfig,
                                                           DeepSpeedZeroOffloadParamConfig)
        classes = {
            "zero_optimization": DeepSpeedZeroConfig,
            "zero_optimization.zenflow": ZenFlowConfig,
            "zero_optimization.offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
            "zero_optimization.offload_param": DeepSpeedZeroOffloadParamConfig,
            "bf16": precision_config.DeepSpeedBF16Config,
            "fp16": precision_config.DeepSpeedFP16Config,
        }
        return {block: {alias for name, field in kind.model_fields.items()
                        for alias in (name, field.alias) if alias}
                for block, kind in classes.items()}
