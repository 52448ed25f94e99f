"""Faults in the scale of scores, and in what softmax makes of it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import attention


def _scale_by(patch: Patch, factor_at: Any) -> None:
    plain = attention.attention_scores

    def scores(
        query: Tensor, key: Tensor, *, scale: float | None = None, softcap: float | None = None
    ) -> Tensor:
        scale = factor_at(query.shape[-1]) if scale is None else scale
        return plain(query, key, scale=scale, softcap=softcap)

    patch.replace(plain, scores)


@mutant("scale-fixed-at-width-64", component="scale", breaks=("SCL-2", "SCL-5"))
def _(patch: Patch) -> None:
    """Scores are divided by 8, right for heads of width 64 only."""
    _scale_by(patch, lambda _: 1 / 8)


@mutant("product-misses-an-eighth", component="scale", breaks=("SCL-1",))
def _(patch: Patch) -> None:
    """The last eighth of the channels is left out of every product."""
    plain = attention.attention_scores

    def scores(query: Tensor, key: Tensor, *, scale: float | None = None, **options: Any) -> Tensor:
        scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        used = query.shape[-1] - query.shape[-1] // 8
        return plain(query[..., :used], key[..., :used], scale=scale, **options)

    patch.replace(plain, scores)


@mutant("softmax-to-base-two", component="softmax", breaks=("SCL-3",))
def _(patch: Patch) -> None:
    """Softmax raises 2, not e, to the scores."""
    plain = attention.attention_weights
    patch.replace(plain, lambda scores, visible=None: plain(scores * math.log(2), visible))


@mutant("scores-standardised", component="softmax", breaks=("SCL-3", "SCL-6"))
def _(patch: Patch) -> None:
    """Each row of scores is brought to unit variance before softmax, which takes its scale away."""
    plain = attention.attention_weights

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        spread = scores.std(dim=-1, keepdim=True, unbiased=False).clamp(min=1e-9)
        return plain(scores / spread, visible)

    patch.replace(plain, weights)


@mutant("softmax-cooled", component="softmax", breaks=("SCL-4",))
def _(patch: Patch) -> None:
    """Softmax divides its scores by 1.5: a temperature nobody asked for."""
    plain = attention.attention_weights
    patch.replace(plain, lambda scores, visible=None: plain(scores / 1.5, visible))


@mutant("softmax-without-maximum", component="softmax", breaks=("SCL-6",))
def _(patch: Patch) -> None:
    """The exponential is taken of the scores as they are, and overflows for large ones."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        powers = scores.exp()
        return powers / powers.sum(dim=-1, keepdim=True)

    patch.replace(attention.attention_weights, weights)


@mutant("softmax-with-a-sink", component="softmax", breaks=("SCL-6",))
def _(patch: Patch) -> None:
    """The sum under the fraction line counts one more score, of 0."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        nothing = torch.zeros_like(scores[..., :1])
        return torch.cat([scores, nothing], dim=-1).softmax(dim=-1)[..., :-1]

    patch.replace(attention.attention_weights, weights)
