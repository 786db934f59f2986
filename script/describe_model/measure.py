"""Forward passes on the meta device at two lengths: what each part keeps of a token."""
import dataclasses
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from describe_model.description import Refused
from describe_model.modules import first
from describe_model.network import first_line, quiet_masks
from describe_model.parts import Stack
from describe_model.saved import EMBEDDING, CudaKernels, Kept, Recorder, Seen


@dataclasses.dataclass
class PerToken:
    elements: float = 0
    bytes: float = 0
    pairs: float = 0  # bytes of each pair of tokens: masks and scores


@dataclasses.dataclass
class Measured:
    """Of the parts that ran."""
    saved: dict[str, PerToken] = dataclasses.field(default_factory=dict)
    attention: dict[str, list[Seen]] = dataclasses.field(default_factory=dict)
    tokens: dict[str, int] = dataclasses.field(default_factory=dict)  # 0: as many as the sequence has
    width: dict[str, int] = dataclasses.field(default_factory=dict)
    place: dict[str, str] = dataclasses.field(default_factory=dict)
    share: dict[str, float] = dataclasses.field(default_factory=dict)  # of its part's tokens, that a product sees
    kept: list[tuple[Kept, Kept]] = dataclasses.field(default_factory=list)
    outputs: int | None = None
    failures: list[str] = dataclasses.field(default_factory=list)


def measure(model: torch.nn.Module, stacks: list[Stack], length: int) -> Measured:
    """The whole model, then the towers that it did not run: without an image a tower rests."""
    measured = Measured()
    follow(model, stacks, lambda t: inputs_of(model, t, with_labels=True), length, measured)
    if measured.failures:
        follow(model, stacks, lambda t: inputs_of(model, t, with_labels=False), length, measured)
    for stack in stacks:
        if stack.layer_names()[0] in measured.saved:
            continue
        follow(stack.tower, [stack], lambda t, s=stack: inputs_of(s.tower, t, False), length, measured,
               prefix=stack.owner)
    return measured


