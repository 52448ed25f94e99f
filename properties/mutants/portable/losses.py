"""Faults of the loss that a model returns."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.registry import portable


@portable(
    "loss-shifted-twice",
    seam="loss",
    component="loss",
    breaks=("AUD-10",),
    source="huggingface/transformers#47394",
)
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """The loss shifts what was shifted already: logits learn the token after the next."""
    return original(logits[:, :-1], targets[:, 1:])


@portable(
    "loss-does-not-shift-in-the-model",
    seam="loss",
    component="loss",
    breaks=("AUD-10",),
    source="huggingface/transformers#27517",
    needs=("shift",),
)
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """Logits are held against the token that they have just read."""
    return original(logits[:, 1:], targets[:, :-1])


@portable(
    "ignored-targets-count",
    seam="loss",
    component="loss",
    breaks=("GPT-5",),
    source="lukas-blecher/LaTeX-OCR#305",
)
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """Targets that should not count are learnt as token 0."""
    return original(logits, targets.clamp_min(0))


@portable("loss-mean-over-rows", seam="loss", component="loss", breaks=("AUD-10",))
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """Each row counts alike, however many of its targets count."""
    if logits.dim() != 3:
        return original(logits, targets)
    rows = [original(row[None], wanted[None]) for row, wanted in zip(logits, targets, strict=True)]
    return torch.stack(rows).mean()


@portable("loss-summed", seam="loss", component="loss", breaks=("GPT-5",))
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """The loss is the sum over the tokens, not their mean."""
    return original(logits, targets) * (targets != -100).sum()


@portable("ignored-tokens-in-the-denominator", seam="loss", component="loss", breaks=("GPT-5",))
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """The sum is divided by the number of all tokens, those that do not count included."""
    return original(logits, targets) * (targets != -100).float().mean()


@portable("loss-in-bits", seam="loss", component="loss", breaks=("GPT-5", "GPT-6"))
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """The logarithm is to base two."""
    return original(logits, targets) / 0.6931471805599453


@portable("loss-with-smoothed-labels", seam="loss", component="loss", breaks=("GPT-5",))
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """A tenth of each target is spread over the vocabulary."""
    del original
    flat = logits.flatten(0, -2)
    return F.cross_entropy(flat, targets.flatten(), ignore_index=-100, label_smoothing=0.1)


@portable("loss-of-probabilities", seam="loss", component="loss", breaks=("GPT-5", "GPT-6"))
def _(original: Callable[..., Tensor], logits: Tensor, targets: Tensor) -> Tensor:
    """Softmax is taken before the cross-entropy, which takes it again."""
    return original(logits.softmax(-1), targets)
