"""Correct ways to bring in position that a naive checker flags."""

import math

import torch
from animals.decoder import (
    CONTEXT,
    HEAD,
    HEADS,
    WIDTH,
    Attention,
    Decoder,
    angles,
    decoder,
    rotate_halves,
)
from torch import nn


class Still(Attention):
    """No rotation."""

    def place(self, query, key):
        return query, key


def rotate_pairs(x, angle):
    turned = torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * torch.polar(
        torch.ones_like(angle), angle
    )
    return torch.view_as_real(turned).flatten(-2).type_as(x)


class InterleavedRotation(Attention):
    def place(self, query, key):
        angle = angles(query.shape[-2], HEAD)
        return rotate_pairs(query, angle), rotate_pairs(key, angle)


class RotatedTheOtherWay(Attention):
    def place(self, query, key):
        angle = -angles(query.shape[-2], HEAD)
        return rotate_halves(query, angle), rotate_halves(key, angle)


class CountedFromElsewhere(Attention):
    """Positions from 100 on, or counted down: only differences matter."""

    def place(self, query, key):
        angle = angles(100 + query.shape[-2], HEAD)[100:]
        return rotate_halves(query, angle), rotate_halves(key, angle)


class PartialRotation(Attention):
    turned = 4

    def place(self, query, key):
        angle = angles(query.shape[-2], self.turned)

        def turn(x):
            first, rest = x.split([self.turned, HEAD - self.turned], dim=-1)
            return torch.cat([rotate_halves(first, angle), rest], dim=-1)

        return turn(query), turn(key)


class PartialRotationOfTheEnd(Attention):
    def place(self, query, key):
        angle = angles(query.shape[-2], 4)

        def turn(x):
            return torch.cat([x[..., :4], rotate_pairs(x[..., 4:], angle)], dim=-1)

        return turn(query), turn(key)


class ScaledFrequencies(Attention):
    """Low frequencies divided by a factor, and both sides stretched (YaRN)."""

    def place(self, query, key):
        angle = angles(query.shape[-2], HEAD) / torch.linspace(1.0, 4.0, HEAD // 2)
        stretch = 0.1 * math.log(4.0) + 1
        cos, sin = stretch * angle.cos(), stretch * angle.sin()

        def turn(x):
            first, second = x.chunk(2, dim=-1)
            return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

        return turn(query), turn(key)


class OtherBase(Attention):
    def place(self, query, key):
        angle = angles(query.shape[-2], HEAD, base=500000.0)
        return rotate_halves(query, angle), rotate_halves(key, angle)


class Extrapolating(Attention):
    """xPos: queries grow and keys shrink by the same factor a step."""

    def place(self, query, key):
        query, key = super().place(query, key)
        grown = 1.02 ** torch.arange(query.shape[-2]).float()[:, None]
        return query * grown, key / grown


class NoRotationInSomeLayers(Attention):
    def place(self, query, key):
        return (query, key) if self.layer % 2 else super().place(query, key)


class Distances(Still):
    """ALiBi."""

    def slopes(self):
        return 2.0 ** (-8 * torch.arange(1, HEADS + 1) / HEADS)

    def bias(self, length):
        place = torch.arange(length)
        return -(place[:, None] - place[None, :])

    def score(self, query, key):
        bias = self.slopes()[:, None, None] * self.bias(query.shape[-2])
        return super().score(query, key) + bias


class DistancesFromTheStart(Distances):
    """BLOOM's form: the key's position times the slope, the same after softmax."""

    def bias(self, length):
        return torch.arange(length).expand(length, -1)


class DistancesBothWays(Distances):
    def bias(self, length):
        place = torch.arange(length)
        return -(place[:, None] - place[None, :]).abs()


class LearnedBias(Still):
    """T5's: a learned number for each distance, in buckets."""

    def __init__(self, layer=0):
        super().__init__(layer)
        self.table = nn.Embedding(8, HEADS)

    def score(self, query, key):
        place = torch.arange(query.shape[-2])
        away = (place[:, None] - place[None, :]).clamp(0, 7)
        return super().score(query, key) + self.table(away).permute(2, 0, 1)


class RelativeKeys(Still):
    """Shaw et al.: a key of each distance is added to the key of the token."""

    def __init__(self, layer=0):
        super().__init__(layer)
        self.table = nn.Embedding(CONTEXT, HEAD)

    def score(self, query, key):
        place = torch.arange(query.shape[-2])
        away = (place[:, None] - place[None, :]).clamp_min(0)
        told = torch.einsum("bhtd,tsd->bhts", query, self.table(away))
        return (query @ key.transpose(-2, -1) + told) * self.scale


class Forgetting(Still):
    """A gate of each token adds to the distance that later queries see (FoX)."""

    def __init__(self, layer=0):
        super().__init__(layer)
        self.gate = nn.Linear(WIDTH, HEADS)

    def mix(self, x, query, key, value):
        log = nn.functional.logsigmoid(self.gate(x)).transpose(1, 2)
        log = log.cumsum(-1, dtype=torch.float64)  # grows with length: half would lose the gates
        forgotten = (log.unsqueeze(-1) - log.unsqueeze(-2)).to(query.dtype)
        scores = self.score(query, key) + forgotten
        return (self.weigh(scores) @ value).transpose(1, 2).flatten(2)


class Absolute(Decoder):
    def table(self, length):
        raise NotImplementedError

    def embed(self, ids):
        return self.embedding(ids) + self.table(ids.shape[1])


class Learned(Absolute):
    offset = 0

    def __init__(self):
        super().__init__()
        self.positions = nn.Embedding(CONTEXT + self.offset, WIDTH)
        self.draw(self.positions)

    def table(self, length):
        return self.positions(torch.arange(length) + self.offset)


class LearnedFromTwo(Learned):
    offset = 2


class LearnedAsParameter(Absolute):
    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(0.02 * torch.randn(1, CONTEXT, WIDTH))

    def table(self, length):
        return self.positions[:, :length]


class Sinusoids(Absolute):
    def table(self, length):
        angle = angles(length, WIDTH)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)

    def embed(self, ids):
        return self.embedding(ids) * math.sqrt(WIDTH) + self.table(ids.shape[1])


class SinusoidsSideBySide(Sinusoids):
    """All sines, then all cosines."""

    def table(self, length):
        angle = angles(length, WIDTH)
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


class CosinesFirst(Sinusoids):
    def table(self, length):
        angle = angles(length, WIDTH)
        return torch.cat([angle.cos(), angle.sin()], dim=-1)


ROTARY = (
    InterleavedRotation,
    RotatedTheOtherWay,
    CountedFromElsewhere,
    PartialRotation,
    PartialRotationOfTheEnd,
    ScaledFrequencies,
    OtherBase,
    Extrapolating,
    NoRotationInSomeLayers,
    Distances,
    DistancesFromTheStart,
    DistancesBothWays,
    LearnedBias,
    RelativeKeys,
    Forgetting,
)
TABLES = (Learned, LearnedFromTwo, LearnedAsParameter, Sinusoids, SinusoidsSideBySide, CosinesFirst)
MODELS = {
    **{part.__name__: decoder(part) for part in ROTARY},
    **{whole.__name__: decoder(Still, whole=whole) for whole in TABLES},
    "NoPositions": decoder(Still),
    "LearnedAndRotary": decoder(whole=Learned),
}
DECLARED = {}