def follow(model: torch.nn.Module, stacks: list[Stack], inputs: Callable[[int], dict[str, Any]],
           length: int, measured: Measured, prefix: str = "") -> None:
    layers = {module: name for stack in stacks for name, module in zip(stack.layer_names(), stack.layers)}
    runs = []
    for tokens in (length // 2, length):
        recorder = Recorder(model, layers)
        try:
            with recorder.recording(), quiet_masks(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out = model(**inputs(tokens))
        except Refused:
            raise
        except Exception as error:  # whatever a model's code does on the meta device
            if not (prefix and recorder.has_run_layers):
                measured.failures.append(f"{type(model).__name__}: {first_line(error)}")
                return
        runs.append(recorder)
    if masks_of(runs[0]) != masks_of(runs[1]):
        measured.failures.append(f"{type(model).__name__}: attention takes another course with {length // 2} "
                                 f"than with {length} tokens; choose another --sequence-length")
        return
    add_run(runs, length, measured, prefix)
    if not prefix:
        measured.outputs = outputs_of(out)


def masks_of(run: Recorder) -> list[bool]:
    return [seen.masked for part in run.attention.values() for seen in part]


def add_run(runs: list[Recorder], length: int, measured: Measured, prefix: str) -> None:
    half, whole = runs
    for part, shape in whole.streams.items():
        rows = rows_of(shape)
        measured.tokens[part] = rows if rows_of(half.streams[part]) == rows else 0
        measured.width[part] = shape[-1]
        measured.saved[part] = PerToken()
        measured.attention[part] = whole.attention.get(part, [])
    for one, other in pairs(half.kept, whole.kept):
        if prefix and other.part not in whole.streams:
            continue  # a tower's own ends are no parts
        measured.kept.append((one, other))
        keys = {seen.keys for seen in whole.attention.get(other.part, []) if seen.keys != seen.queries}
        add_kept(measured, one, other, length, bool(keys & set(other.shape)))
    join = (lambda name: f"{prefix}.{name}" if name else prefix) if prefix else lambda name: name
    for name, part in whole.place.items():
        # All of a tower is before the text.
        measured.place.setdefault(join(name), EMBEDDING if prefix else part)
    for name, rows in whole.rows.items():
        part = next((p for p in whole.streams if name.startswith(p + ".") or join(name).startswith(p + ".")), "")
        measured.share[join(name)] = rows / (measured.tokens.get(part, 0) or length)


def pairs(half: list[Kept], whole: list[Kept]) -> list[tuple[Kept, Kept]]:
    """What is kept of both lengths. Loops over a sequence's pieces keep more of a longer one: sums, then."""
    if len(half) == len(whole):
        return list(zip(half, whole))
    return list(zip(sums(half, whole), sums(whole, half)))


def sums(kept: list[Kept], other: list[Kept]) -> list[Kept]:
    """One for each part, module and type that either of both has."""
    keys = dict.fromkeys((one.part, one.module, one.dtype) for one in (*kept, *other))
    total = dict.fromkeys(keys, 0)
    for one in kept:
        total[one.part, one.module, one.dtype] += one.nbytes
    return [Kept(part, module, (), dtype, nbytes, set()) for (part, module, dtype), nbytes in total.items()]


def rows_of(shape: tuple[int, ...]) -> int:
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows


def add_kept(measured: Measured, half: Kept, whole: Kept, length: int, is_of_keys: bool) -> None:
    """`is_of_keys`: of another stream's tokens, which the layer's attention looks at."""
    saved = measured.saved.setdefault(whole.part, PerToken())
    fixed = measured.tokens.get(whole.part, 0)
    growth = whole.nbytes / half.nbytes if half.nbytes else 1
    if fixed and growth < 1.5:
        per_token = whole.nbytes / fixed
        if per_token < whole.dtype.itemsize:
            return  # of a weight, not of tokens
    elif is_of_keys and growth < 1.5:
        per_token = whole.nbytes / length
    elif growth > 3:
        saved.pairs += whole.nbytes / length**2
        return
    elif growth > 1.5:
        per_token = (whole.nbytes - half.nbytes) / (length - length // 2)
    else:
        return
    if whole.is_trained_type:
        saved.elements += per_token / whole.dtype.itemsize
    else:
        saved.bytes += per_token


def outputs_of(out: Any) -> int | None:
    logits = getattr(out, "logits", None)
    if logits is None:
        logits = getattr(out, "start_logits", None)
        return 2 if logits is not None else 0
    return logits.shape[-1]


def inputs_of(model: torch.nn.Module, length: int, with_labels: bool) -> dict[str, Any]:
    """Of one sequence, by what the model's forward takes."""
    if has_argument(model, "input_ids"):
        inputs = {"input_ids": tokens(length)}
    elif has_argument(model, "input_features") or has_argument(model, "input_values"):
        inputs = audio_inputs(model)
    else:
        inputs = image_inputs(model)
    if has_argument(model, "decoder_input_ids"):
        inputs["decoder_input_ids"] = tokens(length)
    if with_labels:
        inputs |= labels(model, length)
    return inputs


def audio_inputs(model: torch.nn.Module) -> dict[str, Any]:
    config = model.config
    frames = 2 * first(config, ("max_source_positions",), 1500)
    if has_argument(model, "input_features"):
        return {"input_features": meta(1, first(config, ("num_mel_bins", "feature_size"), 80), frames)}
    return {"input_values": meta(1, 160 * frames)}


def has_argument(model: torch.nn.Module, name: str) -> bool:
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return name in inspect.signature(inner.forward).parameters


def labels(model: torch.nn.Module, length: int) -> dict[str, Any]:
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    kind = type(inner).__name__
    if kind.endswith("ForQuestionAnswering"):
        one = torch.zeros(1, dtype=torch.long, device="meta")
        return {"start_positions": one, "end_positions": one}
    if not has_argument(model, "labels"):
        return {}
    if kind.endswith(("ForSequenceClassification", "ForImageClassification")):
        return {"labels": torch.zeros(1, dtype=torch.long, device="meta")}
    return {"labels": tokens(length)}


def tokens(length: int) -> torch.Tensor:
    return torch.zeros(1, length, dtype=torch.long, device="meta")


def meta(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.bfloat16, device="meta")


def image_inputs(model: torch.nn.Module) -> dict[str, Any]:
    config = model.config
    size = image_size(config)
    channels = first(config, ("num_channels", "in_channels", "in_chans"), 3)
    if has_argument(model, "grid_thw"):
        patch, frames = config.patch_size, first(config, ("temporal_patch_size",), 2)
        side = size // patch
        return {"hidden_states": meta(side * side, channels * frames * patch * patch),
                "grid_thw": torch.tensor([[1, side, side]])}
    inputs: dict[str, Any] = {"pixel_values": meta(1, channels, size, size)}
    if has_argument(model, "image_sizes"):
        inputs["image_sizes"] = torch.tensor([[size, size]])
    return inputs


def image_size(config: Any) -> int:
    """Pixels of a side; where any size may come, that of 1024 patches."""
    size = first(config, ("image_size",))
    if isinstance(size, (list, tuple)):
        size = size[0]
    return size or 32 * first(config, ("patch_size",), 16)


def counted_flops(model: torch.nn.Module, stacks: list[Stack], measured: Measured, length: int) -> float | None:
    """PyTorch's count of the forward pass, and of those of the towers that it leaves out."""
    total = flops_of(model, inputs_of(model, length, with_labels=True), is_whole=True)
    if total is None:
        total = flops_of(model, inputs_of(model, length, with_labels=False), is_whole=True)
    for stack in stacks:
        if stack.stream != "text" and stack.tower is not model and measured.tokens.get(stack.layer_names()[0], 0):
            tower = flops_of(stack.tower, inputs_of(stack.tower, length, with_labels=False), is_whole=False)
            total = None if total is None or tower is None else total + tower
    return total


def flops_of(model: torch.nn.Module, inputs: dict[str, Any], is_whole: bool) -> float | None:
    """`is_whole`: not if it breaks off. A tower's layers have run then."""
    def grouped(a: tuple, b: tuple, *_: Any, out_shape: Any = None, **__: Any) -> int:
        return 2 * a[0] * a[1] * b[-1]

    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten._grouped_mm: grouped})
    with quiet_masks(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with CudaKernels(lambda seen: None), counter:
                model(**inputs)
        except Exception:  # whatever a model's code does on the meta device
            if is_whole:
                return None
    return counter.get_total_flops()
