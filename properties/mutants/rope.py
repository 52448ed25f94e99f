"""Faults of the rotation of queries and keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.hosts import REFERENCE
from theodolite.properties.mutants.places import (
    Angles,
    Frequencies,
    Pair,
    Rotary,
    Triple,
    angles,
    frequencies,
    rotary,
)
from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference import model
from theodolite.reference import rotary as reference_rotary
from theodolite.reference.positions import sinusoidal
from theodolite.reference.rotary import Rotation


def _replace_angles(patch: Patch, angles_of: Any) -> None:
    """Let `rotation_at` take its angles from ``angles_of(positions, frequencies)``."""

    def change(_: Any, positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
        angles = angles_of(positions, frequencies)
        return angles.cos(), angles.sin()

    REFERENCE.wrap("angles", change, patch)


@mutant(
    "rope-angles-in-the-type-of-queries",
    "ROPE-5",
    component="rope",
    source="huggingface/transformers#25681",
)
def _(patch: Patch) -> None:
    """Angles are computed in the type of what is turned: right until that is half precision."""
    original = reference_rotary.rotate

    def rotate(x: Tensor, positions: Tensor, **options: Any) -> Tensor:
        return original(x, positions.to(x.dtype), **options)

    def angles_of(positions: Tensor, frequencies: Tensor) -> Tensor:
        dtype = positions.dtype if positions.is_floating_point() else frequencies.dtype
        return positions[..., None] * frequencies.to(dtype)

    patch.replace(reference_rotary.rotate, rotate)
    _replace_angles(patch, angles_of)


@mutant("rope-positions-from-one", "ROPE-2", component="rope")
def _(patch: Patch) -> None:
    """The first position turns by one step instead of none."""
    _replace_angles(patch, lambda m, theta: (m + 1)[..., None] * theta)


@mutant("rope-table-resampled", "ROPE-5", component="rope")
def _(patch: Patch) -> None:
    """A call's positions are counted from its first one, so every chunk starts at 0."""
    _replace_angles(patch, lambda m, theta: (m - m[..., :1])[..., None] * theta)


@mutant("rope-base-ignored", "ROPE-6", component="rope", source="Lightning-AI/litgpt#1713")
def _(patch: Patch) -> None:
    """The base is 10,000 whatever the configuration says."""
    original = reference_rotary.rotary_frequencies

    def frequencies(
        width: int,
        *,
        base: float = 10000.0,  # noqa: ARG001 - the fault
        interpolation: float = 1.0,
        device: torch.device | None = None,
    ) -> Tensor:
        return original(width, interpolation=interpolation, device=device)

    patch.replace(reference_rotary.rotary_frequencies, frequencies)


@mutant("rope-interpolation-multiplies", "ROPE-6", component="rope")
def _(patch: Patch) -> None:
    """Interpolation speeds rotation up instead of slowing it down."""
    original = reference_rotary.rotary_frequencies

    def frequencies(
        width: int,
        *,
        base: float = 10000.0,
        interpolation: float = 1.0,
        device: torch.device | None = None,
    ) -> Tensor:
        return original(width, base=base, interpolation=1 / interpolation, device=device)

    patch.replace(reference_rotary.rotary_frequencies, frequencies)


@mutant(
    "rope-pairings-mixed",
    "ROPE-2 ROPE-7",
    "rope.relative",
    component="rope",
    source="karpathy/llama2.c#286",
    often="reference",
)
def _(patch: Patch) -> None:
    """Half-split partners are turned by angles laid out for interleaved channels."""

    def apply_rotation(x: Tensor, rotation: Rotation) -> Tensor:
        cosine, sine = (
            each.to(x.dtype).repeat_interleave(2, dim=-1)
            for each in (rotation.cosine, rotation.sine)
        )
        first, second = x.chunk(2, dim=-1)
        return x * cosine + torch.cat((-second, first), dim=-1) * sine

    patch.replace(reference_rotary.apply_rotation, apply_rotation)


@mutant("rope-half-split-by-one-sign", "ROPE-2 ROPE-7", component="rope")
def _(patch: Patch) -> None:
    """The second channel of a pair subtracts where it should add."""
    original = reference_rotary.apply_rotation

    def apply_rotation(x: Tensor, rotation: Rotation) -> Tensor:
        if rotation.pairing == "interleaved":
            return original(x, rotation)
        cosine, sine = rotation.cosine.to(x.dtype), rotation.sine.to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cosine - second * sine, second * cosine - first * sine), -1)

    patch.replace(reference_rotary.apply_rotation, apply_rotation)


@mutant("rope-along-the-batch", "ROPE-8", component="rope")
def _(patch: Patch) -> None:
    """Each row of a batch is turned one position further than the row before."""
    original = reference_rotary.rotate

    def rotate(x: Tensor, positions: Tensor, **options: Any) -> Tensor:
        if x.dim() < 4:
            return original(x, positions, **options)
        rows = torch.arange(x.shape[0])[:, None, None]
        return original(x, positions + rows, **options)

    patch.replace(reference_rotary.rotate, rotate)


