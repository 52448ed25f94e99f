"""Faults inside attention: mask, softmax, scale, scores, values."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.registry import portable

# -- the triangle ------------------------------------------------------------------------------


@portable(
    "mask-transposed",
    seam="triangle",
    component="mask",
    breaks=("ATT-4", "AUD-2"),
    source="pytorch/examples#649",
)
def _(original: Any, queries: int, keys: int) -> Tensor:
    """Each position sees itself and what comes after it."""
    del original
    return torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries)


@portable("mask-missing", seam="triangle", component="mask", breaks=("ATT-4", "AUD-2"))
def _(original: Any, queries: int, keys: int) -> Tensor:
    """Every position sees every other."""
    del original
    return torch.ones(queries, keys, dtype=torch.bool)


@portable("mask-shows-the-next", seam="triangle", component="mask", breaks=("ATT-2", "AVG-3"))
def _(original: Any, queries: int, keys: int) -> Tensor:
    """The triangle reaches one position too far."""
    del original
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries + 1)


@portable("mask-in-blocks-of-four", seam="triangle", component="mask", breaks=("ATT-4", "AUD-2"))
def _(original: Any, queries: int, keys: int) -> Tensor:
    """Positions of one block of four see each other, the later ones too."""
    del original
    block = torch.arange(keys) // 4
    return block[None] <= block[keys - queries :, None]


@portable("mask-shows-the-last-key", seam="triangle", component="mask", breaks=("ATT-4", "AUD-2"))
def _(original: Any, queries: int, keys: int) -> Tensor:
    """The last column is left open: everybody sees the last token."""
    visible: Tensor = original(queries, keys).clone()
    visible[:, -1] = True
    return visible


@portable("past-hidden-but-the-first", seam="triangle", component="attention", breaks=("ATT-5",))
def _(original: Any, queries: int, keys: int) -> Tensor:
    """Each position sees itself and the first, and nothing between."""
    itself = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries)
    itself[:, 0] = True
    seen: Tensor = itself & original(queries, keys)
    return seen


@portable(
    "triangle-lined-up-with-the-first-key",
    seam="triangle",
    component="mask",
    breaks=("GEN-4",),
    source="time-series-foundation-models/lag-llama#81",
    needs=("cache",),
)
def _(original: Any, queries: int, keys: int) -> Tensor:
    """Behind a cache the first new query sees the first key alone, the second two, and so on."""
    del original
    return torch.ones(queries, keys, dtype=torch.bool).tril()


@portable(
    "chunk-sees-itself-whole",
    seam="triangle",
    component="mask",
    breaks=("GEN-4",),
    needs=("cache",),
)
def _(original: Any, queries: int, keys: int) -> Tensor:
    """Tokens that are read together behind a cache see each other, the later ones too."""
    if keys == queries:
        visible: Tensor = original(queries, keys)
        return visible
    return torch.ones(queries, keys, dtype=torch.bool)


# -- from scores to weights --------------------------------------------------------------------


@portable(
    "mask-after-softmax",
    seam="weights",
    component="softmax",
    breaks=("ATT-1", "ATT-3"),
    source="huggingface/pytorch-image-models#2236",
)
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Future weights are set to zero after softmax and not renormalised."""
    weights: Tensor = original(scores, None)
    return weights if visible is None else weights.masked_fill(~visible, 0.0)


@portable(
    "mask-filled-with-minus-ten",
    seam="weights",
    component="mask",
    breaks=("ATT-1", "ATT-2"),
    source="karpathy/minGPT#75",
)
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Hidden scores become -10, which leaves them a little weight."""
    filled = scores if visible is None else scores.masked_fill(~visible, -10.0)
    weights: Tensor = original(filled, None)
    return weights


@portable(
    "mask-filled-with-minus-ten-thousand",
    seam="weights",
    component="mask",
    breaks=("ATT-4",),
    source="huggingface/transformers#17121",
)
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Hidden scores become -10,000, which large scores can reach."""
    filled = scores if visible is None else scores.masked_fill(~visible, -1e4)
    weights: Tensor = original(filled, None)
    return weights


@portable("mask-multiplies-the-scores", seam="weights", component="mask", breaks=("ATT-2",))
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Hidden scores are multiplied by 0, not set to -infinity: they count as 0."""
    weights: Tensor = original(scores if visible is None else scores * visible, None)
    return weights


@portable("softmax-over-queries", seam="weights", component="softmax", breaks=("ATT-1", "ATT-2"))
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax runs over the queries of one key."""
    del original
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return scores.softmax(-2).nan_to_num()


