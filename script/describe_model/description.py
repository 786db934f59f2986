"""The description's form, and how layers become kinds. Needs no torch."""
import json
import pathlib
import re
from typing import Any

VERSION = 1
LINE = 120  # characters of a line of JSON, where it fits
Layer = dict[str, Any]


class Refused(Exception):
    """What was asked for cannot be described; says in which file and at which key."""


def fail(file: object, key: str, text: str) -> None:
    raise Refused(f"{file}: {key}: {text}" if key else f"{file}: {text}")


def model_name(file: pathlib.Path) -> str:
    """As zenflow-sim names it: config.json by its folder."""
    if file.stem == "config" and file.parent.name not in ("", ".", ".."):
        return file.parent.name
    return file.stem


def placeholder(tensor: str, layer: str) -> str:
    """A tensor of the layer "model.layers.3", with "{}" for its number."""
    stack, _, _ = layer.rpartition(".")
    return f"{stack}.{{}}{tensor[len(layer):]}"


def rounded(x: float) -> float | int:
    x = round(x, 6)
    return int(x) if x == int(x) else x


def same_kind(a: Layer, b: Layer) -> bool:
    """What they keep may differ: a first layer's input is an embedding's output."""
    return all(a[key] == b[key] for key in a if key != "saved")


def kinds_of(layers: list[Layer]) -> tuple[list[Layer], list[list[int]]]:
    """The layers that differ, and [kind, how many] from the first to the last."""
    members: list[list[Layer]] = []
    order: list[list[int]] = []
    for layer in layers:
        at = next((i for i, known in enumerate(members) if same_kind(known[0], layer)), len(members))
        if at == len(members):
            members.append([])
        members[at].append(layer)
        if order and order[-1][0] == at:
            order[-1][1] += 1
        else:
            order.append([at, 1])
    return [usual(same) for same in members], order


def usual(same: list[Layer]) -> Layer:
    """The one that keeps what most of them keep."""
    kept = [json.dumps(layer["saved"]) for layer in same]
    return same[kept.index(max(reversed(kept), key=kept.count))]


def layer_parameters(layer: Layer) -> int:
    total = 0
    for tensor in layer["tensors"]:
        count = 1
        for size in tensor["shape"]:
            count *= size
        total += count
    return total


def parameters(description: dict[str, Any]) -> int:
    kinds = [layer_parameters(kind) for kind in description["kinds"]]
    return (layer_parameters(description["embedding"]) + layer_parameters(description["head"])
            + sum(kinds[kind] * count for kind, count in description["order"]))


def merged_products(products: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of a list, "experts.0.up" and "experts.1.up", as one that is there several times."""
    merged: dict[tuple, dict[str, Any]] = {}
    for one in products:
        name = re.sub(r"\.\d+(?=\.|$)", "", one["name"])
        key = (name, one["in"], one["out"], one["share"])
        if key in merged and name != one["name"]:
            merged[key]["count"] += one["count"]
        else:
            merged[(*key, len(merged)) if key in merged else key] = {**one, "name": name}
    return [{**one, "name": short(one["name"])} for one in merged.values()]


def short(name: str) -> str:
    """The last part of a module's name that says something."""
    parts = [p for p in name.split(".") if p not in ("base_layer", "default", "weight")]
    if len(parts) > 1 and parts[-1] in ("lora_A", "lora_B", "layer", "dense"):
        return ".".join(parts[-2:])
    return parts[-1] if parts else name


def forward_flops(description: dict[str, Any], length: int) -> float:
    """Of a sequence: all products, and attention without its causal half, as PyTorch's counter has it."""
    counts: dict[int, int] = {}
    for kind, count in description["order"]:
        counts[kind] = counts.get(kind, 0) + count
    parts = [(description["embedding"], 1), (description["head"], 1)]
    parts += [(description["kinds"][kind], count) for kind, count in counts.items()]
    return sum(count * layer_flops(layer, length) for layer, count in parts)


def layer_flops(layer: Layer, length: int) -> float:
    tokens = layer["tokens"] or length
    total = sum(2 * tokens * p["in"] * p["out"] * p["count"] * p["share"] for p in layer["products"])
    for one in layer["attention"]:
        if not one["linear"]:
            keys = one["key_tokens"] or tokens
            if layer["tokens"] and one["window"]:  # blocks of an image; text's windows are masks
                keys = min(keys, 2 * one["window"])
            total += 2 * tokens * keys * one["heads"] * (one["head_dim"] + one["value_dim"])
    return total


def text_of(value: Any, indent: int = 0) -> str:
    """JSON; what fits on a line stands on one."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or indent + len(line) <= LINE:
        return line
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {text_of(one, indent + 1)}" for key, one in value.items()]
    else:
        items = [text_of(one, indent + 1) for one in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(items) + f"\n{' ' * indent}{closing}"
