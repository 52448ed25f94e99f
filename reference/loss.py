"""The loss: mean negative log-probability of the token that came next (claims GPT-5, AUD-10).

Logits at t predict token t + 1. The shift happens exactly once: `next_token_loss` does it, and
`token_loss` expects targets that somebody has shifted already, as the article's batches are.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """Cross-entropy of logits (B, T, V) against targets (B, T) that stand where they are predicted.

    The mean is over the tokens that count: targets equal to `ignore_index` do not.

    Raises:
        ValueError: If the shapes do not belong together.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets of shape {tuple(targets.shape)} do not fit logits of shape "
            f"{tuple(logits.shape)}: give one target for each position, shape (B, T)."
        )
    flat = logits.flatten(0, -2)  # (B, T, V) -> (B·T, V)
    return F.cross_entropy(flat, targets.flatten().long(), ignore_index=ignore_index)


def next_token_loss(logits: Tensor, ids: Tensor, ignore_index: int = -100) -> Tensor:
    """Cross-entropy of logits (B, T, V) against the ids (B, T) that they were computed from.

    Logits at 0 … T - 2 are held against ids at 1 … T - 1.

    Raises:
        ValueError: If there is no next token, T < 2, or the shapes do not belong together.
    """
    if ids.shape[-1] < 2:
        raise ValueError(
            f"A sequence of {ids.shape[-1]} has no next token to predict: give at least 2 tokens."
        )
    return token_loss(logits[:, :-1], ids[:, 1:], ignore_index)
