"""Letting tokens talk: the mean of the past, three times (claims AVG-1, AVG-2).

The same numbers as a loop, as one matrix product, and as a softmax over masked scores. The third
is attention with all scores equal; attention proper lets the data choose the scores.
"""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.reference.attention import causal_mask


def running_mean_by_loop(x: Tensor) -> Tensor:
    """Mean of positions 0 … t, for every t. x and the result: (B, T, C)."""
    means = [x[:, : t + 1].mean(dim=1) for t in range(x.shape[1])]
    return torch.stack(means, dim=1)  # T × (B, C) -> (B, T, C)


def averaging_matrix(length: int) -> Tensor:
    """Lower-triangular weights, (T, T): row t gives 1/(t+1) to each of positions 0 … t."""
    triangle = torch.tril(torch.ones(length, length))
    return triangle / triangle.sum(dim=1, keepdim=True)


def running_mean_by_product(x: Tensor) -> Tensor:
    """The same as one matrix product. x and the result: (B, T, C)."""
    weights = averaging_matrix(x.shape[1]).to(x)
    return weights @ x  # (T, T) @ (B, T, C) -> (B, T, C)


def masked_softmax_matrix(length: int) -> Tensor:
    """The averaging matrix once more: equal scores, -inf above the diagonal, softmax. (T, T)."""
    scores = torch.zeros(length, length)
    return scores.masked_fill(~causal_mask(length), float("-inf")).softmax(dim=-1)


def running_mean_by_softmax(x: Tensor) -> Tensor:
    """The same with the weights from a softmax. x and the result: (B, T, C)."""
    weights = masked_softmax_matrix(x.shape[1]).to(x)
    return weights @ x  # (T, T) @ (B, T, C) -> (B, T, C)
