"""Faults of rotary positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.host import REFERENCE
from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import model, rotary
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
    component="rope",
    breaks=("ROPE-5",),
    source="huggingface/transformers#25681",
)
def _(patch: Patch) -> None:
    """Angles are computed in the type of what is turned: right until that is half precision."""
    original = rotary.rotate

    def rotate(x: Tensor, positions: Tensor, **options: Any) -> Tensor:
        return original(x, positions.to(x.dtype), **options)

    def angles_of(positions: Tensor, frequencies: Tensor) -> Tensor:
        dtype = positions.dtype if positions.is_floating_point() else frequencies.dtype
        return positions[..., None] * frequencies.to(dtype)

    patch.replace(rotary.rotate, rotate)
    _replace_angles(patch, angles_of)


@mutant("rope-positions-from-one", component="rope", breaks=("ROPE-2",))
def _(patch: Patch) -> None:
    """The first position turns by one step instead of none."""
    _replace_angles(patch, lambda m, theta: (m + 1)[..., None] * theta)


@mutant("rope-table-resampled", component="rope", breaks=("ROPE-5",))
def _(patch: Patch) -> None:
    """A call's positions are counted from its first one, so every chunk starts at 0."""
    _replace_angles(patch, lambda m, theta: (m - m[..., :1])[..., None] * theta)


@mutant(
    "rope-base-ignored",
    component="rope",
    breaks=("ROPE-6",),
    source="Lightning-AI/litgpt#1713",
)
def _(patch: Patch) -> None:
    """The base is 10,000 whatever the configuration says."""
    original = rotary.rotary_frequencies

    def frequencies(
        width: int,
        *,
        base: float = 10000.0,  # noqa: ARG001 - the fault
        interpolation: float = 1.0,
        device: torch.device | None = None,
    ) -> Tensor:
        return original(width, interpolation=interpolation, device=device)

    patch.replace(rotary.rotary_frequencies, frequencies)


@mutant("rope-interpolation-multiplies", component="rope", breaks=("ROPE-6",))
def _(patch: Patch) -> None:
    """Interpolation speeds rotation up instead of slowing it down."""
    original = rotary.rotary_frequencies

    def frequencies(
        width: int,
        *,
        base: float = 10000.0,
        interpolation: float = 1.0,
        device: torch.device | None = None,
    ) -> Tensor:
        return original(width, base=base, interpolation=1 / interpolation, device=device)

    patch.replace(rotary.rotary_frequencies, frequencies)


@mutant(
    "rope-pairings-mixed",
    component="rope",
    breaks=("ROPE-2", "ROPE-7"),
    source="karpathy/llama2.c#286",
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

    patch.replace(rotary.apply_rotation, apply_rotation)


@mutant("rope-half-split-by-one-sign", component="rope", breaks=("ROPE-2", "ROPE-7"))
def _(patch: Patch) -> None:
    """The second channel of a pair subtracts where it should add."""
    original = rotary.apply_rotation

    def apply_rotation(x: Tensor, rotation: Rotation) -> Tensor:
        if rotation.pairing == "interleaved":
            return original(x, rotation)
        cosine, sine = rotation.cosine.to(x.dtype), rotation.sine.to(x.dtype)
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cosine - second * sine, second * cosine - first * sine), -1)

    patch.replace(rotary.apply_rotation, apply_rotation)


@mutant(
    "rope-along-heads",
    component="rope",
    breaks=("ROPE-8",),
    source="facebookresearch/xformers#841",
)
def _(patch: Patch) -> None:
    """A layout of (B, T, H, d) is expected where (B, H, T, d) comes: heads are turned."""
    original = rotary.rotate

    def rotate(x: Tensor, positions: Tensor, **options: Any) -> Tensor:
        if x.dim() < 4:
            return original(x, positions, **options)
        heads = torch.arange(x.shape[1])
        return original(x.transpose(1, 2), heads, **options).transpose(1, 2)

    patch.replace(rotary.rotate, rotate)


@mutant("rope-along-the-batch", component="rope", breaks=("ROPE-8",))
def _(patch: Patch) -> None:
    """Each row of a batch is turned one position further than the row before."""
    original = rotary.rotate

    def rotate(x: Tensor, positions: Tensor, **options: Any) -> Tensor:
        if x.dim() < 4:
            return original(x, positions, **options)
        rows = torch.arange(x.shape[0])[:, None, None]
        return original(x, positions + rows, **options)

    patch.replace(rotary.rotate, rotate)


@mutant("rope-learned-frequencies", component="rope", breaks=("ROPE-5",))
def _(patch: Patch) -> None:
    """Frequencies are a parameter, which an optimiser will change."""

    def learn(rope: rotary.Rotary) -> None:
        rope.frequencies = torch.nn.Parameter(rotary.rotary_frequencies(rope.width))

    patch.after_init(rotary.Rotary, learn)


@mutant(
    "rope-table-cast-with-the-model",
    component="rope",
    breaks=("ROPE-5",),
    source="huggingface/transformers#25681",
)
def _(patch: Patch) -> None:
    """Frequencies are a buffer, which a cast of the model rounds to half precision."""

    def keep(rope: rotary.Rotary) -> None:
        frequencies = rotary.rotary_frequencies(rope.width, base=rope.base)
        rope.register_buffer("frequencies", frequencies, persistent=False)

    def forward(self: Any, positions: Tensor) -> Rotation:
        angles = positions[..., None] * self.frequencies.double()
        return Rotation(angles.cos(), angles.sin(), self.pairing)

    patch.after_init(rotary.Rotary, keep)
    patch.method(rotary.Rotary, "forward", forward)


@mutant("rope-missing-in-the-last-layer", component="rope", breaks=("ROPE-4",))
def _(patch: Patch) -> None:
    """The last block attends without positions."""

    def unrotate(gpt: model.GPT) -> None:
        gpt.blocks[-1].register_forward_pre_hook(
            lambda _, args, options: (args, {**options, "rotation": None}), with_kwargs=True
        )

    patch.after_init(model.GPT, unrotate)


@mutant("rope-and-a-position-vector", component="rope", breaks=("ROPE-4", "ROPE-9"))
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


@mutant(
    "rope-offset-ignored",
    component="rope",
    breaks=("ROPE-9",),
    source="keras-team/keras-hub#1544",
)
def _(patch: Patch) -> None:
    """Later positions of one call start at 0 again."""
    _replace_angles(patch, lambda m, theta: torch.arange(m.shape[-1])[..., None] * theta)
