"""A model on the meta device, from its configuration. Weights are never read."""
import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module

from describe_model.description import fail, model_name


def config_file(source: str) -> pathlib.Path:
    """Of a file, a folder or a name on the Hub."""
    path = pathlib.Path(source)
    if path.is_dir():
        path = path / "config.json"
    if path.exists():
        return path
    if path.suffix == ".json" or source.count("/") != 1 or source.startswith((".", "/")):
        fail(path, "", "no such file or folder")
    try:
        return pathlib.Path(transformers.utils.cached_file(source, "config.json"))
    except (OSError, ValueError) as error:
        fail(source, "", f"no such folder, and the Hub does not give its config.json: {first_line(error)}")
        raise


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def read_json(file: pathlib.Path) -> dict[str, Any]:
    try:
        raw = json.loads(file.read_text(encoding="utf-8"), object_hook=special_floats)
    except OSError as error:
        fail(file, "", error.strerror or first_line(error))
    except ValueError as error:
        fail(file, "", first_line(error))
    if not isinstance(raw, dict):
        fail(file, "", "expected a map")
    return raw


def special_floats(found: dict[str, Any]) -> Any:
    """transformers writes {"__float__": "Infinity"}."""
    return float(found["__float__"]) if found.keys() == {"__float__"} else found


class Source:
    """What a config.json says, and where code of its own would come from."""

    def __init__(self, source: str, class_name: str | None = None, trusts_code: bool = False):
        self.file = config_file(source)
        self.raw = read_json(self.file)
        is_hub = not pathlib.Path(source).exists()
        self.name = source.rsplit("/", 1)[-1] if is_hub else model_name(self.file)
        self._repository = source if is_hub else str(self.file.parent)
        self.notes: list[str] = []
        if self.raw.pop("quantization_config", None) is not None:
            self.notes.append("quantization_config is left out: weights are described as they are trained")
        self.type = self.raw.get("model_type")
        if not isinstance(self.type, str):
            fail(self.file, "model_type", "required, but missing")
        if trusts_code and "auto_map" in self.raw and class_name is None:
            self._model_class, self.config = self._from_code()
        else:
            self._model_class, self.config = self._from_transformers(class_name)

    def _from_transformers(self, class_name: str | None) -> tuple[type, Any]:
        name = class_name or (self.raw.get("architectures") or [None])[0]
        if self.type not in CONFIG_MAPPING and class_name is None:
            hint = ", and --trust-remote-code runs the repository's" if "auto_map" in self.raw else ""
            fail(self.file, "model_type", f"transformers {transformers.__version__} does not know "
                                          f"\"{self.type}\"; --class names a class that fits{hint}")
        if name is None:
            name = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(self.type)
        model_class = getattr(transformers, name, None) if name else None
        if model_class is None:
            fail(self.file, "architectures", f"transformers {transformers.__version__} has no class "
                                             f"\"{name}\"; --class names another")
        known = CONFIG_MAPPING[self.type] if self.type in CONFIG_MAPPING else model_class.config_class
        try:
            config = known.from_dict({k: v for k, v in self.raw.items() if k != "auto_map"})
        except Exception as error:  # whatever a configuration's class checks
            fail(self.file, "", f"{known.__name__} refuses it: {first_line(error)}")
        return model_class, config

    def _from_code(self) -> tuple[type, Any]:
        names = self.raw["auto_map"]
        key = next((k for k in names if k.startswith("AutoModelFor")), "AutoModel")
        if key not in names:
            fail(self.file, "auto_map", "names no AutoModel class")
        if self.file.name != "config.json":
            fail(self.file, "auto_map", "the code is looked for beside a file named config.json")
        try:
            config = AutoConfig.from_pretrained(self._repository, trust_remote_code=True)
            return get_class_from_dynamic_module(names[key], self._repository), config
        except Exception as error:  # whatever the code does
            fail(self.file, f"auto_map.{key}", first_line(error))
            raise

    def build(self, adapter: pathlib.Path | None = None) -> torch.nn.Module:
        """In bf16, for training; with scaled_dot_product_attention where the class has it."""
        with quiet_masks(), torch.device("meta"):
            try:
                model = self._construct("sdpa")
            except ValueError as error:
                self.notes.append(f"eager attention, whose scores are kept: {first_line(error)[:120]}")
                model = self._construct("eager")
            with contextlib.suppress(Exception):
                model.tie_weights()
            model = model.to(torch.bfloat16)
            if adapter is not None:
                model = wrapped(model, adapter)
        for module in model.modules():
            if isinstance(getattr(module, "config", None), transformers.PreTrainedConfig):
                module.config.use_cache = False
        return model.train()

    def _construct(self, attention: str) -> torch.nn.Module:
        try:
            return self._model_class._from_config(self.config, attn_implementation=attention)
        except ValueError:
            raise
        except Exception as error:
            fail(self.file, "", f"{self._model_class.__name__} cannot be built: {first_line(error)}")
            raise


def wrapped(model: torch.nn.Module, adapter: pathlib.Path) -> torch.nn.Module:
    import peft
    file = adapter / "adapter_config.json" if adapter.is_dir() else adapter
    raw = read_json(file)
    if "peft_type" not in raw:
        fail(file, "peft_type", "required, but missing")
    raw["inference_mode"] = False
    try:
        return peft.get_peft_model(model, peft.PeftConfig.from_peft_type(**raw))
    except Exception as error:  # whatever the adapter's class checks
        fail(file, "", f"peft {peft.__version__} refuses it: {first_line(error)}")
        raise


@contextlib.contextmanager
def quiet_masks() -> Iterator[None]:
    """Each row is one sequence: transformers would look into the positions, which meta tensors lack."""
    masking = transformers.masking_utils
    find = getattr(masking, "find_packed_sequence_indices", None)
    if find is None:
        yield
        return
    masking.find_packed_sequence_indices = lambda position_ids: None
    try:
        yield
    finally:
        masking.find_packed_sequence_indices = find
