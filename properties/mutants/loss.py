"""Faults of the loss, and of the initialisation that decides its first value."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from theodolite.properties.mutants.places import Loss, loss
from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference import loss as reference_loss
from theodolite.reference.model import GPT


@mutant("loss-does-not-shift", "GPT-5", component="loss", source="huggingface/transformers#27517")
def _(patch: Patch) -> None:
    """Logits are held against the token that they were computed from."""

    def next_token_loss(logits: Tensor, ids: Tensor, ignore_index: int = -100) -> Tensor:
        return reference_loss.token_loss(logits, ids, ignore_index)

    patch.replace(reference_loss.next_token_loss, next_token_loss)


def _replace_loss(patch: Patch, compute: Callable[[Tensor, Tensor, int], Tensor]) -> None:
    def token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
        return compute(logits.flatten(0, -2), targets.flatten(), ignore_index)

    patch.replace(reference_loss.token_loss, token_loss)


def _scale_head(patch: Patch, factor: float) -> None:
    def scale(gpt: GPT) -> None:
        with torch.no_grad():
            gpt.head.weight.mul_(factor)

    patch.after_init(GPT, scale)


@mutant("head-variance-15-percent-high", "GPT-6", component="init")
def _(patch: Patch) -> None:
    """The head's weights vary 15 % more than torch's initialisation lets them."""
    _scale_head(patch, math.sqrt(1.15))


@mutant("head-of-zeros", "GPT-6", component="init")
def _(patch: Patch) -> None:
    """The head starts at zero: the loss is ln V to the last digit, and no gradient goes through."""
    _scale_head(patch, 0.0)


# -- in every host that has the seam ---------------------------------------------------------------


@loss("loss-shifted-twice", "GPT-5", "loss.own_logits", source="huggingface/transformers#47394")
def _(own: Loss) -> Tensor:
    """The loss shifts what was shifted already: logits learn the token after the next."""
    return own(logits=own.logits[:, :-1], targets=own.targets[:, 1:])


@loss(
    "loss-does-not-shift-in-the-model",
    "AUD-10",
    "loss.own_logits",
    needs="shift",
    source="huggingface/transformers#27517",
)
def _(own: Loss) -> Tensor:
    """Logits are held against the token that they have just read."""
    return own(logits=own.logits[:, 1:], targets=own.targets[:, :-1])


@loss("ignored-targets-count", "GPT-5", "loss.ignored", source="lukas-blecher/LaTeX-OCR#305")
def _(own: Loss) -> Tensor:
    """Targets that should not count are learnt as token 0."""
    return own(targets=own.targets.clamp_min(0))


@loss("loss-mean-over-rows", "AUD-10", "loss.ignored")
def _(own: Loss) -> Tensor:
    """Each row counts alike, however many of its targets count."""
    if own.logits.dim() != 3:
        return own()
    rows = [
        own(logits=row[None], targets=wanted[None])
        for row, wanted in zip(own.logits, own.targets, strict=True)
    ]
    return torch.stack(rows).mean()


@loss("loss-summed", "GPT-5", "loss.ignored loss.own_logits")
def _(own: Loss) -> Tensor:
    """The loss is the sum over the tokens, not their mean."""
    return own() * (own.targets != -100).sum()


@loss("ignored-tokens-in-the-denominator", "GPT-5", "loss.ignored")
def _(own: Loss) -> Tensor:
    """The sum is divided by the number of all tokens, those that do not count included."""
    return own() * (own.targets != -100).float().mean()


@loss("loss-in-bits", "GPT-5 GPT-6", "loss.own_logits")
def _(own: Loss) -> Tensor:
    """The logarithm is to base two."""
    return own() / 0.6931471805599453


@loss("loss-with-smoothed-labels", "GPT-5", "loss.ignored loss.count")
def _(own: Loss) -> Tensor:
    """A tenth of each target is spread over the vocabulary."""
    flat = own.logits.flatten(0, -2)
    return F.cross_entropy(flat, own.targets.flatten(), ignore_index=-100, label_smoothing=0.1)


@loss("loss-of-probabilities", "GPT-5 GPT-6", "loss.own_logits")
def _(own: Loss) -> Tensor:
    """Softmax is taken before the cross-entropy, which takes it again."""
    return own(logits=own.logits.softmax(-1))


# -- in the text of hosts ---------------------------------------------------------------


source("ids-declared-as-next-tokens", "GPT-5 AUD-10", "loss.own_logits", component="loss",
    says="The loss is declared to take targets that are shifted already, and "
         "shifts them.")  # fmt: skip
source("another-ignored-target-declared", "GPT-5 AUD-10", "loss.ignored", component="loss",
    says="Token 0 is declared not to count as a target, and counts.")  # fmt: skip
source("loss-looks-back", "GPT-5 AUD-10", "loss.own_logits", component="loss",
    says="Logits are held against the token before the one that they have read.")  # fmt: skip
source("token-count-ignored", "AUD-10", "loss.count", component="loss",
    says="The number of tokens that a loss of several batches is divided by is "
         "taken and not used.")  # fmt: skip
source("loss-mean-of-means", "AUD-10", "loss.accumulation", component="loss",
    says="Losses of batches are weighed by their size, not by the number of "
         "targets that count.")  # fmt: skip
