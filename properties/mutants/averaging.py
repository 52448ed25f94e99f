"""Faults in averaging the past."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention, averaging


@mutant("averaging-not-normalised", "AVG-1", component="attention")
def _(patch: Patch) -> None:
    """The triangle is left as ones: sums instead of means."""
    patch.replace(averaging.averaging_matrix, lambda length: torch.ones(length, length).tril())


@mutant("averaging-normalised-by-column", "AVG-1", component="attention")
def _(patch: Patch) -> None:
    """The triangle is divided by the sums of its columns, not of its rows."""

    def matrix(length: int) -> Tensor:
        triangle = torch.ones(length, length).tril()
        return triangle / triangle.sum(dim=0, keepdim=True)

    patch.replace(averaging.averaging_matrix, matrix)


@mutant("averaging-skips-itself", "AVG-1", component="attention")
def _(patch: Patch) -> None:
    """A position averages what stands before it and leaves itself out."""

    def matrix(length: int) -> Tensor:
        triangle = torch.ones(length, length).tril(-1)
        return triangle / triangle.sum(dim=1, keepdim=True).clamp(min=1)

    patch.replace(averaging.averaging_matrix, matrix)


@mutant("averaging-mask-finite", "AVG-2", component="softmax")
def _(patch: Patch) -> None:
    """Later positions are filled with -20 instead of -inf, and keep a small weight."""

    def matrix(length: int) -> Tensor:
        hidden = ~torch.ones(length, length, dtype=torch.bool).tril()
        return torch.zeros(length, length).masked_fill(hidden, -20.0).softmax(dim=-1)

    patch.replace(averaging.masked_softmax_matrix, matrix)


@mutant(
    "averaging-mask-large-and-finite",
    "AVG-2",
    component="softmax",
    equivalent="with scores of zero, exp(-1e9) is exactly 0 in float32, as exp(-inf) is",
)
def _(patch: Patch) -> None:
    """Later positions are filled with -1e9 instead of -inf."""

    def matrix(length: int) -> Tensor:
        hidden = ~torch.ones(length, length, dtype=torch.bool).tril()
        return torch.zeros(length, length).masked_fill(hidden, -1e9).softmax(dim=-1)

    patch.replace(averaging.masked_softmax_matrix, matrix)


@mutant("scores-favour-the-recent", "AVG-3", component="softmax")
def _(patch: Patch) -> None:
    """A bias that grows with the key's position is added to every score."""
    plain = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: float | None) -> Tensor:
        return plain(query, key, **options) + 0.01 * torch.arange(key.shape[-2])

    patch.replace(plain, scores)
