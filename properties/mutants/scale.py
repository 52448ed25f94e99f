"""Faults of scores, of their scale, and of the values that weights meet."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.places import (
    Attend,
    Mix,
    Scale,
    Scores,
    attend,
    mix,
    scale,
    scores,
)
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


@mutant("scale-fixed-at-width-64", "SCL-2 SCL-5", component="scale")
def _(patch: Patch) -> None:
    """Scores are divided by 8, right for heads of width 64 only."""
    _scale_by(patch, lambda _: 1 / 8)


@mutant("product-misses-an-eighth", "SCL-1", component="scale")
def _(patch: Patch) -> None:
    """The last eighth of the channels is left out of every product."""
    plain = attention.attention_scores

    def scores(query: Tensor, key: Tensor, *, scale: float | None = None, **options: Any) -> Tensor:
        scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        used = query.shape[-1] - query.shape[-1] // 8
        return plain(query[..., :used], key[..., :used], scale=scale, **options)

    patch.replace(plain, scores)


@mutant("softmax-to-base-two", "SCL-3", component="softmax")
def _(patch: Patch) -> None:
    """Softmax raises 2, not e, to the scores."""
    plain = attention.attention_weights
    patch.replace(plain, lambda scores, visible=None: plain(scores * math.log(2), visible))


@mutant("scores-standardised", "SCL-3 SCL-6", component="softmax")
def _(patch: Patch) -> None:
    """Each row of scores is brought to unit variance before softmax, which takes its scale away."""
    plain = attention.attention_weights

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        spread = scores.std(dim=-1, keepdim=True, unbiased=False).clamp(min=1e-9)
        return plain(scores / spread, visible)

    patch.replace(plain, weights)


@mutant("softmax-cooled", "SCL-4", component="softmax")
def _(patch: Patch) -> None:
    """Softmax divides its scores by 1.5: a temperature nobody asked for."""
    plain = attention.attention_weights
    patch.replace(plain, lambda scores, visible=None: plain(scores / 1.5, visible))


@mutant("softmax-without-maximum", "SCL-6 ATT-6", component="softmax")
def _(patch: Patch) -> None:
    """The exponential is taken of the scores as they are, and overflows for large ones."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        powers = scores.exp()
        return powers / powers.sum(dim=-1, keepdim=True)

    patch.replace(attention.attention_weights, weights)


@mutant("softmax-with-a-sink", "SCL-6", component="softmax")
def _(patch: Patch) -> None:
    """The sum under the fraction line counts one more score, of 0."""

    def weights(scores: Tensor, visible: Tensor | None = None) -> Tensor:
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        nothing = torch.zeros_like(scores[..., :1])
        return torch.cat([scores, nothing], dim=-1).softmax(dim=-1)[..., :-1]

    patch.replace(attention.attention_weights, weights)


# -- in every host that has the seam ---------------------------------------------------------------


@scores(
    "one-head-takes-its-neighbours-keys",
    "MHA-2",
    "inside.weights_follow_scores",
    component="heads",
    often="reference",
)
def _(own: Scores) -> Tensor:
    """Half of the first head's keys are those of the last: its scores follow no one's q·k."""
    found: Tensor = own()
    if found.dim() < 4 or found.shape[1] < 2:
        return found
    half = found[:, :1] * 0.5 + found[:, -1:] * 0.5
    return torch.cat([half, found[:, 1:]], 1)


@scores(
    "scores-swallowed-by-a-bias", "AUD-8", "precision.autocast precision.native", component="dtype"
)
def _(own: Scores) -> Tensor:
    """A million is added to every score and taken away again: float32 keeps steps of 1/16."""
    return own() + 1e6 - 1e6


@scores("scores-without-gradient", "AUD-12", "gradient.slope", component="gradient")
def _(own: Scores) -> Tensor:
    """Scores are detached: queries and keys never learn."""
    return own().detach()


@scale(
    "no-scale",
    "SCL-2 SCL-4 SCL-5",
    "inside.scale",
    source="PAIR-code/tiny-transformers#71",
    often="reference llama",
)
def _(_own: Scale) -> float:
    """Scores are not divided by the root of the head width."""
    return 1.0


@scale("scale-by-width-not-its-root", "SCL-2 SCL-4 SCL-5", "inside.scale", often="reference")
def _(own: Scale) -> float:
    """Scores are divided by the head width itself."""
    return 1 / own.query.shape[-1]


@scale(
    "scale-by-model-width",
    "SCL-5",
    "inside.scale",
    source="FareedKhan-dev/train-llm-from-scratch#3",
)
def _(own: Scale) -> float:
    """Scores are divided by the root of the whole width, all heads together."""
    heads = own.query.shape[1] if own.query.dim() > 3 else 4
    return float(own()) / math.sqrt(heads)


@scale("scores-times-root-d", "SCL-5", "inside.scale", often="reference")
def _(own: Scale) -> float:
    """Scores are multiplied by the root of the head width where they should be divided."""
    return math.sqrt(own.query.shape[-1])


@scale("scale-fifteen-percent-off", "SCL-2 SCL-5", "inside.scale")
def _(own: Scale) -> float:
    """Scores are 15 % too large."""
    return float(own()) * 1.15


@scale("scale-by-the-length", "AUD-2", "inside.scale")
def _(own: Scale) -> float:
    """Scores are divided by the root of the number of queries."""
    return 1 / math.sqrt(own.query.shape[-2])


@mix("values-of-the-next", "ATT-4", "length.longest", component="heads")
def _(own: Mix) -> Tensor:
    """Each weight meets the value of the position behind its key: the next token shows."""
    early = torch.cat((own.value[..., 1:, :], own.value[..., -1:, :]), -2)
    return own(value=early)


@mix("values-without-gradient", "AUD-12", "gradient.slope", component="gradient")
def _(own: Mix) -> Tensor:
    """Values are detached: their projection never learns."""
    return own(value=own.value.detach())


@attend(
    "attention-over-the-batch",
    "AUD-3",
    "batch.independence",
    component="batch",
    source="IBM/TabFormer#14",
)
def _(own: Attend) -> Tensor:
    """Attention is fed (T, B, d) where it wants (B, T, d): it runs across the rows."""
    if own.query.dim() < 4 or own.query.shape[2] != own.key.shape[2]:
        return own(visible=None)
    turned = (x.transpose(0, 2) for x in (own.query, own.key, own.value))
    return own.original(*turned, None, own.scale).transpose(0, 2)


@attend("fused-dropout-in-evaluation", "ATT-7 AUD-9", "state.repeat", component="dropout")
def _(own: Attend) -> Tensor:
    """The fused operator is told its dropout in evaluation too."""
    return F.scaled_dot_product_attention(
        own.query, own.key, own.value, attn_mask=own.visible, scale=own.scale, dropout_p=0.2
    )


@mix("means-on-top-of-a-buffer", "ATT-7", "inside.output_is_the_mean")
def _(own: Mix) -> Tensor:
    """The means are added to what stands in the buffer that they are written to."""
    buffer = own.value.new_full(
        (len(own.value) * own.value.shape[1], own.weights.shape[-2], own.value.shape[-1]), 0.3
    )
    means = torch.baddbmm(buffer, own.weights.flatten(0, 1), own.value.flatten(0, 1))
    return means.view(*own.weights.shape[:-1], own.value.shape[-1])
