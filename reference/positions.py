"""Absolute positions, added to the token embedding: sinusoidal and learned (claims POS).

Both say where a token stands, not how far two tokens are apart; `rotary` does that.

Vaswani et al. 2017 (sinusoidal); Radford et al. 2019 (learned, GPT-2).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from theodolite.reference.rotary import require_positions_below, rotary_frequencies


def sinusoidal(positions: Tensor, width: int, *, base: float = 10000.0) -> Tensor:
    """The fixed vector of each position: sine and cosine of the same angles that RoPE turns by.

    Args:
        positions: (..., T).
        width: C; even.
        base: Of the frequencies base^(-2i/C).

    Returns:
        Float64, (..., T, C): channel 2i is sin(m·θ_i), channel 2i+1 is cos(m·θ_i).

    Raises:
        ValueError: If `width` is odd.
    """
    frequencies = rotary_frequencies(width, base=base, device=positions.device)
    angles = positions[..., None] * frequencies  # (..., T) -> (..., T, C/2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # -> (..., T, C)


class SinusoidalPositions(nn.Module):
    """`sinusoidal` as a part of a model: no parameter, no end."""

    def __init__(self, width: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.width, self.base = width, base

    def forward(self, positions: Tensor) -> Tensor:
        """Positions (..., T) -> vectors (..., T, C), float64."""
        return sinusoidal(positions, self.width, base=self.base)


class LearnedPositions(nn.Module):
    """One learned vector for each of `context` positions."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.context = context
        self.table = nn.Embedding(context, width)

    def forward(self, positions: Tensor) -> Tensor:
        """Positions (..., T) -> vectors (..., T, C).

        Raises:
            ValueError: If a position is past the end of the table (claim POS-2).
        """
        require_positions_below(self.context, positions, "table of learned positions")
        vectors: Tensor = self.table(positions)  # (..., T) -> (..., T, C)
        return vectors
