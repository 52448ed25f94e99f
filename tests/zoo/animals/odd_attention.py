"""Correct ways to weigh that a naive checker flags: scales, masks, sinks, windows, no softmax."""

import math

import torch
from animals.decoder import (
    HEAD,
    HEADS,
    WIDTH,
    Attention,
    RMSNorm,
    angles,
    decoder,
    rotate_halves,
)
from torch import nn
from torch.nn import functional


class MaskedAfterAndRenormalised(Attention):
    def weigh(self, scores):
        weights = scores.softmax(dim=-1) * self.visible(scores.shape[-1])
        return weights / weights.sum(dim=-1, keepdim=True)


class NormalisedUnscaled(Attention):
    scale = 1.0

    def __init__(self, layer=0):
        super().__init__(layer)
        self.query_norm, self.key_norm = RMSNorm(HEAD), RMSNorm(HEAD)

    def place(self, query, key):
        return super().place(self.query_norm(query), self.key_norm(key))


class Cosine(Attention):
    scale = 10.0

    def place(self, query, key):
        query, key = super().place(query, key)
        return functional.normalize(query, dim=-1), functional.normalize(key, dim=-1)


class LearnedTemperature(Cosine):
    def __init__(self, layer=0):
        super().__init__(layer)
        self.temperature = nn.Parameter(torch.linspace(4.0, 12.0, HEADS)[:, None, None])

    def score(self, query, key):
        return query @ key.transpose(-2, -1) * self.temperature


class Unscaled(Attention):
    scale = 1.0


class ByWidth(Attention):
    """μP: 1/d_head."""

    scale = 1 / HEAD


class LayerNumberCancels(Attention):
    def score(self, query, key):
        number = self.layer + 1
        return (query / (number * math.sqrt(HEAD))) @ key.transpose(-2, -1) * number


class ScaledOnBothSides(Attention):
    def score(self, query, key):
        root = HEAD**-0.25
        return (query * root) @ (key * root).transpose(-2, -1)


class SoftCapped(Attention):
    def score(self, query, key):
        return 20.0 * torch.tanh(super().score(query, key) / 20.0)


class SinkLogit(Attention):
    def __init__(self, layer=0):
        super().__init__(layer)
        self.sink = nn.Parameter(torch.zeros(HEADS))

    def weigh(self, scores):
        scores = scores.masked_fill(~self.visible(scores.shape[-1]), -math.inf)
        sink = self.sink.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        return torch.cat([scores, sink], dim=-1).softmax(dim=-1)[..., :-1]


class SoftmaxOffByOne(Attention):
    def weigh(self, scores):
        scores = scores.masked_fill(~self.visible(scores.shape[-1]), -math.inf)
        most = scores.amax(dim=-1, keepdim=True).clamp_min(0)
        shares = (scores - most).exp()
        return shares / (shares.sum(dim=-1, keepdim=True) + (-most).exp())


class LearnedKeyAndValue(Attention):
    """A key and a value of every head's own, seen by every query."""

    def __init__(self, layer=0):
        super().__init__(layer)
        self.own_key = nn.Parameter(torch.randn(HEADS, 1, HEAD))
        self.own_value = nn.Parameter(torch.randn(HEADS, 1, HEAD))

    def mix(self, x, query, key, value):
        count, length = query.shape[0], query.shape[-2]
        key = torch.cat([self.own_key.expand(count, -1, -1, -1), key], dim=-2)
        value = torch.cat([self.own_value.expand(count, -1, -1, -1), value], dim=-2)
        seen = torch.cat([torch.ones(length, 1, dtype=torch.bool), self.visible(length)], dim=1)
        scores = self.score(query, key).masked_fill(~seen, -math.inf)
        return (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)


class Window(Attention):
    span = 5

    def visible(self, length):
        return super().visible(length).triu(1 - self.span)


class Chunks(Attention):
    def visible(self, length):
        chunk = torch.arange(length) // 4
        return super().visible(length) & (chunk[:, None] == chunk[None, :])


class WindowEveryOtherLayer(Window):
    def visible(self, length):
        return Attention.visible(self, length) if self.layer % 2 else super().visible(length)


class WindowAndSinkTokens(Window):
    """StreamingLLM: a window, and always the first two tokens."""

    def visible(self, length):
        first = torch.arange(length) < 2
        return super().visible(length) | (first & Attention.visible(self, length))


