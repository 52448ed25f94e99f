"""GEN-1, GEN-2 and GEN-4 on a subject: its own generate writes what its own forward says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from theodolite.fixtures.errors import SubjectError, Unknown
from theodolite.fixtures.judging.judgement import judge, not_applicable, require
from theodolite.fixtures.serving.finding_writer import writer_of
from theodolite.fixtures.serving.writer import Writer
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_PROMPT, _NEW = 5, 6

_PROMPTS = 8
"""How many prompts are tried for one that is not written on by one token over and over, or for two
that are written on alike."""


@dataclass(frozen=True)
class Writing:
    """A subject's writer in one view."""

    view: View
    writer: Writer

    def new_tokens(self, ids: Tensor, count: int, **options: Any) -> Tensor:
        """The tokens written behind ids (B, T), (B, at most count)."""
        written = self.writer.write(self.view, ids, count, **options)
        return written[:, ids.shape[1] :] if self.writer.whole else written

    def gaps(self, ids: Tensor, new: Tensor) -> Tensor:
        """How far each new token's logit is below the largest, (B, n); 0 for the likeliest."""
        whole = torch.cat([ids, new.to(ids.device)], dim=1)[:, :-1]
        logits = self.view.logits(whole)[:, ids.shape[1] - 1 :].double().cpu()
        chosen = logits.gather(-1, new.cpu()[..., None])[..., 0]
        return logits.amax(-1) - chosen


@pytest.fixture
def writing(view: View) -> Writing:
    """The view's own way of writing on."""
    writer = writer_of(view.subject)
    if isinstance(writer, Unknown):
        not_applicable(writer.reason)
    if (view.subject.longest or 99) < _PROMPT + _NEW:
        not_applicable(f"the model takes no more than {view.subject.longest} tokens")
    return Writing(view, writer)


@check("generation.prompt", "GEN-1", component="generation", views=("sharpened",))
def test_the_prompt_is_kept_and_new_tokens_are_of_the_vocabulary(writing: Writing) -> None:
    """As many tokens as were asked for, behind an untouched prompt, all of them known ids."""
    ids = writing.view.random_ids(2, _PROMPT)
    kept = ids.clone()
    written = writing.writer.write(writing.view, ids, _NEW).cpu()
    place = {"method": writing.writer.said}
    require(
        torch.equal(ids, kept),
        "generation does not change the ids that it is given",
        fails="Generation changes the ids that it is given",
        where=place,
        remedy="are ids written to in place? Concatenate instead.",
        cause="prompt-changed",
    )
    whole = writing.writer.whole
    if whole:
        judge(
            written[:, :_PROMPT],
            kept,
            "the prompt stands at the beginning of what is returned",
            fails="What is returned does not begin with the prompt: token {position} of row "
            "{row} is another one",
            axes=("row", "position"),
            where=place,
            remedy="is the prompt cut to the context, or returned in another order?",
            cause="prompt-changed",
        )
    require(
        written.shape[1] == _NEW + (_PROMPT if whole else 0),
        f"{_NEW} new tokens are written where {_NEW} are asked for",
        fails=f"{{measured}} new tokens are written where {_NEW} are asked for",
        measured=float(written.shape[1] - (_PROMPT if whole else 0)),
        at_most=float(_NEW),
        at_least=float(_NEW),
        where=place,
        remedy="does the loop run once too often or too seldom, or count the prompt?",
        cause="wrong-length",
    )
    require(
        bool(((written >= 0) & (written < writing.view.subject.vocabulary)).all()),
        "new tokens are ids of the vocabulary",
        fails="Id {measured} is written, which is not in the vocabulary",
        measured=float(written.max()),
        at_most=float(writing.view.subject.vocabulary - 1),
        where=place,
        remedy="is the head wider than the vocabulary, and its excess never masked?",
        cause="outside-vocabulary",
    )


@check("generation.reproducible", "GEN-1", component="generation", views=("sharpened",))
def test_the_same_seed_writes_the_same_tokens(writing: Writing) -> None:
    """Twice on one model: nothing is left over from the first time."""
    ids = writing.view.random_ids(2, _PROMPT)
    judge(
        writing.new_tokens(ids, _NEW, seed=3),
        writing.new_tokens(ids, _NEW, seed=3),
        "the same seed writes the same tokens",
        fails="The same seed writes other tokens the second time, from new token {step} on",
        axes=("row", "step"),
        where={"method": writing.writer.said},
        remedy="is a cache left over from the call before, or another source of randomness used "
        "than torch's, or than the generator that is passed?",
        cause="not-reproducible",
    )


@check("generation.greedy", "GEN-1", component="generation", views=("sharpened",))
def test_greedy_generation_takes_the_likeliest_token_of_the_forward(writing: Writing) -> None:
    """At every step, also behind one token; with and without a cache where that can be chosen."""
    ways = writing.writer.greedy(writing.view)
    if not ways:
        not_applicable(f"{writing.writer.said} cannot be told to take the likeliest token")
    if writing.writer.offers("use_cache"):
        ways = [{**ways[0], "use_cache": use} for use in (True, False)] + ways[1:]
    for way in ways:
        for length in (_PROMPT, 1):
            ids = writing.view.random_ids(2, length, seed=length)
            try:
                new = writing.new_tokens(ids, _NEW, **way)
            except SubjectError:
                if length == 1:
                    continue  # a prompt of one token is refused
                raise
            if new.shape[1] == 0:
                not_applicable(f"{writing.writer.said} wrote nothing")
            judge(
                writing.gaps(ids, new),
                0.0,
                "greedy generation takes the likeliest token of the forward",
                fails="Greedy generation takes a token whose logit is {measured} below the "
                "largest of the forward (row {row}, new token {step})",
                bound=2 * writing.view.relation_bound,
                axes=("row", "step"),
                where={"prompt": length, **way},
                remedy="are the logits of the last position used, with the mask, the cache and the "
                "positions of the forward?",
                cause="not-the-forward",
            )


