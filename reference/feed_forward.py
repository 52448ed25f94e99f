"""The feed-forward network: what one position does by itself (claims FFN).

Attention only averages values; everything nonlinear about a single position happens here. The
original widens to 4·d, applies ReLU and narrows again. SwiGLU multiplies an activated branch by a
linear one; its third matrix is paid for by narrowing the hidden width to 8/3·d.

Vaswani et al. 2017 (ReLU); Radford et al. 2019 (GELU); Shazeer 2020 (SwiGLU).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn


def round_up(value: int | Fraction, multiple: int) -> int:
    """The smallest multiple of `multiple` that is not below `value`."""
    return math.ceil(Fraction(value) / multiple) * multiple


def gated_width(width: int, multiple: int = 8) -> int:
    """Hidden width at which three matrices hold what two of 4·width do: 8/3·width, rounded up.

    128 gives 344 in steps of 8; 4096 gives 11008 in steps of 256 (claims FFN-3, FFN-4).
    """
    return round_up(Fraction(8 * width, 3), multiple)


class SwiGLU(nn.Module):
    """down(SiLU(gate(x)) ⊙ up(x)); the article's W₁, W₃ and W₂ are gate, up and down."""

    def __init__(self, width: int, hidden: int | None = None, *, bias: bool = False) -> None:
        super().__init__()
        hidden = gated_width(width) if hidden is None else hidden
        self.gate = nn.Linear(width, hidden, bias=bias)
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C), each position for itself."""
        hidden = F.silu(self.gate(x)) * self.up(x)  # (B, T, C) -> (B, T, d_ff)
        out: Tensor = self.down(hidden)  # (B, T, d_ff) -> (B, T, C)
        return out


class FeedForward(nn.Module):
    """down(activation(up(x))), with ReLU, or GELU in the tanh form that GPT-2 uses."""

    def __init__(
        self,
        width: int,
        hidden: int | None = None,
        *,
        activation: Literal["relu", "gelu"] = "relu",
        bias: bool = False,
    ) -> None:
        super().__init__()
        hidden = 4 * width if hidden is None else hidden
        self.up = nn.Linear(width, hidden, bias=bias)
        self.activation = nn.ReLU() if activation == "relu" else nn.GELU(approximate="tanh")
        self.down = nn.Linear(hidden, width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C), each position for itself."""
        hidden = self.activation(self.up(x))  # (B, T, C) -> (B, T, d_ff)
        out: Tensor = self.down(hidden)  # (B, T, d_ff) -> (B, T, C)
        return out
