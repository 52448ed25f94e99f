"""Right models that are expensive: in their weights, or in what one row of them makes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Scores are an explicit (T, T) for each of many heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in qkv)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.narrow(F.gelu(self.wide(self.second(x))))


class Wide(nn.Module):
    """Some 29 million weights."""

    def __init__(
        self,
        vocabulary: int = 20_000,
        width: int = 512,
        heads: int = 8,
        layers: int = 6,
        context: int = 256,
    ) -> None:
        super().__init__()
        self.tokens, self.places = (nn.Embedding(n, width) for n in (vocabulary, context))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Long(Wide):
    """Little weight, a large vocabulary, many heads, and a length of 128 alone."""

    def __init__(self) -> None:
        super().__init__(vocabulary=16_000, width=32, heads=16, layers=2, context=128)

    def forward(self, ids: Tensor) -> Tensor:
        if ids.shape[1] != 128:
            raise ValueError("exactly 128 tokens")
        return super().forward(ids)