@check("generation.temperature", "GEN-1", component="generation", views=("sharpened",))
def test_a_temperature_near_zero_takes_the_likeliest_token(writing: Writing) -> None:
    """Wherever the second token is further behind than chance can bridge."""
    if not writing.writer.offers("temperature") or not writing.writer.draws(writing.view):
        not_applicable(f"{writing.writer.said} takes no temperature")
    temperature = 1e-3 * writing.view.spread
    ids = writing.view.random_ids(4, _PROMPT)
    new = writing.new_tokens(ids, _NEW, temperature=temperature)
    # e⁻⁴⁰: never, for any vocabulary
    judge(
        writing.gaps(ids, new),
        0.0,
        "a temperature near 0 takes the likeliest token",
        fails="At a temperature near 0, a token is taken whose logit is {measured} below the "
        "largest",
        bound=2 * writing.view.relation_bound + 40 * temperature,
        axes=("row", "step"),
        where={"temperature": round(temperature, 6)},
        remedy="are logits divided by the temperature, before every filter and softmax?",
        cause="temperature",
    )


@check("generation.context", "GEN-2", component="generation", views=("sharpened",))
def test_only_the_last_tokens_of_a_long_prompt_are_read(writing: Writing) -> None:
    """Tokens before the context change nothing, if the forward takes no more; the last ones do."""
    view, limit = writing.view, writing.view.subject.longest
    options: dict[str, Any] = {}
    context, cuts = limit or 0, True
    if writing.writer.offers("context"):
        options, context = {"context": 6}, 6
    elif not limit or limit > 512 or not _writes_on(writing, limit):
        not_applicable(f"{writing.writer.said} takes no context, and no prompt beyond one")
    else:
        cuts = _refuses(view, limit)
    ids = view.random_ids(3, context + 4)
    older, newest = ids.clone(), ids.clone()
    older[:, :4] = view.subject.other_ids(ids[:, :4])
    newest[:, context:] = view.subject.other_ids(ids[:, context:])
    first = writing.new_tokens(ids, _NEW, **options)
    if cuts:
        judge(
            writing.new_tokens(older, _NEW, **options),
            first,
            f"tokens before the last {context} change nothing",
            fails=f"Tokens before the last {context} change what is written, from new token "
            f"{{step}} on",
            axes=("row", "step"),
            where={"context": context},
            remedy="is the prompt cut to its last tokens, and a cache cut along?",
            cause="context-not-cut",
        )
    differ = not torch.equal(writing.new_tokens(newest, _NEW, **options), first)
    for seed in range(1, _PROMPTS):  # two prompts may be written on alike, by chance or by rote
        if differ:
            break
        ids = view.random_ids(3, context + 4, seed=seed)
        newest = torch.cat([ids[:, :context], view.subject.other_ids(ids[:, context:])], dim=1)
        one, other = (writing.new_tokens(x, _NEW, seed=seed, **options) for x in (ids, newest))
        differ = not torch.equal(one, other)
    require(
        differ,
        f"the last of more than {context} tokens are read",
        fails=f"The last of more than {context} tokens do not change what is written: they are "
        "not read",
        where={"context": context},
        remedy="is the prompt cut from the wrong end?",
        cause="context-not-read",
    )


@check("generation.end", "GEN-1", component="generation", views=("sharpened",))
def test_nothing_is_written_behind_the_end_token(writing: Writing) -> None:
    """A token that greedy generation writes is declared the end: what follows it is filling."""
    ways = writing.writer.greedy(writing.view)
    if not ways or not writing.writer.offers("end"):
        not_applicable(f"{writing.writer.said} takes no end token, or always draws")
    for seed in range(_PROMPTS):
        ids = writing.view.random_ids(1, _PROMPT, seed=seed)
        free = writing.new_tokens(ids, _NEW, **ways[0])[0].tolist()
        stop = _last_before_another(free)
        if stop is not None:
            break
    else:
        not_applicable(f"of {_PROMPTS} prompts each is written on by one token over and over")
    end = free[stop]
    new = writing.new_tokens(ids, _NEW, **ways[0], end=end)[0].tolist()
    place = {"end": end, "free": free, "written": new}
    require(
        new[:stop] == free[:stop],
        "up to the end token the same tokens are written",
        fails="With an end token, other tokens are written before it: {written} instead of {free}",
        where=place,
        remedy="is the end token excluded, or the loop left too early?",
        cause="end-too-early",
    )
    behind = new[stop + 1 :]
    require(
        all(token in (end, 0) for token in behind) and (stop >= len(new) or new[stop] in (end, 0)),
        "behind the end token nothing but filling is written",
        fails="Writing goes on behind the end token {end}: {written}",
        where=place,
        remedy="is the end token compared with what was just written, for every row?",
        cause="end-ignored",
    )


def _last_before_another(tokens: list[int]) -> int | None:
    """Where the last token stands that comes there first and has others but filling behind it."""
    return max(
        (
            place
            for place, token in enumerate(tokens)
            if token not in tokens[:place] and not {token, 0}.issuperset(tokens[place:])
        ),
        default=None,
    )


def _writes_on(writing: Writing, limit: int) -> bool:
    """Whether a prompt longer than the limit is written on."""
    try:
        writing.writer.write(writing.view, writing.view.random_ids(1, limit + 4), 1)
    except SubjectError:
        return False
    return True


def _refuses(view: View, limit: int) -> bool:
    """Whether the forward takes no more than the limit."""
    try:
        view.logits(view.random_ids(1, limit + 4))
    except SubjectError:
        return True
    return False
