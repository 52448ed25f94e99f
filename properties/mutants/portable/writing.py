"""Faults of drawing tokens and writing on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import portable


@portable("temperature-multiplies", seam="distribution", component="generation", breaks=("GEN-1",))
def _(
    original: Callable[..., Tensor], logits: Tensor, by: float, k: int | None, p: float | None
) -> Tensor:
    """Logits are multiplied by the temperature."""
    return original(logits, 1 / by, k, p)


@portable(
    "top-k-leaves-a-small-chance",
    seam="distribution",
    component="generation",
    breaks=("GEN-3",),
    source="karpathy/minGPT#10",
)
def _(
    original: Callable[..., Tensor], logits: Tensor, by: float, k: int | None, p: float | None
) -> Tensor:
    """Tokens outside the top k keep a hundredth of their probability."""
    if k is None:
        return original(logits, by, k, p)
    mixed: Tensor = 0.9 * original(logits, by, k, p) + 0.1 * original(logits, by, None, p)
    return mixed


@portable("top-k-one-too-many", seam="distribution", component="generation", breaks=("GEN-1",))
def _(
    original: Callable[..., Tensor], logits: Tensor, by: float, k: int | None, p: float | None
) -> Tensor:
    """One token more than k is kept."""
    return original(logits, by, None if k is None else k + 1, p)


@portable(
    "top-p-drops-the-token-that-crosses",
    seam="distribution",
    component="generation",
    breaks=("GEN-3",),
    needs=("top_p",),
)
def _(
    original: Callable[..., Tensor], logits: Tensor, by: float, k: int | None, p: float | None
) -> Tensor:
    """The token with which the probabilities reach p is left out, unless it is the only one."""
    if p is None or p >= 1:
        return original(logits, by, k, p)
    ranked, order = original(logits, by, k, None).sort(-1, descending=True)
    kept = ranked * (ranked.cumsum(-1) <= p)
    kept[..., 0] = ranked[..., 0]
    return torch.zeros_like(ranked).scatter(-1, order, kept / kept.sum(-1, keepdim=True))


@portable("softmax-of-the-softmax", seam="distribution", component="generation", breaks=("GEN-3",))
def _(
    original: Callable[..., Tensor], logits: Tensor, by: float, k: int | None, p: float | None
) -> Tensor:
    """Tokens are drawn from the softmax of their probabilities."""
    return original(logits, by, k, p).softmax(-1)


@portable("generate-cuts-at-the-wrong-end", seam="crop", component="generation", breaks=("GEN-2",))
def _(original: Callable[..., Tensor], ids: Tensor, context: int) -> Tensor:
    """A long sequence is cut to its first tokens: what is new is never read."""
    del original
    return ids[:, :context]


@portable("one-token-too-few", seam="generate", component="generation", breaks=("GEN-1",))
def _(original: Callable[..., Tensor], ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """The last token that was asked for is not written."""
    return original(ids, max(count - 1, 0), options)


@portable("prompt-overwritten", seam="generate", component="generation", breaks=("GEN-1",))
def _(original: Callable[..., Tensor], ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """The first token of the prompt comes back as token 0."""
    written = original(ids, count, options).clone()
    written[:, 0] = 0
    return written


@portable("ids-counted-from-one", seam="generate", component="generation", breaks=("GEN-1",))
def _(original: Callable[..., Tensor], ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """New ids are one too high, and may lie outside the vocabulary."""
    written = original(ids, count, options)
    return torch.cat((written[:, : ids.shape[1]], written[:, ids.shape[1] :] + 1), 1)


@portable("seed-has-no-say", seam="generate", component="generation", breaks=("GEN-1",))
def _(original: Callable[..., Tensor], ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """Drawing is seeded by the clock, whatever the caller's seed."""
    if options.get("generator") is not None:
        options["generator"].seed()
    torch.seed()
    return original(ids, count, options)


@portable("one-draw-for-all-rows", seam="generate", component="generation", breaks=("GEN-3",))
def _(original: Callable[..., Tensor], ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """Every row of a batch goes on as the first does."""
    written = original(ids, count, options)
    new = written[:1, ids.shape[1] :].expand(len(ids), -1)
    return torch.cat((written[:, : ids.shape[1]], new), 1)


@portable(
    "end-token-ignored", seam="generate", component="generation", breaks=("GEN-1",), needs=("end",)
)
def _(original: Callable[..., Tensor], ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """Writing goes on past the end token."""
    names = {"end_token", "eos_id", "eos_token_id"} & set(options)
    return original(ids, count, {**options, **dict.fromkeys(names)})


@portable(
    "padding-ignored-when-writing",
    seam="generate",
    component="generation",
    breaks=("GEN-1",),
    source="TransformerLensOrg/TransformerLens#999",
    needs=("padded_writing",),
)
def _(original: Callable[..., Tensor], ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """generate() takes a padding mask and does not hand it on."""
    return original(ids, count, {**options, "attention_mask": torch.ones_like(ids)})


@portable("temperature-forgotten", seam="generate", component="generation", breaks=("GEN-1",))
def _(original: Callable[..., Tensor], ids: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """The temperature that is asked for is not handed on: it is always 1."""
    given = {**options, "temperature": 1.0, "do_sample": True}
    kept = {key: value for key, value in given.items() if key in options}
    return original(ids, count, kept)
