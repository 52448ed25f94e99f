"""A plain decoder whose parts are exchanged, one at a time, by the models beside this file."""

import math

import torch
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT = 61, 48, 6, 2, 48
HEAD = WIDTH // HEADS


class RMSNorm(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def angles(length, width, base=10000.0):
    frequencies = base ** (-torch.arange(0, width, 2).float() / width)
    return torch.arange(length).float()[:, None] * frequencies


def rotate_halves(x, angle):
    first, second = x.chunk(2, dim=-1)
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Attention(nn.Module):
    """Causal self-attention; positions by rotation of halves."""

    bias = False
    kv_heads = HEADS
    head = HEAD
    scale = HEAD**-0.5
    dropout = 0.1

    def __init__(self, layer=0):
        super().__init__()
        self.layer = layer
        self.query = nn.Linear(WIDTH, HEADS * self.head, bias=self.bias)
        self.key = nn.Linear(WIDTH, self.kv_heads * self.head, bias=self.bias)
        self.value = nn.Linear(WIDTH, self.kv_heads * self.head, bias=self.bias)
        self.out = nn.Linear(HEADS * self.head, WIDTH, bias=self.bias)
        self.drop = nn.Dropout(self.dropout)

    def project(self, x):
        def split(y, heads):
            return y.view(*x.shape[:2], heads, self.head).transpose(1, 2)

        key, value = (split(p(x), self.kv_heads) for p in (self.key, self.value))
        times = HEADS // self.kv_heads
        return (
            split(self.query(x), HEADS),
            key.repeat_interleave(times, dim=1),
            value.repeat_interleave(times, dim=1),
        )

    def place(self, query, key):
        angle = angles(query.shape[-2], self.head)
        return rotate_halves(query, angle), rotate_halves(key, angle)

    def score(self, query, key):
        return query @ key.transpose(-2, -1) * self.scale

    def visible(self, length):
        return torch.ones(length, length, dtype=torch.bool).tril()

    def weigh(self, scores):
        hidden = ~self.visible(scores.shape[-1])
        return scores.masked_fill(hidden, -math.inf).softmax(dim=-1)

    def mix(self, x, query, key, value):
        weights = self.drop(self.weigh(self.score(query, key)))
        return (weights @ value).transpose(1, 2).flatten(2)

    def forward(self, x):
        query, key, value = self.project(x)
        query, key = self.place(query, key)
        return self.out(self.mix(x, query, key, value))


class FeedForward(nn.Module):
    def __init__(self, layer=0, hidden=2 * WIDTH):
        super().__init__()
        self.up = nn.Linear(WIDTH, hidden, bias=False)
        self.gate = nn.Linear(WIDTH, hidden, bias=False)
        self.down = nn.Linear(hidden, WIDTH, bias=False)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.down(nn.functional.silu(self.gate(x)) * self.up(x)))


class Block(nn.Module):
    """Pre-norm."""

    norm = RMSNorm
    attention = Attention
    feed_forward = FeedForward

    def __init__(self, layer=0):
        super().__init__()
        self.first, self.second = self.norm(WIDTH), self.norm(WIDTH)
        self.attend = self.attention(layer)
        self.feed = self.feed_forward(layer)

    def forward(self, x):
        x = x + self.attend(self.first(x))
        return x + self.feed(self.second(x))


class Decoder(nn.Module):
    block = Block
    layers = LAYERS

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(self.make_block(i) for i in range(self.layers))
        self.last = self.block.norm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.apply(self.draw)

    def make_block(self, layer):
        return self.block(layer)

    def draw(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def embed(self, ids):
        return self.embedding(ids)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x))


def decoder(attention=Attention, *, block=Block, whole=Decoder, **parts):
    """A class of decoders with these parts."""
    chosen = type("Block", (block,), {"attention": attention, **parts})
    return type("Decoder", (whole,), {"block": chosen})
