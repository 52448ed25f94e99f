"""Faults of attention: scores, softmax and the weights that come of it."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.hosts.seams import hidden
from theodolite.properties.mutants.places import Weights, weights
from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference import attention


@mutant("weights-by-plain-sum", "ATT-2", component="softmax")
def _(patch: Patch) -> None:
    """Scores are divided by the sum of their magnitudes: no exponential, so signs remain."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, 0.0)
        return F.normalize(scores, p=1, dim=-1)

    patch.replace(attention.attention_weights, weights)


@mutant("mask-finite-fill", "ATT-1 ATT-2", component="mask")
def _(patch: Patch) -> None:
    """Later scores are filled with -50: nothing at ordinary scores, a leak at large ones."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, -50.0)
        return scores.softmax(dim=-1)

    patch.replace(attention.attention_weights, weights)


@mutant(
    "mask-after-softmax-renormalised",
    "ATT-3",
    component="mask",
    equivalent="dividing by the sum of what is left gives the softmax over the visible keys",
)
def _(patch: Patch) -> None:
    """Weights of later keys are set to zero after softmax, and the rest divided by its sum."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        full = scores.softmax(dim=-1)
        left = full if visible is None else full * visible
        return left / left.sum(dim=-1, keepdim=True)

    patch.replace(attention.attention_weights, weights)


@mutant("mask-ignored-when-fused", "ATT-1", component="mask")
def _(patch: Patch) -> None:
    """The fused operator is given the triangle of the first keys, not of the last."""

    def fused(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        triangle = causal and mask is None
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=triangle, scale=scale
        )

    patch.replace(attention.fused_attention, fused)


@mutant("scores-not-transposed-back", "ATT-1", component="attention")
def _(patch: Patch) -> None:
    """Keys ask queries: the score matrix is transposed."""
    plain = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        if query.shape != key.shape:
            return plain(query, key, **options)
        return plain(key, query, **options)

    patch.replace(plain, scores)


@mutant("weights-not-normalised", "ATT-7", component="attention")
def _(patch: Patch) -> None:
    """The exponentials are never divided by their sum."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        return (scores - scores.amax(dim=-1, keepdim=True)).exp()

    patch.replace(attention.attention_weights, weights)


@mutant("no-softmax", "ATT-7", component="attention")
def _(patch: Patch) -> None:
    """Scores weigh the values as they are, so the output is linear in Q and K too."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        return scores if visible is None else scores.masked_fill(~visible, 0.0)

    patch.replace(attention.attention_weights, weights)


@mutant("weights-ignore-the-query", "ATT-8", component="attention")
def _(patch: Patch) -> None:
    """Every query is replaced by ones: keys alone decide the weights."""
    plain = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        return plain(torch.ones_like(query), key, **options)

    patch.replace(plain, scores)


@mutant("scores-by-cosine", "ATT-8", component="attention")
def _(patch: Patch) -> None:
    """Queries and keys are brought to unit length before their product."""
    plain = attention.attention_scores

    def scores(query: Tensor, key: Tensor, **options: Any) -> Tensor:
        return plain(F.normalize(query, dim=-1), F.normalize(key, dim=-1), **options)

    patch.replace(plain, scores)


@mutant("scores-by-distance", "ATT-1 ATT-8", component="attention")
def _(patch: Patch) -> None:
    """A score is minus the squared distance of query and key, not their product."""

    def scores(query: Tensor, key: Tensor, **_: Any) -> Tensor:
        return -torch.cdist(query, key).square() / (2 * math.sqrt(query.shape[-1]))

    patch.replace(attention.attention_scores, scores)


