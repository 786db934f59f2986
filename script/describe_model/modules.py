"""Products, attention and element-wise chains of a part, from its modules and its tower's configuration."""
import re
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from describe_model.description import merged_products, rounded
from describe_model.saved import CONVOLUTIONS

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
TOP_K = ("num_experts_per_tok", "moe_topk", "moe_k", "num_selected_experts", "top_k")
ACTIVATIONS = ("act_fn", "activation_fn", "intermediate_act_fn", "act", "activation")
Named = tuple[str, torch.nn.Module]


def first(config: Any, keys: tuple[str, ...], otherwise: Any = None) -> Any:
    """The first key that the configuration has a value at."""
    for key in keys:
        value = getattr(config, key, None)
        if value is not None:
            return value
    return otherwise


def experts_of(config: Any) -> tuple[int, float]:
    """How many there are, and the share of the tokens that each sees."""
    count = first(config, EXPERTS, 0)
    if isinstance(count, (list, tuple)):
        count = max(count, default=0)
    top_k = first(config, TOP_K, 1)
    if isinstance(top_k, (list, tuple)):
        top_k = max(top_k, default=1)
    return count, min(1.0, top_k / count) if count else 1.0


def product(name: str, inputs: int, outputs: int, count: int = 1, share: float = 1) -> dict[str, Any]:
    return {"name": name, "in": inputs, "out": outputs, "count": count, "share": share}


def products_of(modules: list[Named], config: Any, shares: dict[str, float] | None = None) -> list[dict[str, Any]]:
    """`shares`: of the tokens, that each was seen to get, as far as it was."""
    found = []
    for name, module in modules:
        found += module_products(name, module, config, rounded((shares or {}).get(name, 1)))
    return merged_products(found)


def module_products(name: str, module: torch.nn.Module, config: Any, share: float) -> list[dict[str, Any]]:
    parts = name.split(".")
    if "experts" in parts and any(p.isdigit() for p in parts):
        share = experts_of(config)[1]
    if isinstance(module, torch.nn.Linear):
        return [product(name, module.in_features, module.out_features, share=share)]
    if isinstance(module, Conv1D):
        return [product(name, module.weight.shape[0], module.weight.shape[1], share=share)]
    if isinstance(module, CONVOLUTIONS):
        return [product(name, module.weight[0].numel(), module.weight.shape[0], share=share)]
    if isinstance(module, (torch.nn.Embedding, torch.nn.ModuleList)):
        return []
    return own_products(name, module, config, share)


def own_products(name: str, module: torch.nn.Module, config: Any, seen: float) -> list[dict[str, Any]]:
    """Of experts in one tensor, and of routers, which hold their weight themselves.

    `seen`: of the tokens, that entered the experts. More than all of them: each expert gets a copy.
    """
    experts, share = experts_of(config)
    share = share if seen <= 1 else rounded(seen / experts)
    found = []
    for key, weight in module.named_parameters(recurse=False):
        at = f"{name}.{key}" if name else key
        if weight.dim() == 3 and experts and weight.shape[0] == experts:
            outputs, inputs = weight.shape[1:]
            if getattr(module, "is_transposed", False):
                outputs, inputs = inputs, outputs
            found.append(product(at, inputs, outputs, experts, share))
        elif weight.dim() == 2 and key == "weight":
            found.append(product(at, weight.shape[1], weight.shape[0]))
    return found


