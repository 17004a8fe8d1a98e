"""A small Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU."""

import torch
import torch.nn.functional as F
from torch import nn

from rtj_trainer.reference.options import Options

_ROPE_BASE = 10_000.0
_INIT_STD = 0.02


class Attention(nn.Module):
    """Causal self-attention in which several query heads share a key and value head."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.heads, self.kv_heads = options.heads, options.kv_heads
        self.head_dim = options.dim // options.heads
        self.query = nn.Linear(options.dim, options.dim, bias=False)
        self.key = nn.Linear(options.dim, self.kv_heads * self.head_dim, bias=False)
        self.value = nn.Linear(options.dim, self.kv_heads * self.head_dim, bias=False)
        self.output = nn.Linear(options.dim, options.dim, bias=False)

    def forward(self, x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        query = self.query(x).view(batch, seq, self.heads, self.head_dim).transpose(1, 2)
        key = self.key(x).view(batch, seq, self.kv_heads, self.head_dim).transpose(1, 2)
        value = self.value(x).view(batch, seq, self.kv_heads, self.head_dim).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(
            rotate(query, rotation), rotate(key, rotation), value, is_causal=True, enable_gqa=True
        )
        return self.output(mixed.transpose(1, 2).reshape(batch, seq, dim))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        hidden = 8 * options.dim // 3
        self.gate = nn.Linear(options.dim, hidden, bias=False)
        self.up = nn.Linear(options.dim, hidden, bias=False)
        self.down = nn.Linear(hidden, options.dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """One decoder block."""

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(options.dim)
        self.attention = Attention(options)
        self.feed_forward_norm = nn.RMSNorm(options.dim)
        self.feed_forward = FeedForward(options)

    def forward(self, x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), rotation)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):
    """Tokens in, logits out. The weights follow from torch's global seed."""

    rotation: torch.Tensor

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.embedding = nn.Embedding(options.vocab, options.dim)
        self.blocks = nn.ModuleList(Block(options) for _ in range(options.layers))
        self.norm = nn.RMSNorm(options.dim)
        self.head = nn.Linear(options.dim, options.vocab, bias=False)
        angles = rotation_angles(options.seq, options.dim // options.heads)
        self.register_buffer("rotation", angles, persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=_INIT_STD)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.rotation)
        return self.head(self.norm(x))


def rotation_angles(seq: int, head_dim: int) -> torch.Tensor:
    """Angle of each position (row) for each pair of features (column)."""
    frequencies = _ROPE_BASE ** (-torch.arange(0, head_dim, 2) / head_dim)
    return torch.outer(torch.arange(seq).float(), frequencies)


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotary positions: turn each pair of features by the angle of its position."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
