"""Faults of generation and of drawing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference import generation
from theodolite.reference.model import GPT

Window = Callable[[Tensor, int], Tensor]


def _change_written(patch: Patch, change: Callable[[Tensor, Tensor, int | None], Tensor]) -> None:
    """Change what generation returns, given that, the prompt and the context."""
    original = generation.generate

    def generate(gpt: GPT, ids: Tensor, new_tokens: int, **options: Any) -> Tensor:
        written = original(gpt, ids, new_tokens, **options)
        return change(written, ids, options.get("context"))

    patch.replace(original, generate)


def _read(patch: Patch, window: Window, position: int = -1) -> None:
    """Generate without a cache, the model reading ``window(ids, context)`` at each step."""

    def generate(
        gpt: GPT,
        ids: Tensor,
        new_tokens: int,
        *,
        context: int | None = None,
        generator: torch.Generator | None = None,
        **_: Any,
    ) -> Tensor:
        context = context or gpt.config.context or 2**30
        with torch.no_grad():
            for _step in range(new_tokens):
                logits = gpt(window(ids, context))[:, position]
                ids = torch.cat((ids, generation.sample(logits, generator=generator)), dim=1)
        return ids

    patch.replace(generation.generate, generate)


@mutant("prompt-left-out", component="generation", breaks=("GEN-1",))
def _(patch: Patch) -> None:
    """Only the new tokens are returned."""
    _change_written(patch, lambda written, ids, _: written[:, ids.shape[1] :])


@mutant("prompt-cut-to-the-context", component="generation", breaks=("GEN-1",))
def _(patch: Patch) -> None:
    """What is returned is cut to the context together with what is read."""

    def cut(written: Tensor, ids: Tensor, context: int | None) -> Tensor:
        outside = max(0, ids.shape[1] - (context or ids.shape[1]))
        return written[:, outside:]

    _change_written(patch, cut)


@mutant("generator-not-handed-on", component="generation", breaks=("GEN-1",))
def _(patch: Patch) -> None:
    """Draws come from torch's own generator, whatever the caller gives."""
    original = generation.sample

    def sample(logits: Tensor, **options: Any) -> Tensor:
        return original(logits, **(options | {"generator": None}))

    patch.replace(original, sample)


@mutant("context-never-cut", component="generation", breaks=("GEN-2",))
def _(patch: Patch) -> None:
    """The model reads everything that there is."""
    _read(patch, lambda ids, _: ids)


@mutant("context-cut-at-the-wrong-end", component="generation", breaks=("GEN-2",))
def _(patch: Patch) -> None:
    """The model reads the first ctx tokens instead of the last."""
    _read(patch, lambda ids, context: ids[:, :context])


@mutant("context-one-token-long", component="generation", breaks=("GEN-2",))
def _(patch: Patch) -> None:
    """The model reads one token more than the context."""
    _read(patch, lambda ids, context: ids[:, -context - 1 :])


@mutant("context-one-token-short", component="generation", breaks=("GEN-2",))
def _(patch: Patch) -> None:
    """The model reads one token less than the context, but never none."""
    _read(patch, lambda ids, context: ids[:, -max(1, context - 1) :])


@mutant("drawn-at-the-first-position", component="generation", breaks=("GEN-3",))
def _(patch: Patch) -> None:
    """The distribution is that of the first position read."""
    _read(patch, lambda ids, context: ids[:, -context:], position=0)


def _change_distribution(patch: Patch, change: Callable[[Tensor], Tensor]) -> None:
    """Change the logits before anything else is done with them."""
    original = generation.distribution

    def distribution(logits: Tensor, **options: Any) -> Tensor:
        return original(change(logits), **options)

    patch.replace(original, distribution)


@mutant("generator-started-anew-at-each-step", component="generation", breaks=("GEN-3",))
def _(patch: Patch) -> None:
    """Every step draws with the same random numbers."""
    original = generation.sample

    def sample(logits: Tensor, **options: Any) -> Tensor:
        generator = options.get("generator")
        before = None if generator is None else generator.get_state()
        token = original(logits, **options)
        if generator is not None and before is not None:
            generator.set_state(before)
        return token

    patch.replace(original, sample)


@mutant(
    "drawn-by-gumbel-noise",
    component="generation",
    breaks=("GEN-1", "GEN-3"),
    equivalent="The largest of log p plus Gumbel noise is distributed as p (Gumbel 1954).",
)
def _(patch: Patch) -> None:
    """A token is the largest of log-probabilities with Gumbel noise added."""

    def sample(
        logits: Tensor, *, generator: torch.Generator | None = None, **options: Any
    ) -> Tensor:
        if options.get("temperature") == 0:
            return logits.argmax(dim=-1, keepdim=True)
        probabilities = generation.distribution(logits, **options)
        uniform = torch.rand(probabilities.shape, generator=generator, dtype=torch.float64)
        noise = -(-uniform.log()).log()
        return (probabilities.log() + noise).argmax(dim=-1, keepdim=True)

    patch.replace(generation.sample, sample)


@mutant("temperature-ten-percent-high", component="generation", breaks=("GEN-3",))
def _(patch: Patch) -> None:
    """Logits are divided by 1.1 times the temperature."""
    _change_distribution(patch, lambda logits: logits / 1.1)


@mutant("always-the-likeliest", component="generation", breaks=("GEN-3",))
def _(patch: Patch) -> None:
    """The likeliest token is taken instead of a draw."""
    patch.replace(generation.sample, lambda logits, **_: logits.argmax(dim=-1, keepdim=True))
