"""Faults of drawing tokens and writing on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from theodolite.properties.mutants.places import (
    Crop,
    Distribution,
    Generate,
    crop,
    distribution,
    generate,
)
from theodolite.properties.mutants.registry import Patch, mutant, source
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


@mutant("prompt-left-out", "GEN-1", component="generation")
def _(patch: Patch) -> None:
    """Only the new tokens are returned."""
    _change_written(patch, lambda written, ids, _: written[:, ids.shape[1] :])


@mutant("prompt-cut-to-the-context", "GEN-1", component="generation")
def _(patch: Patch) -> None:
    """What is returned is cut to the context together with what is read."""

    def cut(written: Tensor, ids: Tensor, context: int | None) -> Tensor:
        outside = max(0, ids.shape[1] - (context or ids.shape[1]))
        return written[:, outside:]

    _change_written(patch, cut)


@mutant("generator-not-handed-on", "GEN-1", component="generation")
def _(patch: Patch) -> None:
    """Draws come from torch's own generator, whatever the caller gives."""
    original = generation.sample

    def sample(logits: Tensor, **options: Any) -> Tensor:
        return original(logits, **(options | {"generator": None}))

    patch.replace(original, sample)


@mutant("context-never-cut", "GEN-2", component="generation")
def _(patch: Patch) -> None:
    """The model reads everything that there is."""
    _read(patch, lambda ids, _: ids)


@mutant("context-cut-at-the-wrong-end", "GEN-2", component="generation")
def _(patch: Patch) -> None:
    """The model reads the first ctx tokens instead of the last."""
    _read(patch, lambda ids, context: ids[:, :context])


@mutant("context-one-token-long", "GEN-2", component="generation")
def _(patch: Patch) -> None:
    """The model reads one token more than the context."""
    _read(patch, lambda ids, context: ids[:, -context - 1 :])


@mutant("context-one-token-short", "GEN-2", component="generation")
def _(patch: Patch) -> None:
    """The model reads one token less than the context, but never none."""
    _read(patch, lambda ids, context: ids[:, -max(1, context - 1) :])


@mutant("drawn-at-the-first-position", "GEN-3", component="generation")
def _(patch: Patch) -> None:
    """The distribution is that of the first position read."""
    _read(patch, lambda ids, context: ids[:, -context:], position=0)


def _change_distribution(patch: Patch, change: Callable[[Tensor], Tensor]) -> None:
    """Change the logits before anything else is done with them."""
    original = generation.distribution

    def distribution(logits: Tensor, **options: Any) -> Tensor:
        return original(change(logits), **options)

    patch.replace(original, distribution)


@mutant("generator-started-anew-at-each-step", "GEN-3", component="generation")
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
    "GEN-1 GEN-3",
    component="generation",
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


@mutant("temperature-ten-percent-high", "GEN-3", component="generation")
def _(patch: Patch) -> None:
    """Logits are divided by 1.1 times the temperature."""
    _change_distribution(patch, lambda logits: logits / 1.1)


@mutant("always-the-likeliest", "GEN-3", component="generation")
def _(patch: Patch) -> None:
    """The likeliest token is taken instead of a draw."""
    patch.replace(generation.sample, lambda logits, **_: logits.argmax(dim=-1, keepdim=True))


# -- in every host that has the seam ---------------------------------------------------------------


@distribution("temperature-multiplies", "GEN-1", "generation.temperature")
def _(own: Distribution) -> Tensor:
    """Logits are multiplied by the temperature."""
    return own(by=1 / own.by)


@distribution(
    "top-k-leaves-a-small-chance", "GEN-3", "generation.top_k", source="karpathy/minGPT#10"
)
def _(own: Distribution) -> Tensor:
    """Tokens outside the top k keep a hundredth of their probability."""
    if own.k is None:
        return own()
    return 0.9 * own() + 0.1 * own(k=None)


@distribution("filter-computed-and-dropped", "GEN-3", "generation.top_k")
def _(own: Distribution) -> Tensor:
    """The largest k logits are found, and tokens drawn from all of them."""
    return own(k=None)


@distribution("top-k-one-too-many", "GEN-1", "generation.greedy")
def _(own: Distribution) -> Tensor:
    """One token more than k is kept."""
    return own(k=None if own.k is None else own.k + 1)