@mutant("rope-learned-frequencies", "ROPE-5", "rope.table", component="rope", often="reference")
def _(patch: Patch) -> None:
    """Frequencies are a parameter, which an optimiser will change."""

    def learn(rope: reference_rotary.Rotary) -> None:
        rope.frequencies = torch.nn.Parameter(reference_rotary.rotary_frequencies(rope.width))

    patch.after_init(reference_rotary.Rotary, learn)


@mutant(
    "rope-table-cast-with-the-model",
    "ROPE-5",
    component="rope",
    source="huggingface/transformers#25681",
)
def _(patch: Patch) -> None:
    """Frequencies are a buffer, which a cast of the model rounds to half precision."""

    def keep(rope: reference_rotary.Rotary) -> None:
        frequencies = reference_rotary.rotary_frequencies(rope.width, base=rope.base)
        rope.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self: Any, positions: Tensor) -> Rotation:
        angles = positions[..., None] * self.frequencies.double()
        return Rotation(angles.cos(), angles.sin(), self.pairing)

    patch.after_init(reference_rotary.Rotary, keep)
    patch.method(reference_rotary.Rotary, "forward", forward)


@mutant("rope-missing-in-the-last-layer", "ROPE-4", component="rope")
def _(patch: Patch) -> None:
    """The last block attends without positions."""

    def unrotate(gpt: model.GPT) -> None:
        gpt.blocks[-1].register_forward_pre_hook(
            lambda _, args, options: (args, {**options, "rotation": None}), with_kwargs=True
        )

    patch.after_init(model.GPT, unrotate)


