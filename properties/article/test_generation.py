"""GEN: writing on: what is kept, what is read, and what decides (claims GEN-1 and GEN-2)."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from theodolite.fixtures.judging.judgement import judge, judge_differs, require
from theodolite.fixtures.oracles.reference_stream import (
    Written,
    random_ids,
    record_generation,
    small_config,
    small_gpt,
    styles,
)
from theodolite.fixtures.oracles.strategies import drawn, seeds
from theodolite.properties import claim
from theodolite.reference import generation

NOISE = 256 * 2.0**-53
"""Of a small model in float64, relative to its largest logit: some hundreds of roundings."""


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@claim("GEN-1")
@drawn(
    max_examples=30,
    style=styles(),
    batch=st.sampled_from([2, 1]),
    length=st.sampled_from([3, 1, 9]),
    count=st.sampled_from([4, 0, 1, 8]),
    context=st.sampled_from([None, 5]),
    use_cache=st.booleans(),
    seed=seeds(),
)
def test_new_tokens_follow_an_untouched_prompt(
    style: str,
    batch: int,
    length: int,
    count: int,
    context: int | None,
    use_cache: bool,
    seed: int,
) -> None:
    """As many as were asked for, each an id of the vocabulary."""
    shape = small_config(style)
    prompt = random_ids(shape, batch, length, seed)
    kept = prompt.clone()
    written = generation.generate(
        small_gpt(shape, seed),
        prompt,
        count,
        context=context,
        generator=_seeded(seed),
        use_cache=use_cache,
    )
    where = {"style": style, "prompt": length, "new": count, "context": context}
    require(
        tuple(written.shape) == (batch, length + count),
        "generation returns the prompt and the tokens asked for",
        where=where | {"shape": tuple(written.shape)},
    )
    for what, ids in (("what is returned", written[:, :length]), ("what was given", prompt)):
        judge(
            ids, kept, f"the prompt is untouched in {what}", axes=("row", "position"), where=where
        )
    require(
        bool(((written >= 0) & (written < shape.vocabulary)).all()),
        "every generated id lies in the vocabulary",
        where=where | {"largest": int(written.max())},
    )


@claim("GEN-1")
@drawn(max_examples=10, style=styles(), use_cache=st.booleans(), seed=seeds())
def test_the_same_generator_writes_the_same_tokens(style: str, use_cache: bool, seed: int) -> None:
    """And another writes others: forty draws from about thirteen tokens do not agree by chance.

    The chance that two independent runs do is below (1/4)^40, even if one token had half of the
    probability. Torch's own generator is left alone.
    """
    shape = small_config(style)
    model, prompt = small_gpt(shape, seed), random_ids(shape, 2, 3, seed)
    before = torch.get_rng_state()
    one, again, other = (
        generation.generate(model, prompt, 20, generator=_seeded(each), use_cache=use_cache)
        for each in (seed, seed, seed + 1)
    )
    judge(
        again,
        one,
        "one seed of the generator writes one text",
        axes=("row", "position"),
        remedy="is the generator handed on to every draw?",
    )
    judge_differs(other, one, "another seed writes another text")
    judge(torch.get_rng_state(), before, "with a generator given, torch's own is left alone")


@claim("GEN-2")
@drawn(
    max_examples=20,
    style=styles(),
    context=st.sampled_from([4, 1, 7]),
    older=st.sampled_from([3, 1]),
    use_cache=st.booleans(),
    seed=seeds(),
)
def test_tokens_before_the_context_change_nothing(
    style: str, context: int, older: int, use_cache: bool, seed: int
) -> None:
    """The logits of every step are the same, exactly, whatever stands before the context.

    The control: the oldest token inside it is read, so it changes the logits.
    """
    shape = small_config(style)
    model = small_gpt(shape, seed)
    prompt = random_ids(shape, 2, older + context, seed)

    def after_changing(place: slice | int) -> Written:
        changed = prompt.clone()
        changed[:, place] = (changed[:, place] + 5) % shape.vocabulary
        return record_generation(
            model, changed, 5, context=context, generator=_seeded(seed), use_cache=use_cache
        )

    _, expected, longest = after_changing(slice(0, 0))
    where = {"style": style, "context": context, "cache": use_cache}
    _, found, _ = after_changing(slice(0, older))
    judge(
        found,
        expected,
        "tokens before the last ctx change no logit",
        axes=("step", "row", "token"),
        where=where,
        remedy="cut to ids[:, -ctx:] before every step, and drop a cache that has read more",
    )
    judge(longest, context, "the model reads the last ctx tokens", where=where)
    _, found, _ = after_changing(older)
    judge_differs(
        found[0],
        expected[0],
        "the oldest token of the context is read",
        least=1e-9,
        where=where,
        remedy="the cut should keep ctx tokens, not fewer",
    )


@claim("GEN-2")
@drawn(
    max_examples=20,
    style=styles(),
    length=st.sampled_from([2, 1, 9]),
    context=st.sampled_from([4, 1, 7]),
    use_cache=st.booleans(),
    seed=seeds(),
)
def test_each_step_reads_the_last_tokens_and_no_others(
    style: str, length: int, context: int, use_cache: bool, seed: int
) -> None:
    """While the context fills up and when it moves on: a forward over ids[:, -ctx:] alone."""
    shape = small_config(style)
    model, prompt = small_gpt(shape, seed), random_ids(shape, 2, length, seed)
    written, found, _ = record_generation(
        model, prompt, 8, context=context, generator=_seeded(seed), use_cache=use_cache
    )
    with torch.no_grad():
        expected = torch.stack(
            [
                model(written[:, max(0, end - context) : end])[:, -1]
                for end in range(length, length + 8)
            ]
        )
    judge(
        found,
        expected,
        "every step's logits are those of the last ctx tokens alone",
        bound=NOISE * float(expected.abs().max()),
        axes=("step", "row", "token"),
        where={"style": style, "prompt": length, "context": context, "cache": use_cache},
        remedy="a cache that has read tokens now outside the context has to go",
    )