class Dilated(Attention):
    def visible(self, length):
        place = torch.arange(length)
        return super().visible(length) & ((place[:, None] - place[None, :]) % 2 == 0)


class Fused(Attention):
    def mix(self, x, query, key, value):
        rate = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, dropout_p=rate
        )
        return mixed.transpose(1, 2).flatten(2)


class MultiQuery(Attention):
    kv_heads = 1


class Grouped(Attention):
    kv_heads = 2


class GroupedAcross(Attention):
    """Heads share keys by turns (0, 1, 0, 1 ...), a fact of the weights' order alone."""

    kv_heads = 2

    def project(self, x):
        query, key, value = super().project(x)
        order = torch.arange(HEADS).view(2, HEADS // 2).t().flatten()
        return query, key[:, order], value[:, order]


class WiderHeads(Attention):
    head = 14
    scale = 14**-0.5


class TalkingHeads(Attention):
    def __init__(self, layer=0):
        super().__init__(layer)
        self.before = nn.Parameter(torch.eye(HEADS) + 0.1 * torch.randn(HEADS, HEADS))
        self.after = nn.Parameter(torch.eye(HEADS) + 0.1 * torch.randn(HEADS, HEADS))

    def weigh(self, scores):
        weights = super().weigh(torch.einsum("bhts,hg->bgts", scores, self.before))
        return torch.einsum("bhts,hg->bgts", weights, self.after)


class Differential(Attention):
    """Two softmaxes of half a head each, the second subtracted."""

    def place(self, query, key):
        angle = angles(query.shape[-2], HEAD // 2)
        return tuple(
            torch.cat([rotate_halves(half, angle) for half in x.chunk(2, dim=-1)], dim=-1)
            for x in (query, key)
        )

    def mix(self, x, query, key, value):
        parts = zip(query.chunk(2, dim=-1), key.chunk(2, dim=-1), strict=True)
        first, second = (
            self.weigh(q @ k.transpose(-2, -1) / math.sqrt(HEAD / 2)) for q, k in parts
        )
        return ((first - 0.4 * second) @ value).transpose(1, 2).flatten(2)


class Sigmoid(Attention):
    def weigh(self, scores):
        seen = self.visible(scores.shape[-1])
        return torch.sigmoid(scores - seen.sum(-1, keepdim=True).log()) * seen


class SquaredRelu(Attention):
    def weigh(self, scores):
        seen = self.visible(scores.shape[-1])
        return functional.relu(scores).square() * seen / seen.sum(-1, keepdim=True)


class TopKeys(Attention):
    """Each query keeps its four best keys."""

    def weigh(self, scores):
        scores = scores.masked_fill(~self.visible(scores.shape[-1]), -math.inf)
        least = scores.topk(min(4, scores.shape[-1]), dim=-1).values[..., -1:]
        return scores.masked_fill(scores < least, -math.inf).softmax(dim=-1)


class LogSoftmax(Attention):
    def weigh(self, scores):
        hidden = ~self.visible(scores.shape[-1])
        return scores.masked_fill(hidden, -math.inf).log_softmax(dim=-1).exp()


class ByTheLength(Attention):
    """Queries grow with the logarithm of their position (Llama 4, SSMax)."""

    def score(self, query, key):
        grown = 1 + 0.1 * torch.log1p(torch.arange(query.shape[-2]).float())
        return super().score(query, key) * grown[:, None]


class OutputGate(Attention):
    def __init__(self, layer=0):
        super().__init__(layer)
        self.gate = nn.Linear(WIDTH, WIDTH)

    def mix(self, x, query, key, value):
        return super().mix(x, query, key, value) * torch.sigmoid(self.gate(x))


class QueriesOneByOne(Attention):
    def mix(self, x, query, key, value):
        rows = []
        for t in range(query.shape[-2]):
            scores = self.score(query[..., t : t + 1, :], key[..., : t + 1, :])
            rows.append(scores.softmax(dim=-1) @ value[..., : t + 1, :])
        return torch.cat(rows, dim=-2).transpose(1, 2).flatten(2)


class Tiles(Attention):
    """Keys four at a time, with a running maximum and sum (FlashAttention, written out)."""

    def mix(self, x, query, key, value):
        length = query.shape[-2]
        most = torch.full((*query.shape[:-1], 1), -1e30)
        total, mixed = torch.zeros_like(most), torch.zeros_like(query)
        for start in range(0, length, 4):
            tile = slice(start, start + 4)
            hidden = ~self.visible(length)[:, tile]
            scores = self.score(query, key[..., tile, :]).masked_fill(hidden, -math.inf)
            higher = torch.maximum(most, scores.amax(dim=-1, keepdim=True))
            shares, kept = (scores - higher).exp(), (most - higher).exp()
            total = total * kept + shares.sum(dim=-1, keepdim=True)
            mixed = mixed * kept + shares @ value[..., tile, :]
            most = higher
        return (mixed / total).transpose(1, 2).flatten(2)


class HeadsOneByOne(Attention):
    def mix(self, x, query, key, value):
        heads = [self.weigh(self.score(query[:, h], key[:, h])) @ value[:, h] for h in range(HEADS)]
        return torch.cat(heads, dim=-1)


class Linear(Attention):
    """No softmax: φ(q)·Σ φ(k) v over the past."""

    def mix(self, x, query, key, value):
        query, key = functional.elu(query) + 1, functional.elu(key) + 1
        state = (key.unsqueeze(-1) * value.unsqueeze(-2)).cumsum(dim=2)
        norm = (query * key.cumsum(dim=2)).sum(-1, keepdim=True)
        mixed = (query.unsqueeze(-2) @ state).squeeze(-2) / norm
        return mixed.transpose(1, 2).flatten(2)


class Retention(Attention):
    """Scores times a decay, no softmax (RetNet)."""

    def weigh(self, scores):
        place = torch.arange(scores.shape[-1])
        away = (place[:, None] - place[None, :]).clamp_min(0)
        decay = 1 - 2.0 ** (-5 - torch.arange(HEADS).float())
        return scores * decay[:, None, None] ** away * self.visible(scores.shape[-1])


class Latent(nn.Module):
    """Multi-head latent attention: keys and values from one narrow code, rotation on a slice."""

    code, turned = 20, 4

    def __init__(self, layer=0):
        super().__init__()
        self.down = nn.Linear(WIDTH, self.code, bias=False)
        self.norm = RMSNorm(self.code)
        self.up = nn.Linear(self.code, HEADS * 2 * HEAD, bias=False)
        self.key = nn.Linear(WIDTH, self.turned, bias=False)
        self.query = nn.Linear(WIDTH, HEADS * (HEAD + self.turned), bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        angle = angles(length, self.turned)
        still, turned = (
            self.query(x)
            .view(batch, length, HEADS, -1)
            .transpose(1, 2)
            .split([HEAD, self.turned], dim=-1)
        )
        query = torch.cat([still, rotate_halves(turned, angle)], dim=-1)
        key, value = (
            self.up(self.norm(self.down(x)))
            .view(batch, length, HEADS, -1)
            .transpose(1, 2)
            .chunk(2, dim=-1)
        )
        shared = rotate_halves(self.key(x), angle)[:, None].expand(-1, HEADS, -1, -1)
        key = torch.cat([key, shared], dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


MODELS = {
    part.__name__: decoder(part)
    for part in (
        Attention,
        MaskedAfterAndRenormalised,
        NormalisedUnscaled,
        Cosine,
        LearnedTemperature,
        Unscaled,
        ByWidth,
        LayerNumberCancels,
        ScaledOnBothSides,
        SoftCapped,
        SinkLogit,
        SoftmaxOffByOne,
        LearnedKeyAndValue,
        Window,
        Chunks,
        WindowEveryOtherLayer,
        WindowAndSinkTokens,
        Dilated,
        Fused,
        MultiQuery,
        Grouped,
        GroupedAcross,
        WiderHeads,
        TalkingHeads,
        Differential,
        Sigmoid,
        SquaredRelu,
        TopKeys,
        LogSoftmax,
        ByTheLength,
        OutputGate,
        QueriesOneByOne,
        Tiles,
        HeadsOneByOne,
        Linear,
        Retention,
        Latent,
    )
}
DECLARED = {"Unscaled": {"scale": 1.0}, "ByWidth": {"scale": 1 / HEAD}}