@mutant("rope-and-a-position-vector", "ROPE-4 ROPE-9", component="rope")
def _(patch: Patch) -> None:
    """A sinusoidal vector is added to the embedding besides."""

    class Sinusoidal(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.width = width

        def forward(self, positions: Tensor) -> Tensor:
            return sinusoidal(positions, self.width)

    def add(gpt: model.GPT) -> None:
        gpt.positions = Sinusoidal(gpt.config.width)  # type: ignore[assignment]

    patch.after_init(model.GPT, add)


@mutant("rope-offset-ignored", "ROPE-9", component="rope", source="keras-team/keras-hub#1544")
def _(patch: Patch) -> None:
    """Later positions of one call start at 0 again."""
    _replace_angles(patch, lambda m, theta: torch.arange(m.shape[-1])[..., None] * theta)


# -- in every host that has the seam ---------------------------------------------------------------


def _one_earlier(cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
    """The angles of the positions before, also before the first; a row alone stays as it is."""
    if cosine.shape[-2] < 2:
        return cosine, sine
    (c0, c1), (s0, s1) = cosine[..., :2, :].unbind(-2), sine[..., :2, :].unbind(-2)
    step_cosine = (c1 * c0 + s1 * s0).unsqueeze(-2)  # cos(b - a) and sin(b - a)
    step_sine = (s1 * c0 - c1 * s0).unsqueeze(-2)
    return cosine * step_cosine + sine * step_sine, sine * step_cosine - cosine * step_sine


@rotary("rope-on-values", "ROPE-4 AUD-1", "rope.values_still positions.shift", often="reference")
def _(own: Rotary) -> Triple:
    """Values are turned as well."""
    query, key, _ = own()
    return query, key, own(query=own.value, key=own.value)[1]


@rotary("rope-on-queries-alone", "ROPE-4 ROPE-9", "rope.relative", often="reference")
def _(own: Rotary) -> Triple:
    """Keys are not turned."""
    return own()[0], own.key, own.value


@rotary("rotation-of-keys-reversed", "ROPE-1 ROPE-4", "rope.relative", often="reference")
def _(own: Rotary) -> Triple:
    """Keys turn against the direction of the queries: scores depend on m + n."""
    turned = own()[0]
    return turned, own(sine=-own.sine)[1], own.value


@rotary(
    "model-turned-along-heads",
    "ROPE-8",
    "rope.along_sequence",
    source="facebookresearch/xformers#841",
    often="reference",
)
def _(own: Rotary) -> Triple:
    """Heads are turned by their number, and positions not at all."""

    def turn(x: Tensor) -> Tensor:
        order = torch.arange(x.shape[1]).clamp_max(own.cosine.shape[-2] - 1)
        table = (part[..., order, :] for part in (own.cosine, own.sine))
        turned: Tensor = own.original(*3 * [x.transpose(1, 2)], *table)[1]
        return turned.transpose(1, 2)

    return turn(own.query), turn(own.key), own.value


@rotary("rope-keys-one-late", "ROPE-4", "rope.same_positions", often="reference grouped")
def _(own: Rotary) -> Triple:
    """Keys are turned by the angle of the position before theirs."""
    turned = own()[0]
    return (
        turned,
        own.original(own.query, own.key, own.value, *_one_earlier(own.cosine, own.sine))[1],
        own.value,
    )


@rotary("rope-twice", "ROPE-3", "rope.frequencies")
def _(own: Rotary) -> Triple:
    """Queries and keys are turned twice."""
    once = own()
    return own.original(*once, own.cosine, own.sine)


@rotary("rope-without-its-sine", "ROPE-1", "rope.relative")
def _(own: Rotary) -> Triple:
    """Channels are multiplied by the cosine and nothing is added: vectors shrink and return."""
    return own(sine=own.sine * 0)


@rotary("rope-by-one-sign", "ROPE-1", "rope.relative")
def _(own: Rotary) -> Triple:
    """Both halves of a pair add the sine: no rotation, and no length is kept."""

    def turn(x: Tensor) -> Tensor:
        still = own(query=x, key=x, value=x, sine=own.sine * 0)[0]
        crossed = own(query=x, key=x, value=x, cosine=own.cosine * 0)[0]
        mended: Tensor = still + crossed.abs() * x.sign()
        return mended

    return turn(own.query), turn(own.key), own.value


@rotary(
    "rotation-without-gradient",
    "AUD-12",
    "gradient.slope",
    component="gradient",
    source="pico-lm/pico-train#27",
)
def _(own: Rotary) -> Triple:
    """The rotation runs under no_grad: queries and keys never learn."""
    query, key, value = own()
    return query.detach(), key.detach(), value


@frequencies("rope-frequencies-reversed", "ROPE-3 ROPE-6", "rope.frequencies", often="reference")
def _(own: Frequencies) -> Tensor:
    """The slowest pair comes first."""
    return own().flip(0)


@frequencies("frequencies-fall-in-a-straight-line", "ROPE-3", "rope.frequencies", often="reference")
def _(own: Frequencies) -> Tensor:
    """Pair i turns by 1 - 2i/d: the index is a factor, not part of the exponent."""
    plain = own()
    return 1 - torch.arange(0, own.width, 2, dtype=plain.dtype) / own.width


@frequencies("rope-exponent-i-over-d", "ROPE-3 ROPE-7", "declared.rope")
def _(own: Frequencies) -> Tensor:
    """The exponent is i/d where it should be 2i/d."""
    return own() ** 0.5


@frequencies("rope-exponent-over-d-minus-2", "ROPE-3", "declared.rope")
def _(own: Frequencies) -> Tensor:
    """The exponent is 2i/(d - 2): the last pair turns at 1/base."""
    return own() ** (own.width / max(own.width - 2, 1))


@frequencies("rope-one-frequency-for-all", "ROPE-3", "declared.rope")
def _(own: Frequencies) -> Tensor:
    """Every pair turns by one radian a position."""
    return torch.ones_like(own())


@frequencies(
    "rope-base-fixed-at-a-hundred",
    "ROPE-3 ROPE-6",
    "declared.rope",
    source="Lightning-AI/litgpt#1713",
)
def _(own: Frequencies) -> Tensor:
    """The base that is asked for is not handed on."""
    return own(base=100.0)


@angles(
    "rope-angles-in-bfloat16",
    "ROPE-1 ROPE-2 ROPE-7",
    "rope.table",
    source="EleutherAI/gpt-neox#1003",
    often="reference",
)
def _(own: Angles) -> Pair:
    """Frequencies and positions are cast to bfloat16 before they are multiplied."""
    plain = own()[0].dtype
    angles = (own.positions[..., None].bfloat16() * own.frequencies.bfloat16()).to(plain)
    return angles.cos(), angles.sin()


@angles("rope-quadratic-angle", "ROPE-1 ROPE-2 ROPE-9", "rope.table")
def _(own: Angles) -> Pair:
    """The angle grows with the square of the position."""
    return own(positions=own.positions * own.positions)


@angles("rope-positions-wrap-around", "ROPE-1", "rope.table")
def _(own: Angles) -> Pair:
    """The table has eight rows and is read from its beginning again."""
    return own(positions=own.positions % 8)


@angles("rope-ignores-positions", "ROPE-1 ROPE-8", "declared.rope")
def _(own: Angles) -> Pair:
    """Every position is turned by the same angle."""
    return own(positions=torch.ones_like(own.positions))


@angles(
    "rope-lengthens-what-it-turns", "ROPE-2", "declared.rope", source="sgl-project/sglang#33558"
)
def _(own: Angles) -> Pair:
    """Cosine and sine carry a factor of 1.2 that nobody declared."""
    cosine, sine = own()
    return 1.2 * cosine, 1.2 * sine


@angles("rope-sine-of-another-frequency", "ROPE-2", "rope.relative")
def _(own: Angles) -> Pair:
    """The sine is taken of half the angle."""
    return own()[0], own(frequencies=own.frequencies / 2)[1]


# -- in the text of hosts ---------------------------------------------------------------


source("rope-on-keys-alone", "ROPE-1 ROPE-7", "rope.relative", component="rope",
    says="Queries are not turned.")  # fmt: skip
source("frequency-index-from-one", "ROPE-3", "rope.frequencies", component="rope",
    says="Pairs are counted from 1: the fastest is left out.")  # fmt: skip