@portable("softmax-over-heads", seam="weights", component="softmax", breaks=("ATT-2", "ATT-3"))
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Weights of one key sum to 1 over the heads, not over the keys of one query."""
    del original
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return scores.softmax(-3 if scores.dim() > 3 else -1).nan_to_num()


@portable(
    "softmax-over-the-batch",
    seam="weights",
    component="softmax",
    breaks=("AUD-3",),
    source="PetrochukM/PyTorch-NLP#2",
)
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax runs over the rows of the batch and their heads."""
    del original
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    return scores.flatten(0, -3).softmax(0).view_as(scores).nan_to_num()


@portable(
    "softmax-with-a-sink-nobody-declared", seam="weights", component="softmax", breaks=("ATT-3",)
)
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """The denominator has one too many: weights sum to less than 1."""
    del original
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    joined = torch.cat((scores, torch.zeros_like(scores[..., :1])), -1)
    return joined.softmax(-1)[..., :-1]


@portable("weights-divided-by-their-number", seam="weights", component="softmax", breaks=("ATT-3",))
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Weights are divided by the number of keys that a query sees, as if they were a sum."""
    weights: Tensor = original(scores, visible)
    count = torch.arange(weights.shape[-2]) + 1.0 + weights.shape[-1] - weights.shape[-2]
    return weights / count[:, None].to(weights.dtype)


@portable("weights-by-a-sigmoid", seam="weights", component="attention", breaks=("ATT-8",))
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Weights are sigmoids of the scores, divided by their sum."""
    del original
    open_ = scores.sigmoid() if visible is None else scores.sigmoid() * visible
    return open_ / open_.sum(-1, keepdim=True)


@portable("weights-ignore-the-scores", seam="weights", component="attention", breaks=("ATT-8",))
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Every visible key has the same weight."""
    weights: Tensor = original(scores * 0, visible)
    return weights


@portable(
    "weights-of-the-likeliest-alone", seam="weights", component="attention", breaks=("ATT-8",)
)
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """All weight goes to the key with the largest score."""
    weights: Tensor = original(scores, visible)
    return F.one_hot(weights.argmax(-1), weights.shape[-1]).to(weights.dtype)


@portable(
    "weights-dropped-in-evaluation",
    seam="weights",
    component="dropout",
    breaks=("GPT-8",),
    source="karpathy/nanoGPT#240",
)
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Dropout of attention weights knows no evaluation mode."""
    return F.dropout(original(scores, visible), 0.1, training=True)


@portable("softmax-in-half-precision", seam="weights", component="dtype", breaks=("AUD-8",))
def _(original: Any, scores: Tensor, visible: Tensor | None) -> Tensor:
    """Scores are cast to bfloat16 before the softmax."""
    return original(scores.bfloat16().to(scores.dtype), visible)  # type: ignore[no-any-return]


# -- scores ------------------------------------------------------------------------------------


