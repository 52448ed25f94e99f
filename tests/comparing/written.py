"""One decoder, written in ways that differ in nothing but layout."""

import math

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, KEYS, LAYERS, HIDDEN, VOCABULARY = 48, 6, 2, 2, 80, 61
D = WIDTH // HEADS


def angles(length, base=10000.0):
    frequencies = base ** (-torch.arange(0, D, 2) / D)
    turned = torch.arange(length)[:, None] * frequencies
    return turned.cos(), turned.sin()


def rotate_halves(x, base=10000.0):
    cos, sin = angles(x.shape[-2], base)
    one, other = x.chunk(2, dim=-1)
    return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)


def rotate_pairs(x, base=10000.0):
    cos, sin = angles(x.shape[-2], base)
    one, other = x[..., 0::2], x[..., 1::2]
    return torch.stack([one * cos - other * sin, other * cos + one * sin], dim=-1).flatten(-2)


class RMSNorm(nn.Module):
    def __init__(self, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(WIDTH)), eps

    def forward(self, x):
        return self.weight * x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()


class OneMoreNorm(RMSNorm):
    """A gain kept as what it exceeds 1 by."""

    def __init__(self, eps=1e-6):
        super().__init__(eps)
        nn.init.zeros_(self.weight)

    def forward(self, x):
        return (1 + self.weight) * x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()


class Decoder(nn.Module):
    """The plain way: a projection for each of q, k, v; halves; groups of neighbours."""

    norm, biased, scale, base, eps = RMSNorm, False, D**-0.5, 10000.0, 1e-6

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(self.block() for _ in range(LAYERS))
        self.last = self.norm(self.eps)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def block(self):
        return nn.ModuleDict({
            "n1": self.norm(self.eps),
            "q": nn.Linear(WIDTH, WIDTH, bias=self.biased),
            "k": nn.Linear(WIDTH, KEYS * D, bias=self.biased),
            "v": nn.Linear(WIDTH, KEYS * D, bias=self.biased),
            "o": nn.Linear(WIDTH, WIDTH, bias=False),
            "n2": self.norm(self.eps),
            "gate": nn.Linear(WIDTH, HIDDEN, bias=False),
            "up": nn.Linear(WIDTH, HIDDEN, bias=False),
            "down": nn.Linear(HIDDEN, WIDTH, bias=False),
        })  # fmt: skip

    def project(self, layer, x):
        B, T, _ = x.shape
        return (layer[name](x).view(B, T, -1, D).transpose(1, 2) for name in ("q", "k", "v"))

    def spread(self, x):
        return x.repeat_interleave(HEADS // KEYS, dim=1)

    def rotate(self, x):
        return rotate_halves(x, self.base)

    def visible(self, T):
        return torch.ones(T, T, dtype=torch.bool).tril()

    def attend(self, q, k, v):
        scores = (q @ k.mT * self.scale).masked_fill(~self.visible(q.shape[-2]), -math.inf)
        return scores.softmax(-1) @ v

    def output(self, layer, y):
        return layer["o"](y)

    def network(self, layer, x):
        return layer["down"](F.silu(layer["gate"](x)) * layer["up"](x))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            q, k, v = self.project(layer, layer["n1"](x))
            q, k = self.rotate(q), self.rotate(k)
            y = self.attend(q, self.spread(k), self.spread(v))
            x = x + self.output(layer, y.transpose(1, 2).flatten(2))
            x = x + self.network(layer, layer["n2"](x))
        return self.head(self.last(x))


class Pairs(Decoder):
    def rotate(self, x):
        return rotate_pairs(x, self.base)


class Fused(Decoder):
    """One projection for q, k and v, group by group; gate and up in turns; matrices transposed."""

    def block(self):
        made = super().block()
        for name in ("q", "k", "v", "gate", "up", "o"):
            del made[name]
        made["qkv"] = nn.Linear(WIDTH, WIDTH + 2 * KEYS * D, bias=self.biased)
        made["both"] = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        made["out"] = nn.ParameterDict({"w": nn.Parameter(torch.randn(WIDTH, WIDTH) / 7)})
        return made

    def project(self, layer, x):
        B, T, _ = x.shape
        grouped = layer["qkv"](x).view(B, T, KEYS, HEADS // KEYS + 2, D)
        q = grouped[:, :, :, :-2].reshape(B, T, HEADS, D)
        return (y.transpose(1, 2) for y in (q, grouped[:, :, :, -2], grouped[:, :, :, -1]))

    def output(self, layer, y):
        return y @ layer["out"]["w"]

    def network(self, layer, x):
        both = layer["both"](x)
        return layer["down"](F.silu(both[..., 0::2]) * both[..., 1::2])


class Tiled(Decoder):
    """Key heads in turns over the query heads."""

    def spread(self, x):
        return x.repeat(1, HEADS // KEYS, 1, 1)


class FusedTiled(Fused):
    """The same, with other names."""

    spread = Tiled.spread


class OnePlus(Decoder):
    norm = OneMoreNorm


class FusedOnePlus(Fused):
    norm = OneMoreNorm


class Kernel(Decoder):
    """Torch's fused operator."""

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Biased(Decoder):
    biased = True