@distribution("top-p-drops-the-token-that-crosses", "GEN-3", "generation.top_p", needs="top_p")
def _(own: Distribution) -> Tensor:
    """The token with which the probabilities reach p is left out, unless it is the only one."""
    if own.p is None or own.p >= 1:
        return own()
    ranked, order = own(p=None).sort(-1, descending=True)
    kept = ranked * (ranked.cumsum(-1) <= own.p)
    kept[..., 0] = ranked[..., 0]
    return torch.zeros_like(ranked).scatter(-1, order, kept / kept.sum(-1, keepdim=True))


@distribution("softmax-of-the-softmax", "GEN-3", "generation.filters")
def _(own: Distribution) -> Tensor:
    """Tokens are drawn from the softmax of their probabilities."""
    return own().softmax(-1)


@crop("generate-cuts-at-the-wrong-end", "GEN-2", "generation.context")
def _(own: Crop) -> Tensor:
    """A long sequence is cut to its first tokens: what is new is never read."""
    return own.ids[:, : own.context]


@generate("one-token-too-few", "GEN-1", "generation.prompt")
def _(own: Generate) -> Tensor:
    """The last token that was asked for is not written."""
    return own(count=max(own.count - 1, 0))


@generate("prompt-overwritten", "GEN-1", "generation.prompt")
def _(own: Generate) -> Tensor:
    """The first token of the prompt comes back as token 0."""
    written = own().clone()
    written[:, 0] = 0
    return written


@generate("ids-counted-from-one", "GEN-1", "generation.filters")
def _(own: Generate) -> Tensor:
    """New ids are one too high, and may lie outside the vocabulary."""
    written = own()
    return torch.cat((written[:, : own.ids.shape[1]], written[:, own.ids.shape[1] :] + 1), 1)


@generate("seed-has-no-say", "GEN-1", "generation.reproducible")
def _(own: Generate) -> Tensor:
    """Drawing is seeded by the clock, whatever the caller's seed."""
    if own.options.get("generator") is not None:
        own.options["generator"].seed()
    torch.seed()
    return own()


@generate("one-draw-for-all-rows", "GEN-3", "generation.distribution")
def _(own: Generate) -> Tensor:
    """Every row of a batch goes on as the first does."""
    written = own()
    new = written[:1, own.ids.shape[1] :].expand(len(own.ids), -1)
    return torch.cat((written[:, : own.ids.shape[1]], new), 1)


@generate("end-token-ignored", "GEN-1", "generation.end", needs="end")
def _(own: Generate) -> Tensor:
    """Writing goes on past the end token."""
    names = {"end_token", "eos_id", "eos_token_id"} & set(own.options)
    return own(options={**own.options, **dict.fromkeys(names)})


@generate(
    "padding-ignored-when-writing",
    "GEN-1",
    "generation.padded",
    needs="padded_writing",
    source="TransformerLensOrg/TransformerLens#999",
)
def _(own: Generate) -> Tensor:
    """generate() takes a padding mask and does not hand it on."""
    return own(options={**own.options, "attention_mask": torch.ones_like(own.ids)})


@generate("temperature-forgotten", "GEN-1", "generation.temperature")
def _(own: Generate) -> Tensor:
    """The temperature that is asked for is not handed on: it is always 1."""
    given = {**own.options, "temperature": 1.0, "do_sample": True}
    kept = {key: value for key, value in given.items() if key in own.options}
    return own(options=kept)


# -- in the text of hosts ---------------------------------------------------------------


source("padding-inverted-when-writing", "GEN-1 AUD-5", "generation.padded", component="generation",
    says="generate() hands its padding mask on inverted.")  # fmt: skip
source("padding-declared-on-the-other-side", "GEN-1 AUD-5", "generation.padded",
    component="generation",
    says="generate() is declared to take rows that are padded on the right, and "
         "reads the last column.")  # fmt: skip
source("prompt-without-its-first-token", "GEN-1", "generation.greedy", component="generation",
    says="What is written comes back without the first token of the prompt.")  # fmt: skip
source("next-token-read-one-place-early", "GEN-1", "generation.temperature", component="generation",
    says="The next token is drawn from the last logits but one.")  # fmt: skip
