"""Does Hugging Face's Trainer take a tuned file with the command that goes with it?"""

import shlex
from types import SimpleNamespace

from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig


def mismatches(file, command, world_size):
    """What Trainer would raise for: values of `file` that differ from the arguments of `command`,
    and arguments that it does not know."""
    arguments = shlex.split(command)
    # Parsed without making TrainingArguments of them, which asks for a GPU.
    parsed, unknown = HfArgumentParser(TrainingArguments).parse_known_args(
        arguments[arguments.index("train.py") + 1:])
    config = HfTrainerDeepSpeedConfig(str(file))
    config.trainer_config_process(SimpleNamespace(
        **{"fp16_full_eval": False, "bf16_full_eval": False, "fp16_backend": "auto",
           "fp16_opt_level": "O1", "save_on_each_node": False, **vars(parsed)},
        world_size=world_size))
    return [f"no argument of Trainer: {one}" for one in unknown] + config.mismatches
