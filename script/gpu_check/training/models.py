"""GPT-2 and Llama in plain PyTorch: enough of them to train on random tokens. `model(tokens)` is
the loss of predicting every token but the first, one tensor and nothing else: DeepSpeed scales the
gradients of each output that a model returns.
"""
import math

import torch
from torch import nn
from torch.nn import functional


def attend(query, key, value, heads):
    """Causal attention of (batch, tokens, hidden), scaled by the root of a head's width."""
    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    out = functional.scaled_dot_product_attention(split(query), split(key), split(value),
                                                  is_causal=True)
    return out.transpose(1, 2).flatten(-2)


class Gpt2Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        h = shape.hidden
        self.heads = shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.qkv, self.out = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, shape.inner), nn.Linear(shape.inner, h)

    def forward(self, x):
        query, key, value = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.out(attend(query, key, value, self.heads))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return self.weight * (wide * scale).to(x.dtype)


def rotate(x, angles, heads):
    """Rotary position embedding; `angles`: (tokens, head width / 2)."""
    low, high = x.unflatten(-1, (heads, 2, -1)).unbind(-2)
    cosine, sine = (f(angles)[:, None, :].to(x.dtype) for f in (torch.cos, torch.sin))
    rotated = torch.stack((low * cosine - high * sine, high * cosine + low * sine), dim=-2)
    return rotated.flatten(-3)


class LlamaBlock(nn.Module):
    def __init__(self, shape):
        super().__init__()
        h = shape.hidden
        self.heads = shape.heads
        self.norm1, self.norm2 = RmsNorm(h), RmsNorm(h)
        self.query, self.key, self.value, self.out = (nn.Linear(h, h, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(h, shape.inner, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.inner, h, bias=False)

    def forward(self, x, angles):
        y = self.norm1(x)
        query = rotate(self.query(y), angles, self.heads)
        key = rotate(self.key(y), angles, self.heads)
        x = x + self.out(attend(query, key, self.value(y), self.heads))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class LanguageModel(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        is_gpt2 = shape.family == "gpt2"
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.sequence, shape.hidden) if is_gpt2 else None
        block = Gpt2Block if is_gpt2 else LlamaBlock
        self.blocks = nn.ModuleList(block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden) if is_gpt2 else RmsNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        if is_gpt2:
            self.head.weight = self.tokens.weight

    def initialize(self):
        """As GPT-2's and Llama's configurations: deviation 0.02, less where a residual stream is
        added to."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                ends_branch = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.shape.layers)
                                if ends_branch else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def angles(self, count, device):
        width = self.shape.hidden // self.shape.heads // 2
        rates = 10000.0 ** -(torch.arange(width, device=device, dtype=torch.float32) / width)
        return torch.outer(torch.arange(count, device=device, dtype=torch.float32), rates)

    def forward(self, tokens):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[:tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
        else:
            angles = self.angles(tokens.shape[1], tokens.device)
            for block in self.blocks:
                x = block(x, angles)
        logits = self.head(self.norm(x))[:, :-1]
        return functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
