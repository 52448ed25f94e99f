"""Remedies for unstable training; all of them hold the scale of a softmax's input (claims STAB).

The third, a norm on queries and keys, is `RMSNorm` inside `MultiHeadAttention(qk_norm=True)`.

Chowdhery et al. 2022 (z-loss); Gemma Team 2024 (soft-capping); Henry et al. 2020 (QK norm).
"""

from __future__ import annotations

import torch
from torch import Tensor


def z_loss(logits: Tensor, coefficient: float = 1e-4) -> Tensor:
    """Penalty coefficient · mean(logsumexp(logits)²): pulls the softmax's normaliser to 1.

    Cross-entropy cannot see a constant added to all logits; this can (claim STAB-1).

    Args:
        logits: (..., V).
        coefficient: Weight of the penalty; 1e-4 in PaLM.

    Returns:
        A scalar, 0 only where every log-sum-exp is 0.
    """
    return coefficient * torch.logsumexp(logits, dim=-1).square().mean()


def soft_cap(x: Tensor, cap: float) -> Tensor:
    """Bound x by cap · tanh(x / cap): rising with x, and nearly x where x is small (STAB-3)."""
    return cap * torch.tanh(x / cap)
