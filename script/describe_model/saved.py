"""What autograd keeps of each part of a network, counted in forward passes on the meta device."""
import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only
from transformers.pytorch_utils import Conv1D

EMBEDDING, HEAD, LOSS = "embedding", "head", "loss"
PRODUCTS = (torch.nn.Linear, Conv1D)
CONVOLUTIONS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
TRAINED = 2  # bytes of bf16, the type of weights and activations


@dataclasses.dataclass
class Kept:
    """A storage that autograd holds on to."""
    part: str
    module: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    nbytes: int
    parts: set[str]

    @property
    def is_trained_type(self) -> bool:
        return self.dtype.is_floating_point and self.dtype.itemsize == TRAINED


@dataclasses.dataclass(frozen=True)
class Seen:
    """One call of scaled_dot_product_attention."""
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    causal: bool
    masked: bool
    queries: int
    keys: int


class CudaKernels(TorchFunctionMode):
    """Runs on the meta device what a GPU would: there it would take the slow forms of both."""

    def __init__(self, attended: Callable[[Seen], None]):
        super().__init__()
        self._attended = attended

    def __torch_function__(self, func: Any, types: Any, args: tuple = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        if func is functional.dropout:
            return dropout(*args, **kwargs)
        if func is torch.Tensor.__contains__:
            return False  # are there padding tokens?
        try:
            return func(*args, **kwargs)
        except RuntimeError:
            if len(devices(args, kwargs)) < 2:
                raise
        # Sizes of images have values, what is computed with them has none.
        args, kwargs = tree_map_only(torch.Tensor, lambda x: x.to("meta"), (args, kwargs))
        return func(*args, **kwargs)

    def _attention(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                   attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
                   is_causal: bool = False, scale: float | None = None,
                   enable_gqa: bool = False) -> torch.Tensor:
        self._attended(Seen(query.shape[1], key.shape[1], query.shape[-1], value.shape[-1], is_causal,
                            attn_mask is not None, query.shape[-2], key.shape[-2]))
        width = value.shape[-1]
        query, key, value = (padded(x) for x in (query, key, value))
        is_flash = attn_mask is None and query.shape[-1] == value.shape[-1] <= 256
        if is_flash:
            out = torch.ops.aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, False, scale=scale)[0]
            return out[..., :width]
        if enable_gqa:
            groups = query.shape[1] // key.shape[1]
            key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, bias(attn_mask, query, key), True, dropout_p, is_causal,
            scale=scale)[0][..., :width]


def holds_experts(module: torch.nn.Module) -> bool:
    return (not isinstance(module, CONVOLUTIONS)
            and any(p.dim() == 3 for p in module.parameters(recurse=False)))


def devices(*args: Any) -> set[torch.device]:
    return {x.device for x in tree_leaves(args) if torch.is_tensor(x)}


def padded(x: torch.Tensor) -> torch.Tensor:
    """Fused kernels want heads of a multiple of eight columns."""
    return functional.pad(x, (0, -x.shape[-1] % 8)) if x.shape[-1] % 8 else x


def bias(mask: torch.Tensor | None, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor | None:
    """The mask as the fused kernel adds it."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype)
    return mask.expand(*query.shape[:-1], key.shape[-2])


def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True,
            inplace: bool = False) -> torch.Tensor:
    if not training or p == 0:
        return input
    return torch.native_dropout(input, p, True)[0]


class Recorder:
    """Follows one forward pass: `layers` names the modules that are parts of their own."""

    def __init__(self, model: torch.nn.Module, layers: dict[torch.nn.Module, str]):
        self.kept: list[Kept] = []
        self.attention: dict[str, list[Seen]] = collections.defaultdict(list)
        self.streams: dict[str, tuple[int, ...]] = {}  # what enters a layer
        self.rows: dict[str, int] = collections.Counter()  # that a product has seen
        self.place: dict[str, str] = {}  # where a module outside the layers ran first
        self._layers = layers
        self._names = {module: name for name, module in model.named_modules()}
        self._weights = {x.untyped_storage()._cdata
                         for x in (*model.parameters(), *model.buffers())}
        self._by_storage: dict[int, Kept] = {}
        self._alive: list[torch.Tensor] = []  # a storage's address names it only while it lives
        self._modules = [""]
        self._last = list(layers)[-1]
        self.has_run_layers = False
        self._part = EMBEDDING
        self._outside = EMBEDDING
        self._head_end = 0

    def _before(self, module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        name = self._names.get(module)
        if name is None:
            return
        self._modules.append(name)
        if args and torch.is_tensor(args[0]) and holds_experts(module):
            self.rows[name] += args[0].numel() // args[0].shape[-1]
        if module in self._layers:
            self._part = self._layers[module]
            stream = next((x for x in (*args, *kwargs.values())
                           if torch.is_tensor(x) and x.is_floating_point()), None)
            if stream is not None:
                self.streams[self._part] = tuple(stream.shape)
        elif self._part == self._outside:
            self.place.setdefault(name, self._part)

    def _after(self, module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], out: Any) -> None:
        if module not in self._names:
            return
        self._modules.pop()
        out = out[0] if isinstance(out, tuple) else out
        if isinstance(module, PRODUCTS):
            self.rows[self._names[module]] += out.numel() // out.shape[-1]
        elif isinstance(module, CONVOLUTIONS):
            self.rows[self._names[module]] += out.numel() // module.out_channels
        if module in self._layers:
            if module is self._last:
                self._outside = HEAD
                self.has_run_layers = True
            self._part = self._outside
        elif self._part == HEAD and next(module.parameters(recurse=False), None) is not None:
            self._head_end = len(self.kept)

    def _pack(self, x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        if storage._cdata in self._weights:
            return x
        one = self._by_storage.get(storage._cdata)
        if one is None:
            one = Kept(self._part, self._modules[-1], tuple(x.shape), x.dtype, storage.nbytes(), set())
            self._by_storage[storage._cdata] = one
            self._alive.append(x)
            self.kept.append(one)
        one.parts.add(self._part)
        return x

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        handles = []
        for one in self._names:
            handles.append(one.register_forward_pre_hook(self._before, with_kwargs=True, prepend=True))
            handles.append(one.register_forward_hook(self._after, with_kwargs=True))
        try:
            with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda x: x), \
                    CudaKernels(lambda seen: self.attention[self._part].append(seen)):
                yield
        finally:
            for handle in handles:
                handle.remove()
            self._settle()

    def _settle(self) -> None:
        """Whose what was kept by several layers is, and where the loss begins."""
        layers = set(self._layers.values())
        for i, one in enumerate(self.kept):
            if len(one.parts & layers) > 1:
                one.part = EMBEDDING
            if one.part == HEAD and i >= self._head_end:
                one.part = LOSS
        self._alive.clear()
