"""Which tensors are the embedding's, a layer's and the head's."""
import dataclasses
import re
from typing import Any

import torch

from describe_model.description import fail
from describe_model.saved import EMBEDDING, HEAD


@dataclasses.dataclass
class Stack:
    """A list of layers that follow each other."""
    name: str  # of the list: "model.layers"
    layers: list[torch.nn.Module]
    owner: str  # the model or tower that it stands in
    tower: torch.nn.Module
    config: Any

    @property
    def stream(self) -> str:
        """What its tokens are of."""
        for kind, pattern in (("image", r"vision|visual|image|\bvit\b"), ("audio", r"audio|speech")):
            if re.search(pattern, self.name, re.IGNORECASE):
                return kind
        return "text"

    def layer_names(self) -> list[str]:
        return [f"{self.name}.{i}" for i in range(len(self.layers))]


def find_stacks(model: torch.nn.Module, file: object) -> list[Stack]:
    """In the order of forward: towers before the text that reads them."""
    stacks: list[Stack] = []
    collect(model, "", ("", model, getattr(model, "config", None)), stacks)
    if not stacks:
        fail(file, "", f"{type(model).__name__} has no list of layers (torch.nn.ModuleList)")
    return sorted(stacks, key=lambda stack: stack.stream == "text")


def collect(module: torch.nn.Module, name: str, owner: tuple, stacks: list[Stack]) -> None:
    if hasattr(module, "config") and hasattr(module, "main_input_name"):
        owner = (name, module, module.config)
    children = [(f"{name}.{child}" if name else child, one) for child, one in module.named_children()]
    lists = [(n, one) for n, one in children if is_stack(one)]
    if lists:
        # Others beside it are no layers of the stream: projections of some of its layers.
        best, layers = max(lists, key=lambda x: len(x[1]))
        stacks.append(Stack(best, list(layers), *owner))
    for child, one in children:
        if not isinstance(one, torch.nn.ModuleList):
            collect(one, child, owner, stacks)


def is_stack(module: torch.nn.Module) -> bool:
    return (isinstance(module, torch.nn.ModuleList) and len(module) > 0
            and all(next(one.parameters(), None) is not None for one in module))


@dataclasses.dataclass
class Tensors:
    """By part: [name, parameter] of the embedding, of each layer, of the head."""
    embedding: list[tuple[str, torch.nn.Parameter]]
    layers: dict[str, list[tuple[str, torch.nn.Parameter]]]
    head: list[tuple[str, torch.nn.Parameter]]


def split_tensors(model: torch.nn.Module, stacks: list[Stack], place: dict[str, str]) -> Tensors:
    """`place`: where the modules outside the layers ran, as far as they did."""
    tensors = Tensors([], {name: [] for stack in stacks for name in stack.layer_names()}, [])
    last_stack = stacks[-1].name + "."
    behind = False  # the last stack, in the order of registration
    for name, parameter in model.named_parameters():
        layer = layer_of(name, stacks)
        behind = behind or name.startswith(last_stack)
        if layer is not None:
            tensors.layers[layer].append((name, parameter))
            continue
        ran = place.get(name.rpartition(".")[0], HEAD if behind else EMBEDDING)
        (tensors.head if ran == HEAD else tensors.embedding).append((name, parameter))
    return tensors


def layer_of(name: str, stacks: list[Stack]) -> str | None:
    for stack in stacks:
        if name.startswith(stack.name + "."):
            return f"{stack.name}.{name[len(stack.name) + 1:].split('.', 1)[0]}"
    return None
