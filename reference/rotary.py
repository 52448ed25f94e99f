"""Rotary positions: turn queries and keys so that q·k sees only how far apart they are (ROPE).

Channels are taken in pairs. Pair i of a query at position m turns by the angle m·θ_i, with
θ_i = base^(-2i/d), and the same for keys; the dot product of two turned vectors depends on the
difference of their angles, hence on m - n alone.

Su et al. 2021, "RoFormer"; Chen et al. 2023 (interpolation).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

Pairing = Literal["interleaved", "half"]


class Rotation(NamedTuple):
    """Cosine and sine of every angle, (..., T, d/2) each, and which channels turn together."""

    cosine: Tensor
    sine: Tensor
    pairing: Pairing


def rotary_frequencies(
    width: int,
    *,
    base: float = 10000.0,
    interpolation: float = 1.0,
    device: torch.device | None = None,
) -> Tensor:
    """Radians a position for each pair of channels: base^(-2i/width) / interpolation.

    Args:
        width: Channels of a head, d; even.
        base: θ; larger slows every pair but the first (claim ROPE-6).
        interpolation: Factor s by which position s·m is made to look like m.
        device: Where the result is to be.

    Returns:
        Float64, (d/2,): from 1 radian a position down to nearly 1/base.

    Raises:
        ValueError: If `width` is odd.
    """
    if width % 2:
        raise ValueError(f"Rotary positions turn channels in pairs: {width} channels are not even.")
    exponent = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    return base**-exponent / interpolation


def rotation_at(
    positions: Tensor,
    width: int,
    *,
    base: float = 10000.0,
    pairing: Pairing = "interleaved",
    interpolation: float = 1.0,
) -> Rotation:
    """The rotation of every position, in float64: a float32 angle of 10,000 is off by 0.0005.

    Args:
        positions: Whole or fractional positions, (..., T).
        width: Channels of a head, d; even.
        base: As in `rotary_frequencies`.
        pairing: "interleaved" turns channels (2i, 2i+1) together, "half" (i, i + d/2).
        interpolation: As in `rotary_frequencies`.
    """
    frequencies = rotary_frequencies(
        width, base=base, interpolation=interpolation, device=positions.device
    )
    angles = positions[..., None] * frequencies  # (..., T) -> (..., T, d/2)
    return Rotation(angles.cos(), angles.sin(), pairing)


def apply_rotation(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn x, (..., T, d), and return it in its own dtype; half precision is turned in float32."""
    precision = torch.promote_types(x.dtype, torch.float32)
    cosine, sine = rotation.cosine.to(precision), rotation.sine.to(precision)
    if rotation.pairing == "interleaved":
        first, second = x[..., 0::2], x[..., 1::2]  # (..., T, d) -> 2 × (..., T, d/2)
    else:
        first, second = x.chunk(2, dim=-1)  # (..., T, d) -> 2 × (..., T, d/2)
    turned = (first * cosine - second * sine, first * sine + second * cosine)
    if rotation.pairing == "interleaved":
        joined = torch.stack(turned, dim=-1).flatten(-2)  # 2 × (..., T, d/2) -> (..., T, d)
    else:
        joined = torch.cat(turned, dim=-1)  # 2 × (..., T, d/2) -> (..., T, d)
    return joined.to(x.dtype)


def rotate(
    x: Tensor,
    positions: Tensor,
    *,
    base: float = 10000.0,
    pairing: Pairing = "interleaved",
    interpolation: float = 1.0,
) -> Tensor:
    """Turn x by its positions.

    Args:
        x: Queries or keys, (..., T, d), d even.
        positions: (T,), or any shape that broadcasts to x's without its last axis.
        base: θ of the frequencies θ^(-2i/d).
        pairing: "interleaved" turns channels (2i, 2i+1) together, "half" (i, i + d/2).
        interpolation: Positions are divided by this first.

    Returns:
        (..., T, d), in x's dtype, each vector as long as it was (claim ROPE-2).
    """
    rotation = rotation_at(
        positions, x.shape[-1], base=base, pairing=pairing, interpolation=interpolation
    )
    return apply_rotation(x, rotation)


class Rotary(nn.Module):
    """The rotation for given positions; nothing to learn (claim ROPE-5).

    Args:
        width: Channels of a head, d; even.
        base: As in `rotate`.
        pairing: As in `rotate`.
        interpolation: As in `rotate`.
        length: Number of positions to compute beforehand and then only look up; None to compute
            each when it is asked for. The table is no buffer, so casting the model to half
            precision leaves it in float64.
    """

    def __init__(
        self,
        width: int,
        *,
        base: float = 10000.0,
        pairing: Pairing = "interleaved",
        interpolation: float = 1.0,
        length: int | None = None,
    ) -> None:
        super().__init__()
        self.width, self.base, self.pairing = width, base, pairing
        self.interpolation, self.length = interpolation, length
        self._table = None if length is None else self._compute(torch.arange(length))

    def forward(self, positions: Tensor) -> Rotation:
        """Cosine and sine at `positions`, (..., T) -> (..., T, d/2).

        Raises:
            ValueError: If there is a table and a position is past its end.
        """
        if self.length is None or self._table is None:
            return self._compute(positions)
        require_positions_below(self.length, positions, "rotary table")
        if self._table.cosine.device != positions.device:
            self._table = self._compute(torch.arange(self.length, device=positions.device))
        return Rotation(self._table.cosine[positions], self._table.sine[positions], self.pairing)

    def _compute(self, positions: Tensor) -> Rotation:
        return rotation_at(
            positions,
            self.width,
            base=self.base,
            pairing=self.pairing,
            interpolation=self.interpolation,
        )


def require_positions_below(length: int, positions: Tensor, table: str) -> None:
    """Refuse positions outside a table of `length` rows.

    Raises:
        ValueError: If a position is negative, or `length` or more. Not while torch compiles or
            exports the model, where values cannot be looked at.
    """
    if torch.compiler.is_compiling() or positions.is_meta or positions.numel() == 0:
        return
    lowest, highest = int(positions.min()), int(positions.max())
    if lowest < 0 or highest >= length:
        outside = lowest if lowest < 0 else highest
        raise ValueError(
            f"Position {outside} is outside the {table}, which holds positions 0 to {length - 1}: "
            f"cut the sequence to its last {length} tokens, or build the table with more."
        )