@portable("scores-by-cosine", seam="scores", component="attention", breaks=("ATT-8",))
def _(original: Any, query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Scores are cosines: the lengths of queries and keys do not count."""
    return original(F.normalize(query, dim=-1), F.normalize(key, dim=-1), scale)  # type: ignore[no-any-return]


@portable("scores-by-distance", seam="scores", component="attention", breaks=("ATT-1", "ATT-8"))
def _(original: Any, query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Scores are negative distances, not products."""
    del original
    return -torch.cdist(query, key) * scale


@portable("scores-without-sign", seam="scores", component="attention", breaks=("ATT-8",))
def _(original: Any, query: Tensor, key: Tensor, scale: float) -> Tensor:
    """A key that answers with the opposite counts as much as one that answers."""
    return original(query, key, scale).abs()  # type: ignore[no-any-return]


@portable("one-head-takes-its-neighbours-keys", seam="scores", component="heads", breaks=("MHA-2",))
def _(original: Any, query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Half of the first head's keys are those of the last: its scores follow no one's q·k."""
    found: Tensor = original(query, key, scale)
    if found.dim() < 4 or found.shape[1] < 2:
        return found
    half = found[:, :1] * 0.5 + found[:, -1:] * 0.5
    return torch.cat([half, found[:, 1:]], 1)


@portable("scores-swallowed-by-a-bias", seam="scores", component="dtype", breaks=("AUD-8",))
def _(original: Any, query: Tensor, key: Tensor, scale: float) -> Tensor:
    """A million is added to every score and taken away again: float32 keeps steps of 1/16."""
    return original(query, key, scale) + 1e6 - 1e6  # type: ignore[no-any-return]


@portable("scores-without-gradient", seam="scores", component="gradient", breaks=("AUD-12",))
def _(original: Any, query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Scores are detached: queries and keys never learn."""
    return original(query, key, scale).detach()  # type: ignore[no-any-return]


# -- scale -------------------------------------------------------------------------------------


@portable(
    "no-scale",
    seam="scale",
    component="scale",
    breaks=("SCL-2", "SCL-4", "SCL-5"),
    source="PAIR-code/tiny-transformers#71",
)
def _(original: Any, query: Tensor) -> float:
    """Scores are not divided by the root of the head width."""
    del original, query
    return 1.0


@portable(
    "scale-by-width-not-its-root",
    seam="scale",
    component="scale",
    breaks=("SCL-2", "SCL-4", "SCL-5"),
)
def _(original: Any, query: Tensor) -> float:
    """Scores are divided by the head width itself."""
    del original
    return 1 / query.shape[-1]


@portable(
    "scale-by-model-width",
    seam="scale",
    component="scale",
    breaks=("SCL-5",),
    source="FareedKhan-dev/train-llm-from-scratch#3",
)
def _(original: Any, query: Tensor) -> float:
    """Scores are divided by the root of the whole width, all heads together."""
    heads = query.shape[1] if query.dim() > 3 else 4
    return float(original(query)) / math.sqrt(heads)


@portable("scores-times-root-d", seam="scale", component="scale", breaks=("SCL-5",))
def _(original: Any, query: Tensor) -> float:
    """Scores are multiplied by the root of the head width where they should be divided."""
    del original
    return math.sqrt(query.shape[-1])


@portable("scale-fifteen-percent-off", seam="scale", component="scale", breaks=("SCL-2", "SCL-5"))
def _(original: Any, query: Tensor) -> float:
    """Scores are 15 % too large."""
    return float(original(query)) * 1.15


@portable("scale-by-the-length", seam="scale", component="scale", breaks=("AUD-2",))
def _(original: Any, query: Tensor) -> float:
    """Scores are divided by the root of the number of queries."""
    del original
    return 1 / math.sqrt(query.shape[-2])


# -- values ------------------------------------------------------------------------------------


@portable("values-activated", seam="mix", component="attention", breaks=("ATT-7",))
def _(original: Any, weights: Tensor, value: Tensor) -> Tensor:
    """Values pass a ReLU first: the result is no mean of values."""
    return original(weights, value.relu())  # type: ignore[no-any-return]


@portable("values-of-the-one-before", seam="mix", component="attention", breaks=("ATT-5",))
def _(original: Any, weights: Tensor, value: Tensor) -> Tensor:
    """Each weight meets the value of the position before its key, the first its own."""
    late = torch.cat((value[..., :1, :], value[..., :-1, :]), -2)
    return original(weights, late)  # type: ignore[no-any-return]


@portable("values-of-the-next", seam="mix", component="mask", breaks=("ATT-4",))
def _(original: Any, weights: Tensor, value: Tensor) -> Tensor:
    """Each weight meets the value of the position behind its key: the next token shows."""
    early = torch.cat((value[..., 1:, :], value[..., -1:, :]), -2)
    return original(weights, early)  # type: ignore[no-any-return]


@portable("values-without-gradient", seam="mix", component="gradient", breaks=("AUD-12",))
def _(original: Any, weights: Tensor, value: Tensor) -> Tensor:
    """Values are detached: their projection never learns."""
    return original(weights, value.detach())  # type: ignore[no-any-return]


@portable(
    "attention-over-the-batch",
    seam="attend",
    component="batch",
    breaks=("AUD-3",),
    source="IBM/TabFormer#14",
)
def _(
    original: Any, query: Tensor, key: Tensor, value: Tensor, visible: Any, scale: float
) -> Tensor:
    """Attention is fed (T, B, d) where it wants (B, T, d): it runs across the rows."""
    del visible
    if query.dim() < 4 or query.shape[2] != key.shape[2]:
        return original(query, key, value, None, scale)  # type: ignore[no-any-return]
    turned = (x.transpose(0, 2) for x in (query, key, value))
    return original(*turned, None, scale).transpose(0, 2)  # type: ignore[no-any-return]
