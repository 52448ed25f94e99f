"""GEN-1 on a subject: what generation draws from, with filters and without."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from theodolite.fixtures.errors import Unknown
from theodolite.fixtures.judging.judgement import at_most, none_of, not_applicable, require
from theodolite.fixtures.serving.finding_writer import writer_of
from theodolite.fixtures.serving.writer import Writer
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_DRAWS = 256
_NEVER = 1e-9
"""A token that is missing although so many draws would miss it with this probability is excluded.
Draws are seeded: the verdict is the same every time."""

_KEPT = 4
_DEVIATIONS = 5.2
"""Normal quantile of 1e-7: how far the chi-squared of the draws may be from its mean."""


@pytest.fixture
def writer(view: View) -> Writer:
    """The view's own way of writing on, if it draws."""
    found = writer_of(view.subject)
    if isinstance(found, Unknown):
        not_applicable(found.reason)
    if not found.draws(view):
        not_applicable(f"{found.said} always takes the likeliest token")
    return found


@check("generation.top_k", "GEN-1", component="generation", views=("sharpened",), budget="standard")
def test_top_k_draws_from_the_k_likeliest_tokens_and_all_of_them(
    view: View, writer: Writer
) -> None:
    """Never a token outside, and none inside left out."""
    _require_offer(writer, "top_k")
    probabilities = _probabilities(view, writer)
    _judge_support(view, writer, probabilities, {"top_k": _KEPT}, cause="top-k-support")


@check("generation.top_p", "GEN-1", component="generation", views=("sharpened",), budget="standard")
def test_top_p_keeps_the_token_with_which_the_mass_is_reached(view: View, writer: Writer) -> None:
    """The bound lies in the middle of the last kept token, so that rounding cannot matter."""
    _require_offer(writer, "top_p")
    probabilities = _probabilities(view, writer)
    ranked = probabilities.sort(descending=True).values
    mass = float(ranked[: _KEPT - 1].sum() + ranked[_KEPT - 1] / 2)
    _judge_support(view, writer, probabilities, {"top_p": mass}, cause="top-p-support")


@check("generation.filters", "GEN-1", component="generation", views=("sharpened",))
def test_filters_together_never_leave_nothing(view: View, writer: Writer) -> None:
    """The narrowest of each: the likeliest token remains."""
    offered = {"top_p": 1e-6, "top_k": 2, "temperature": 0.5}
    options = {name: value for name, value in offered.items() if writer.offers(name)}
    if len(options) < 2:
        not_applicable(f"{writer.said} has fewer than two filters")
    if "top_p" not in options:
        options["top_k"] = 1
    drawn = writer.draw(view, _prompt(view), 16, **options)
    likeliest = int(_probabilities(view, writer).argmax())
    require(
        bool((drawn == likeliest).all()),
        "the narrowest filters leave the likeliest token",
        fails="With the narrowest filters, tokens {drawn} are drawn, and not the likeliest, "
        "{likeliest}, alone",
        where={**options, "drawn": sorted(set(drawn.tolist()))[:8], "likeliest": likeliest},
        remedy="does top-p keep the first token whatever its probability?",
        cause="filters-empty",
    )


@check(
    "generation.distribution",
    "GEN-1",
    component="generation",
    views=("sharpened",),
    budget="standard",
)
def test_tokens_are_drawn_from_the_softmax_of_the_last_logits(view: View, writer: Writer) -> None:
    """Chi-squared of the draws; a true sampler exceeds the bound once in ten million audits."""
    probabilities = _probabilities(view, writer)
    drawn = _draw(view, writer, 2 * _DRAWS)
    require(
        int(drawn.max()) < len(probabilities),
        "tokens of the vocabulary are drawn",
        fails="An id outside the vocabulary is drawn",
        where={"drawn": int(drawn.max()), "logits": len(probabilities)},
        remedy="Are ids counted from 1?",
        cause="outside-the-vocabulary",
    )
    counts = drawn.bincount(minlength=len(probabilities)).double()
    expected = 2 * _DRAWS * probabilities[: len(counts)]
    order = expected.argsort(descending=True)
    common = order[expected[order] >= 5]  # a cell below that is not near normal
    rare = torch.ones_like(expected, dtype=torch.bool)
    rare[common] = False
    cells = [(counts[i], expected[i]) for i in common.tolist()]
    if float(expected[rare].sum()) >= 5:
        cells.append((counts[rare].sum(), expected[rare].sum()))
    freedom = len(cells) - 1
    if freedom < 2:
        not_applicable("nearly all probability is on one token")
    measured = float(sum((count - due) ** 2 / due for count, due in cells))
    # Wilson and Hilferty: the cube root of chi-squared over its freedom is nearly normal.
    bound = freedom * (1 - 2 / (9 * freedom) + _DEVIATIONS * math.sqrt(2 / (9 * freedom))) ** 3
    at_most(
        measured,
        bound,
        "tokens are drawn from the softmax of the last logits",
        fails="Tokens are not drawn from the softmax of the last logits: chi-squared of {draws} "
        "draws is {measured}",
        where={"draws": 2 * _DRAWS},
        remedy="is softmax taken over the vocabulary, of logits divided by the temperature, once?",
        cause="wrong-distribution",
    )


def _judge_support(
    view: View, writer: Writer, probabilities: Tensor, options: dict[str, Any], *, cause: str
) -> None:
    ranked = probabilities.argsort(descending=True)
    inside = set(ranked[:_KEPT].tolist())
    drawn = set(_draw(view, writer, _DRAWS, **options).tolist())
    place = {**options, "kept": sorted(inside), "drawn": sorted(drawn)[:12]}
    outside = drawn - inside
    none_of(
        outside,
        f"nothing outside the {_KEPT} likeliest tokens is drawn",
        fails=f"{{measured}} tokens outside the {_KEPT} likeliest are drawn",
        where=place,
        remedy="are excluded logits filled with -inf, and the filter put on before softmax?",
        cause=cause,
    )
    share = probabilities / probabilities[ranked[:_KEPT]].sum()
    missing = [token for token in inside - drawn if (1 - float(share[token])) ** _DRAWS < _NEVER]
    none_of(
        missing,
        f"each of the {_KEPT} likeliest tokens is drawn",
        fails=f"{{measured}} of the {_KEPT} likeliest tokens are never drawn: {{missing}}",
        where={**place, "missing": missing},
        remedy="is the token with which top-p is reached kept, and top-k not one too few?",
        cause=cause,
    )


def _draw(view: View, writer: Writer, count: int, **options: Any) -> Tensor:
    return writer.draw(view, _prompt(view), count, temperature=writer.heat(view), **options)


def _prompt(view: View) -> Tensor:
    return view.random_ids(1, min(3, view.length), seed=2)


def _probabilities(view: View, writer: Writer) -> Tensor:
    """Of the token behind the prompt at the writer's heat, in float64, (V,)."""
    return (view.logits(_prompt(view))[0, -1].double().cpu() / writer.heat(view)).softmax(-1)


def _require_offer(writer: Writer, meaning: str) -> None:
    if not writer.offers(meaning):
        not_applicable(f"{writer.said} takes no {meaning.replace('_', '-')}")
