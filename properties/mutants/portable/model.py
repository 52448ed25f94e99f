"""Faults of a whole model: vocabulary, batch, state, shapes, dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.properties.mutants.registry import portable


def _embedding(model: nn.Module) -> nn.Embedding:
    return next(each for each in model.modules() if isinstance(each, nn.Embedding))


@portable("an-id-written-in-the-code", seam="embed", component="embedding", breaks=("AUD-4",))
def _(original: Callable[..., Tensor], ids: Tensor) -> Tensor:
    """Odd ids are looked up one row too low."""
    return original(ids - ids % 2)


@portable("ids-wrap-around", seam="forward", component="vocabulary", breaks=("GPT-7",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """An id outside the vocabulary is read as one inside it."""
    return original(ids % _embedding(model).num_embeddings)


@portable("embedding-of-the-next-token", seam="embed", component="embedding", breaks=("ATT-4",))
def _(original: Callable[..., Tensor], ids: Tensor) -> Tensor:
    """A tenth of the next token's vector is added to each token's own."""
    x: Tensor = original(ids)
    return x + 0.1 * x.roll(-1, -2)


@portable(
    "embedding-without-gradient",
    seam="embed",
    component="gradient",
    breaks=("AUD-12",),
    needs=("untied",),
)
def _(original: Callable[..., Tensor], ids: Tensor) -> Tensor:
    """Token vectors are detached: they never learn."""
    return original(ids).detach()


@portable("logits-overflow", seam="head", component="shape", breaks=("GPT-7",))
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Logits are multiplied until they are infinite."""
    return original(x) * 1e30 * 1e30


@portable("position-counted-over-the-batch", seam="head", component="batch", breaks=("AUD-3",))
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Logits of a row are scaled by its place in the batch: their order matters."""
    rows = torch.arange(len(x), dtype=x.dtype)
    return original(x) * (1 + 0.01 * rows[:, None, None])


@portable("logits-centred-over-the-batch", seam="head", component="batch", breaks=("AUD-3",))
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """The mean over the rows is taken from the logits."""
    logits: Tensor = original(x)
    return logits - logits.mean(0, keepdim=True)


@portable("last-position-from-the-length", seam="head", component="shape", breaks=("AUD-11",))
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """A single token is squeezed away, and its logits come without their axis of time."""
    return original(x).squeeze(1)


@portable(
    "logits-fade-with-position",
    seam="head",
    component="position",
    breaks=("AUD-1",),
    needs=("cache",),  # where positions are learned and nothing else counts them, it is a design
)
def _(original: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Logits fade with the position: a thousandth less at each."""
    fading = 1 - 0.001 * torch.arange(x.shape[-2], dtype=x.dtype)[:, None]
    return original(x * fading)


@portable("ids-modified-in-place", seam="forward", component="state", breaks=("AUD-9",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """The ids that a caller gives are overwritten."""
    del model
    result = original(ids.clone())
    ids[:, 0] = 0
    return result


@portable("embedding-modified-in-place", seam="forward", component="state", breaks=("AUD-9",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """Every forward shrinks the embedding a little."""
    if not torch.is_grad_enabled():
        _embedding(model).weight.data.mul_(0.999)
    return original(ids)


@portable("a-forward-remembers", seam="forward", component="state", breaks=("GPT-8",))
def _(original: Any, model: Any, ids: Tensor) -> Any:
    """The second call of a model reads its first token as another one."""
    calls = model.__dict__.setdefault("calls_so_far", [0])
    calls[0] += 1
    return original(torch.cat(((ids[:, :1] + calls[0]) % 7, ids[:, 1:]), 1))


@portable("training-mode-switched-on", seam="forward", component="state", breaks=("AUD-9",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """A forward leaves the model in training mode."""
    result = original(ids)
    model.train()
    return result


@portable("ids-read-as-they-lie", seam="forward", component="shape", breaks=("AUD-11",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """Ids are read from memory in storage order, whatever their strides."""
    del model
    return original(ids.as_strided(ids.shape, (ids.shape[1], 1)))


@portable("one-length-only", seam="forward", component="shape", breaks=("AUD-11",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """The model runs at lengths of 5 and 16 alone."""
    del model
    if ids.shape[1] not in (5, 16):
        raise ValueError("give 5 or 16 tokens")
    return original(ids)


@portable("rows-after-the-first-repeat-it", seam="forward", component="batch", breaks=("AUD-3",))
def _(original: Any, model: nn.Module, ids: Tensor) -> Any:
    """Every row of a batch is answered as if it were the first."""
    del model
    return original(ids[:1].expand_as(ids).contiguous())


@portable(
    "dropout-in-evaluation",
    seam="dropout",
    component="dropout",
    breaks=("GPT-8",),
    source="meta-pytorch/torchtune#1791",
    needs=("dropout",),
)
def _(original: Callable[..., Tensor], x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout knows no evaluation mode."""
    del training
    return original(x, p, True)
