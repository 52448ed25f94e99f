"""Faults of absolute positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import positions, rotary


def _replace_sinusoidal(patch: Patch, channels_of: Any) -> None:
    """Let ``channels_of(positions (..., T, 1), i (C/2,), C)`` give sine and cosine channels."""

    def sinusoidal(places: Tensor, width: int, *, base: float = 10000.0) -> Tensor:
        pairs = torch.arange(width // 2, dtype=torch.float64)
        return torch.stack(channels_of(places[..., None], pairs, width, base), dim=-1).flatten(-2)

    patch.replace(positions.sinusoidal, sinusoidal)


@mutant("sinusoid-exponent-halved", component="position", breaks=("POS-1",))
def _(patch: Patch) -> None:
    """The exponent is i/C where it should be 2i/C."""

    def channels(m: Tensor, i: Tensor, width: int, base: float) -> tuple[Tensor, Tensor]:
        angle = m * base ** (-i / width)
        return angle.sin(), angle.cos()

    _replace_sinusoidal(patch, channels)


@mutant("sinusoid-cosine-one-frequency-off", component="position", breaks=("POS-1",))
def _(patch: Patch) -> None:
    """Every channel has a frequency of its own, so sine and cosine of a pair part."""

    def channels(m: Tensor, i: Tensor, width: int, base: float) -> tuple[Tensor, Tensor]:
        return (m * base ** (-2 * i / width)).sin(), (m * base ** (-(2 * i + 1) / width)).cos()

    _replace_sinusoidal(patch, channels)


@mutant("sinusoid-fades", component="position", breaks=("POS-1",))
def _(patch: Patch) -> None:
    """Later positions have shorter vectors."""

    def channels(m: Tensor, i: Tensor, width: int, base: float) -> tuple[Tensor, Tensor]:
        angle, size = m * base ** (-2 * i / width), 1 / (1 + m.abs() / 1000)
        return angle.sin() * size, angle.cos() * size

    _replace_sinusoidal(patch, channels)


@mutant("sinusoid-learned", component="position", breaks=("POS-1",))
def _(patch: Patch) -> None:
    """The sinusoidal vectors are only where training starts."""
    original = positions.SinusoidalPositions.__init__

    def init(self: positions.SinusoidalPositions, width: int, **options: Any) -> None:
        original(self, width, **options)
        self.table = torch.nn.Parameter(positions.sinusoidal(torch.arange(64), width))

    patch.method(positions.SinusoidalPositions, "__init__", init)


@mutant("learned-positions-wrap-around", component="position", breaks=("POS-2",))
def _(patch: Patch) -> None:
    """A position past the table reads the vector of another one."""

    def forward(self: positions.LearnedPositions, places: Tensor) -> Tensor:
        vectors: Tensor = self.table(places % self.context)
        return vectors

    patch.method(positions.LearnedPositions, "forward", forward)


@mutant("learned-positions-unchecked", component="position", breaks=("POS-2",))
def _(patch: Patch) -> None:
    """A position past the table ends in whatever error the look-up makes."""
    patch.replace(rotary.require_positions_below, lambda *_: None)


@mutant("learned-positions-one-row-late", component="position", breaks=("POS-2",))
def _(patch: Patch) -> None:
    """Position 0 reads the second vector, the last one reads the first."""

    def forward(self: positions.LearnedPositions, places: Tensor) -> Tensor:
        rotary.require_positions_below(self.context, places, "table of learned positions")
        vectors: Tensor = self.table((places + 1) % self.context)
        return vectors

    patch.method(positions.LearnedPositions, "forward", forward)


@mutant("learned-positions-one-for-all", component="position", breaks=("POS-2", "POS-3"))
def _(patch: Patch) -> None:
    """Every position reads the first vector."""

    def forward(self: positions.LearnedPositions, places: Tensor) -> Tensor:
        rotary.require_positions_below(self.context, places, "table of learned positions")
        vectors: Tensor = self.table(places * 0)
        return vectors

    patch.method(positions.LearnedPositions, "forward", forward)


@mutant(
    "positions-counted-from-the-call",
    component="position",
    breaks=("POS-3",),
    source="TransformerLensOrg/TransformerLens#1609",
)
def _(patch: Patch) -> None:
    """The positions that a caller gives are ignored: the first token always stands at 0."""
    for owner in (positions.LearnedPositions, positions.SinusoidalPositions):
        original = owner.forward
        patch.method(
            owner,
            "forward",
            lambda self, places, original=original: original(self, places - places.min()),
        )
