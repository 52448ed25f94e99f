"""Faults of the loss, and of the initialisation that decides its first value."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import loss
from theodolite.reference.model import GPT


@mutant(
    "loss-shifts-twice",
    component="loss",
    breaks=("GPT-5",),
    source="huggingface/transformers#47394",
)
def _(patch: Patch) -> None:
    """Targets that the data has shifted are shifted again: the model learns token t + 2."""
    original = loss.token_loss

    def token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
        if targets.shape[-1] < 2:
            return original(logits, targets, ignore_index)
        return original(logits[:, :-1], targets[:, 1:], ignore_index)

    patch.replace(original, token_loss)


@mutant(
    "loss-does-not-shift",
    component="loss",
    breaks=("GPT-5",),
    source="huggingface/transformers#27517",
)
def _(patch: Patch) -> None:
    """Logits are held against the token that they were computed from."""

    def next_token_loss(logits: Tensor, ids: Tensor, ignore_index: int = -100) -> Tensor:
        return loss.token_loss(logits, ids, ignore_index)

    patch.replace(loss.next_token_loss, next_token_loss)


def _replace_loss(patch: Patch, compute: Callable[[Tensor, Tensor, int], Tensor]) -> None:
    def token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
        return compute(logits.flatten(0, -2), targets.flatten(), ignore_index)

    patch.replace(loss.token_loss, token_loss)


@mutant(
    "ignore-index-honoured-nowhere",
    component="loss",
    breaks=("GPT-5",),
    source="lukas-blecher/LaTeX-OCR#305",
)
def _(patch: Patch) -> None:
    """Targets to be ignored count as token 0."""
    _replace_loss(patch, lambda z, y, _: F.cross_entropy(z, y.clamp(min=0)))


@mutant("softmax-before-the-loss", component="loss", breaks=("GPT-5", "GPT-6"))
def _(patch: Patch) -> None:
    """Probabilities are given to a loss that expects logits."""
    _replace_loss(patch, lambda z, y, i: F.cross_entropy(z.softmax(-1), y, ignore_index=i))


def _scale_head(patch: Patch, factor: float) -> None:
    def scale(gpt: GPT) -> None:
        with torch.no_grad():
            gpt.head.weight.mul_(factor)

    patch.after_init(GPT, scale)


@mutant(
    "head-of-unit-variance",
    component="init",
    breaks=("GPT-6",),
    source="huggingface/transformers#26441",
)
def _(patch: Patch) -> None:
    """The head's weights have a standard deviation of 1."""

    def widen(gpt: GPT) -> None:
        with torch.no_grad():
            gpt.head.weight.div_(gpt.head.weight.std())

    patch.after_init(GPT, widen)


@mutant("head-variance-15-percent-high", component="init", breaks=("GPT-6",))
def _(patch: Patch) -> None:
    """The head's weights vary 15 % more than torch's initialisation lets them."""
    _scale_head(patch, math.sqrt(1.15))


@mutant("head-of-zeros", component="init", breaks=("GPT-6",))
def _(patch: Patch) -> None:
    """The head starts at zero: the loss is ln V to the last digit, and no gradient goes through."""
    _scale_head(patch, 0.0)


@mutant("head-reads-the-stream-unnormalised", component="norm", breaks=("GPT-6",))
def _(patch: Patch) -> None:
    """The final norm is left out, and the stream has grown beyond unit RMS."""

    def skip(gpt: GPT) -> None:
        gpt.norm = nn.Identity()

    patch.after_init(GPT, skip)