@mutant("values-activated", "ATT-7", component="attention")
def _(patch: Patch) -> None:
    """Values pass a tanh before they are averaged."""
    plain = attention.scaled_dot_product_attention

    def attend(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        return plain(query, key, value.tanh(), **options)

    patch.replace(plain, attend)


# -- in every host that has the seam ---------------------------------------------------------------


@weights(
    "mask-after-softmax",
    "ATT-1 ATT-3 AUD-1",
    "inside.rows_sum_to_one",
    source="huggingface/pytorch-image-models#2236",
)
def _(own: Weights) -> Tensor:
    """Future weights are set to zero after softmax and not renormalised."""
    weights: Tensor = own(visible=None)
    return weights if own.visible is None else weights.masked_fill(~own.visible, 0.0)


@weights(
    "mask-filled-with-minus-ten",
    "ATT-1 ATT-2",
    "inside.no_weight_on_the_future",
    component="mask",
    source="karpathy/minGPT#75",
)
def _(own: Weights) -> Tensor:
    """Hidden scores become -10, which leaves them a little weight."""
    filled = own.scores if own.visible is None else own.scores.masked_fill(~own.visible, -10.0)
    return own(scores=filled, visible=None)


@weights(
    "mask-filled-with-minus-ten-thousand",
    "ATT-4",
    "causality.perturb",
    component="mask",
    source="huggingface/transformers#17121",
)
def _(own: Weights) -> Tensor:
    """Hidden scores become -10,000, which large scores can reach."""
    filled = own.scores if own.visible is None else own.scores.masked_fill(~own.visible, -10000.0)
    return own(scores=filled, visible=None)


@weights("mask-multiplies-the-scores", "ATT-2", "inside.no_weight_on_the_future", component="mask")
def _(own: Weights) -> Tensor:
    """Hidden scores are multiplied by 0, not set to -infinity: they count as 0."""
    return own(scores=own.scores if own.visible is None else own.scores * own.visible, visible=None)


@weights(
    "softmax-over-queries", "ATT-1 ATT-2", "inside.weights_follow_scores", often="reference gpt2"
)
def _(own: Weights) -> Tensor:
    """Softmax runs over the queries of one key."""
    scores = hidden(own.scores, own.visible)
    return scores.softmax(-2).nan_to_num()


@weights("softmax-over-heads", "ATT-2 ATT-3", "inside.rows_sum_to_one", often="reference")
def _(own: Weights) -> Tensor:
    """Weights of one key sum to 1 over the heads, not over the keys of one query."""
    scores = hidden(own.scores, own.visible)
    return scores.softmax(-3 if scores.dim() > 3 else -1).nan_to_num()


@weights("softmax-over-the-batch", "AUD-3", "batch.independence", source="PetrochukM/PyTorch-NLP#2")
def _(own: Weights) -> Tensor:
    """Softmax runs over the rows of the batch and their heads."""
    scores = hidden(own.scores, own.visible)
    return scores.flatten(0, -3).softmax(0).view_as(scores).nan_to_num()


@weights("weights-divided-by-their-number", "ATT-3", "inside.rows_sum_to_one")
def _(own: Weights) -> Tensor:
    """Weights are divided by the number of keys that a query sees, as if they were a sum."""
    weights: Tensor = own()
    count = torch.arange(weights.shape[-2]) + 1.0 + weights.shape[-1] - weights.shape[-2]
    return weights / count[:, None].to(weights.dtype)


@weights(
    "weights-ignore-the-scores", "ATT-8", "inside.weights_follow_scores", component="attention"
)
def _(own: Weights) -> Tensor:
    """Every visible key has the same weight."""
    return own(scores=own.scores * 0)


@weights(
    "weights-dropped-in-evaluation",
    "GPT-8",
    "state.repeat",
    component="dropout",
    source="karpathy/nanoGPT#240",
)
def _(own: Weights) -> Tensor:
    """Dropout of attention weights knows no evaluation mode."""
    return F.dropout(own(), 0.1, training=True)


@weights("mask-inverted", "ATT-4 AUD-2", "inside.no_weight_on_the_future", component="mask")
def _(own: Weights) -> Tensor:
    """A billion is taken from the scores of what should be seen, and from nothing else."""
    scores = own.scores if own.visible is None else own.scores - 1e9 * own.visible
    return own(scores=scores, visible=None)


@weights("weights-detached", "AUD-12", "gradient.slope", component="gradient")
def _(own: Weights) -> Tensor:
    """Attention weights are detached: queries and keys never learn."""
    return own().detach()


# -- in the text of hosts ---------------------------------------------------------------


source("sink-counted-twice", "ATT-2", "inside.sinks", component="softmax",
    says="A learned sink has twice its weight in the factor that stands for it.")  # fmt: skip
