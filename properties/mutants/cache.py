"""Faults of the cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.places import Extend, Pair, extend
from theodolite.properties.mutants.registry import Patch, mutant, source
from theodolite.reference import generation
from theodolite.reference.model import GPT


@mutant("cache-kept-past-the-context", "GEN-2 GEN-4", component="cache")
def _(patch: Patch) -> None:
    """The cache goes on growing when the context is full, so old tokens are still read."""

    def generate(
        gpt: GPT,
        ids: Tensor,
        new_tokens: int,
        *,
        context: int | None = None,
        generator: torch.Generator | None = None,
        use_cache: bool = False,
        **_: Any,
    ) -> Tensor:
        if not use_cache:
            return original(gpt, ids, new_tokens, context=context, generator=generator)
        cache, unread = gpt.new_cache(), ids if context is None else ids[:, -context:]
        with torch.no_grad():
            for _step in range(new_tokens):
                logits = gpt(unread, cache=cache)[:, -1]
                unread = generation.sample(logits, generator=generator)
                ids = torch.cat((ids, unread), dim=1)
        return ids

    original = generation.generate
    patch.replace(original, generate)


# -- in every host that has the seam ---------------------------------------------------------------


@extend(
    "new-keys-before-old",
    "GEN-4",
    "cache.chunks window.cache",
    source="lucidrains/x-transformers#219",
)
def _(own: Extend) -> Pair:
    """What is new is put in front of what is kept."""
    if own.past_key is None or own.past_value is None:
        return own()
    return torch.cat((own.key, own.past_key), -2), torch.cat((own.value, own.past_value), -2)


@extend("cache-overwrites-an-old-token", "AUD-6", "cache.chunks")
def _(own: Extend) -> Pair:
    """The ninth-newest token behind a cache is overwritten by the one after it."""
    key, value = own()
    if own.past_key is None or key.shape[-2] <= 8:
        return key, value
    key, value = (key.clone(), value.clone())
    key[..., -9, :], value[..., -9, :] = (key[..., -8, :], value[..., -8, :])
    return key, value


@extend("cache-in-half-precision", "GEN-4", "cache.long")
def _(own: Extend) -> Pair:
    """Kept keys and values are rounded to bfloat16."""
    if own.past_key is None or own.past_value is None:
        return own()
    kept = (each.bfloat16().to(own.key.dtype) for each in (own.past_key, own.past_value))
    return own.original(*kept, own.key, own.value)


@extend("cached-values-moved-on", "GEN-4", "cache.long", often="grouped")
def _(own: Extend) -> Pair:
    """Kept values lie one place further than their keys."""
    if own.past_key is None or own.past_value is None:
        return own()
    return own(past_value=own.past_value.roll(1, -2))


@extend("cache-of-the-first-row-for-all", "AUD-6", "cache.long")
def _(own: Extend) -> Pair:
    """Every row of a batch reads on from what the first row has read."""
    if own.past_key is None or own.past_value is None:
        return own()
    kept = (each[:1].expand_as(each) for each in (own.past_key, own.past_value))
    return own.original(*kept, own.key, own.value)


@extend("cache-keeps-its-first-values", "GEN-4", "cache.long")
def _(own: Extend) -> Pair:
    """New values are written over by the newest that was kept; new keys are kept."""
    if own.past_key is None or own.past_value is None:
        return own()
    return own(value=own.past_value[..., -1:, :].expand_as(own.value))


# -- in the text of hosts ---------------------------------------------------------------


source("cache-not-reset", "AUD-6 GEN-4", "cache.steps", component="cache",
    says="Resetting the cache leaves in it what was read before.")  # fmt: skip
source("positions-counted-by-what-is-kept", "AUD-6", "window.cache", component="position",
    says="Behind a rolling cache positions are counted by the keys that are left "
         "in it.")  # fmt: skip
source("cached-keys-turned-again", "AUD-6 GEN-4", "cache.steps", component="rope",
    says="Keys are cached as they are, and turned by where they lie at every step, "
         "but those of the prompt were turned before.")  # fmt: skip
source("another-base-behind-a-cache", "AUD-6 GEN-4", "cache.steps", component="rope",
    says="Tokens behind a cache are turned by another base than the prompt.")  # fmt: skip
source("cache-ignored", "AUD-6 GEN-4", "cache.steps", component="cache",
    says="The cache is taken and not read.")  # fmt: skip
