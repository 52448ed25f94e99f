"""Faults of a whole model: vocabulary, batch, state, shapes, dropout."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from theodolite.properties.mutants.places import (
    Dropout,
    Embed,
    Forward,
    Part,
    dropout,
    embed,
    forward,
    head,
)


def _embedding(model: nn.Module) -> nn.Embedding:
    return next(each for each in model.modules() if isinstance(each, nn.Embedding))


@embed("an-id-written-in-the-code", "AUD-4", "vocabulary.relabelling")
def _(own: Embed) -> Tensor:
    """Odd ids are looked up one row too low."""
    return own(ids=own.ids - own.ids % 2)


@forward("ids-wrap-around", "GPT-7", "vocabulary.range", component="vocabulary")
def _(own: Forward) -> Any:
    """An id outside the vocabulary is read as one inside it."""
    return own(ids=own.ids % _embedding(own.model).num_embeddings)


@embed("embedding-of-the-next-token", "ATT-4", "causality.shapes")
def _(own: Embed) -> Tensor:
    """A tenth of the next token's vector is added to each token's own."""
    x: Tensor = own()
    return x + 0.1 * x.roll(-1, -2)


@embed(
    "embedding-without-gradient",
    "AUD-12",
    "gradient.every_parameter",
    component="gradient",
    needs="untied",
)
def _(own: Embed) -> Tensor:
    """Token vectors are detached: they never learn."""
    return own().detach()


@head("logits-overflow", "GPT-7", "logits.finite", component="shape")
def _(own: Part) -> Tensor:
    """Logits are multiplied until they are infinite."""
    return own() * 1e30 * 1e30


@head("position-counted-over-the-batch", "AUD-3", "batch.order")
def _(own: Part) -> Tensor:
    """Logits of a row are scaled by its place in the batch: their order matters."""
    rows = torch.arange(len(own.x), dtype=own.x.dtype)
    return own() * (1 + 0.01 * rows[:, None, None])


@head("logits-centred-over-the-batch", "AUD-3", "batch.independence")
def _(own: Part) -> Tensor:
    """The mean over the rows is taken from the logits."""
    logits: Tensor = own()
    return logits - logits.mean(0, keepdim=True)


@head(
    "last-position-from-the-length", "AUD-11", "length.shortest causality.prefix", component="shape"
)
def _(own: Part) -> Tensor:
    """A single token is squeezed away, and its logits come without their axis of time."""
    return own().squeeze(1)


@head(
    "logits-fade-with-position",
    "AUD-1",
    "positions.constant_sequence packing.documents",
    component="position",
    needs="cache",  # where positions are learned and nothing else counts them, it is a design
)
def _(own: Part) -> Tensor:
    """Logits fade with the position: a thousandth less at each."""
    fading = 1 - 0.001 * torch.arange(own.x.shape[-2], dtype=own.x.dtype)[:, None]
    return own(x=own.x * fading)


@forward("ids-modified-in-place", "AUD-9", "state.untouched")
def _(own: Forward) -> Any:
    """The ids that a caller gives are overwritten."""
    result = own(ids=own.ids.clone())
    own.ids[:, 0] = 0
    return result


@forward("embedding-modified-in-place", "AUD-9", "state.repeat")
def _(own: Forward) -> Any:
    """Every forward shrinks the embedding a little."""
    if not torch.is_grad_enabled():
        _embedding(own.model).weight.data.mul_(0.999)
    return own()


@forward("a-forward-remembers", "GPT-8", "state.repeat")
def _(own: Forward) -> Any:
    """The second call of a model reads its first token as another one."""
    calls = own.model.__dict__.setdefault("calls_so_far", [0])
    calls[0] += 1
    return own(ids=torch.cat(((own.ids[:, :1] + calls[0]) % 7, own.ids[:, 1:]), 1))


@forward("training-mode-switched-on", "AUD-9", "state.untouched")
def _(own: Forward) -> Any:
    """A forward leaves the model in training mode."""
    result = own()
    own.model.train()
    return result


@forward("ids-read-as-they-lie", "AUD-11", "shape.layout", component="shape")
def _(own: Forward) -> Any:
    """Ids are read from memory in storage order, whatever their strides."""
    return own(ids=own.ids.as_strided(own.ids.shape, (own.ids.shape[1], 1)))


@forward("one-length-only", "AUD-11", "shape.runs", component="shape")
def _(own: Forward) -> Any:
    """The model runs at lengths of 5 and 16 alone."""
    if own.ids.shape[1] not in (5, 16):
        raise ValueError("give 5 or 16 tokens")
    return own()


@forward("rows-after-the-first-repeat-it", "AUD-3", "batch.order", component="batch")
def _(own: Forward) -> Any:
    """Every row of a batch is answered as if it were the first."""
    return own(ids=own.ids[:1].expand_as(own.ids).contiguous())


@dropout(
    "dropout-in-evaluation",
    "GPT-8",
    "state.repeat",
    needs="dropout",
    source="meta-pytorch/torchtune#1791",
)
def _(own: Dropout) -> Tensor:
    """Dropout knows no evaluation mode."""
    return own(training=True)


@head("probabilities-for-logits", "GPT-7", "logits.unnormalised", component="softmax")
def _(own: Part) -> Tensor:
    """The softmax of the logits is returned."""
    return own().softmax(-1)


@forward("calls-counted-in-the-environment", "AUD-9", "state.process")
def _(own: Forward) -> Any:
    """Every forward writes into an environment variable."""
    os.environ["FORWARDS"] = f"{int(os.environ.get('FORWARDS', '0')) + 1}"
    return own()


@forward("seeded-in-every-forward", "AUD-9", "state.seed")
def _(own: Forward) -> Any:
    """Every forward seeds the generator of the process."""
    torch.manual_seed(0)
    return own()


@forward("every-input-kept", "AUD-9", "state.growth")
def _(own: Forward) -> Any:
    """A model keeps the ids of every call in a list that nobody empties."""
    own.model.__dict__.setdefault("seen_so_far", []).append(own.ids)
    return own()