def heads_of(config: Any) -> dict[str, int]:
    heads = first(config, ("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads"), 0)
    width = hidden_of(config)
    head_dim = first(config, ("head_dim", "d_kv"), width // heads if heads else 0)
    value_dim = head_dim
    if first(config, ("kv_lora_rank",)):
        head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim
        value_dim = config.v_head_dim
    kv_heads = first(config, ("num_key_value_heads",), heads) if head_dim == value_dim else heads
    return {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "value_dim": value_dim}


def hidden_of(config: Any) -> int:
    return first(config, ("hidden_size", "d_model", "n_embd", "embed_dim"), 0)


def kind_of(config: Any, index: int) -> str:
    """What the configuration calls the layer: "sliding_attention", "mamba"."""
    types = first(config, ("layer_types", "layers_block_type", "hybrid_override_pattern"), ())
    return str(types[index]) if index < len(types) else ""


def window_of(config: Any, index: int) -> int:
    """Tokens that the layer's queries look back on; 0: all."""
    kind = kind_of(config, index)
    if kind == "chunked_attention":
        return first(config, ("attention_chunk_size",), 0)
    if first(config, ("index_topk",)):
        return config.index_topk
    if kind not in ("", "sliding_attention"):
        return 0
    if not kind and not getattr(config, "use_sliding_window", True):
        return 0
    window = first(config, ("sliding_window",), 0)
    return window if isinstance(window, int) else 0


def attention_of(modules: list[Named], config: Any, index: int, seen: list[Any], tokens: int,
                 length: int, is_decoder: bool) -> list[dict[str, Any]]:
    """What ran of it, if the forward pass could be followed; else what the configuration says."""
    causal = is_causal(modules, config, is_decoder)
    linear = linear_attention(modules, config)
    if linear:
        return [linear]
    said = heads_of(config)
    window = window_of(config, index)
    if not seen:
        if not any("attention" in type(module).__name__.lower() for _, module in modules):
            return []
        return [attention(**said, window=window, causal=causal)]
    if len(seen) > 1 and len(set(seen)) == 1 and seen[0].queries * len(seen) == tokens:
        one = seen[0]  # blocks of an image that see themselves only
        return [attention(one.heads, one.kv_heads, one.head_dim, one.value_dim, one.queries // 2, one.causal)]
    return [attention(one.heads, said["kv_heads"] if one.masked and one.heads == said["heads"] else one.kv_heads,
                      one.head_dim, one.value_dim, window if one.queries == one.keys else 0,
                      one.causal or (one.masked and causal and one.queries == one.keys),
                      0 if one.keys in (one.queries, length, tokens) else one.keys) for one in seen]


def attention(heads: int, kv_heads: int, head_dim: int, value_dim: int, window: int = 0,
              causal: bool = True, key_tokens: int = 0, linear: bool = False) -> dict[str, Any]:
    return {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "value_dim": value_dim,
            "window": window, "causal": causal, "linear": linear, "key_tokens": key_tokens}


def is_causal(modules: list[Named], config: Any, otherwise: bool) -> bool:
    for _, module in modules:
        if "attention" in type(module).__name__.lower() and hasattr(module, "is_causal"):
            return bool(module.is_causal)
    return otherwise or bool(getattr(config, "is_decoder", False))


def linear_attention(modules: list[Named], config: Any) -> dict[str, Any] | None:
    """Of a Mamba mixer or a gated delta rule."""
    for _, module in modules:
        name = type(module).__name__.lower()
        if "mamba" in name and ("mixer" in name or "layer" in name):
            heads = first(config, ("mamba_n_heads", "mamba_num_heads", "num_heads"), 1)
            state = first(config, ("mamba_d_state", "ssm_state_size", "state_size"), 16)
            columns = first(config, ("mamba_d_head", "mamba_head_dim", "head_dim"), 64)
            return attention(heads, heads, state, columns, linear=True)
        if "deltanet" in name or "linearattention" in name:
            heads = first(config, ("linear_num_value_heads", "num_attention_heads"), 1)
            keys = first(config, ("linear_key_head_dim", "head_dim"), 128)
            values = first(config, ("linear_value_head_dim", "head_dim"), 128)
            return attention(heads, first(config, ("linear_num_key_heads",), heads), keys, values,
                             linear=True)
    return None


def chains_of(modules: list[Named], config: Any, width: int,
              attentions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Norms, dropout, activations, rotations, and a sum after each attention and each MLP."""
    found = []
    for name, module in modules:
        if "norm" in type(module).__name__.lower() and next(module.children(), None) is None:
            found.append(norm_chain(name, module, width, attentions))
        if isinstance(module, torch.nn.Dropout) and module.p > 0 and "attn_drop" not in name:
            found.append(chain("dropout", width))
    activations = [one for name, module in modules for one in activation_chains(name, module, config)]
    found += activations
    found += [chain("residual", width)] * (len(attentions) + min(1, len(activations)))
    if attentions and not attentions[0]["linear"] and rotates(config):
        share = getattr(config, "partial_rotary_factor", None) or 1
        for heads in (attentions[0]["heads"], attentions[0]["kv_heads"]):
            found.append(chain("rotary", heads * attentions[0]["head_dim"] * share))
    return found


def chain(kind: str, width: float) -> dict[str, Any]:
    return {"kind": kind, "width": int(width)}


def norm_chain(name: str, module: torch.nn.Module, width: int,
               attentions: list[dict[str, Any]]) -> dict[str, Any]:
    kind = "layer_norm" if "layer" in type(module).__name__.lower() else "rms_norm"
    weight = getattr(module, "weight", None)
    size = weight.numel() if weight is not None else width
    if attentions and size == attentions[0]["head_dim"]:  # of each head
        last = name.rsplit(".", 1)[-1]
        size *= attentions[0]["kv_heads" if last.startswith("k") else "heads"]
    return chain(kind, size)


def activation_chains(name: str, module: torch.nn.Module, config: Any) -> list[dict[str, Any]]:
    act = next((getattr(module, key) for key in ACTIVATIONS
                if isinstance(getattr(module, key, None), torch.nn.Module)), None)
    if act is None:
        return []
    experts, share = experts_of(config)
    found = re.search(r"\bexperts\.(\d+)$", name)
    if found and found[1] != "0":
        return []  # the first one stands for all
    scale = experts * share if found else 1
    own = [(name, p) for name, p in module.named_parameters(recurse=False) if p.dim() == 3]
    if own:
        return [chain("gate", inner_of_experts(own, module) * experts * share)]
    linears = [m for _, m in module.named_children() if isinstance(m, (torch.nn.Linear, Conv1D))]
    if not linears:
        return []
    shapes = [(m.in_features, m.out_features) if isinstance(m, torch.nn.Linear)
              else tuple(m.weight.shape) for m in linears]
    inner = shapes[-1][0] if len(shapes) > 1 else shapes[0][1]
    if sum(out for _, out in shapes[:-1]) == 2 * inner:
        return [chain("gate", inner * scale)]
    is_long = type(act).__name__ in ("NewGELUActivation", "FastGELUActivation")
    return [chain("new_gelu" if is_long else "activation", inner * scale)]


def inner_of_experts(own: list[tuple[str, torch.nn.Parameter]], module: torch.nn.Module) -> int:
    """Columns of an expert's activation: what its second product reads."""
    down = next((weight for name, weight in own if "down" in name or "output" in name), own[-1][1])
    return down.shape[1 if getattr(module, "is_transposed", False) else 2]


def rotates(config: Any) -> bool:
    return any(getattr(config, key, None) for key in ("rope_parameters", "rope_theta", "rope_scaling"))
