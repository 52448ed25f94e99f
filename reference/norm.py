"""Norms: bring every position's vector back to unit scale (claims NORM).

Both look at one position's channels and at nothing else. Half precision is normalised in float32,
where squares of ordinary activations do not overflow.

Ba et al. 2016 (LayerNorm); Zhang and Sennrich 2019 (RMSNorm).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x / √(mean(x²) + eps) ⊙ weight. One gain for each channel; no centring, no bias."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (..., C) over C."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = wide.square().mean(dim=-1, keepdim=True)  # (..., C) -> (..., 1)
        return (wide * torch.rsqrt(mean_square + self.eps)).to(x.dtype) * self.weight


class LayerNorm(nn.Module):
    """(x - mean) / √(variance + eps) ⊙ weight + bias: a gain and a shift for each channel."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (..., C) over C."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)  # (..., C) -> (..., 1)
        unit = (centred * torch.rsqrt(variance + self.eps)).to(x.dtype)
        return unit * self.weight + self.bias
