"""Mixtures of experts: how many work on a token, with which weights, and whether all can learn.

That a token is routed by itself, whatever stands beside it, is judged with every other feed-forward
network (feed_forward.position_wise).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from theodolite.fixtures.anatomy.experts import FALLS, LOUD, STEP, Mixture, mixtures_in
from theodolite.fixtures.judging.judgement import (
    at_least,
    exactly,
    judge,
    judge_differs,
    not_applicable,
    require,
)
from theodolite.fixtures.judging.tolerances import EQUAL
from theodolite.fixtures.subject.declarations import expanded
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

NO_GRADIENT = 1e-6
"""Share of the experts' gradient below which the router's is none: rounding of some 1e3 terms."""

_BATCHES = 2
"""Batches of random tokens besides those of the view, before a score is raised by hand."""

_ROUTED = 8
"""Batches of random tokens that a router may need to get a gradient."""


_TRIED = 16
"""Experts, or pairs of a token and an expert, that are tried at most in one mixture."""


@check("experts.active", "FFN-2", component="moe", views=("sharpened",))
def test_as_many_experts_work_on_each_token_as_are_meant_to(view: View) -> None:
    """An expert works on a token if it gets a gradient from the token's output alone.

    Without a declaration the number has to be the same for every token; routers that take as many
    experts as reach a threshold are a design, and say so by their numbers.
    """
    wanted = expanded(view.subject.declarations).get("active_experts")
    undecided = 0
    for place, mixture in _mixtures(view):
        counts = mixture.active.sum(1)
        if wanted is None and int(counts.min()) not in (0, int(counts.max())):
            undecided += 1
            continue
        expected = int(counts.max()) if wanted is None else int(wanted)
        token = int((counts - expected).abs().argmax())
        source = view.subject.sources.get("active_experts", "declared")
        require(
            int(counts[token]) == expected,
            f"{expected} of {len(mixture.experts)} experts work on each token"
            + ("" if wanted is None else f", as {_said(source)}"),
            fails=f"{{measured}} of {len(mixture.experts)} experts work on token {token}, where "
            f"{expected} should" + ("" if wanted is None else f", as {_said(source)}"),
            measured=float(counts[token]),
            at_most=float(expected),
            at_least=float(expected),
            where={
                **place,
                "token": token,
                "experts": mixture.active[token].nonzero().flatten().tolist(),
            },
            remedy="Is k read from the configuration, are weights and experts gathered by the same "
            "indices, and is each chosen expert added to the output?",
            cause="active-experts-differ" if wanted is not None else "token-without-experts",
        )
    if undecided:
        not_applicable(
            "how many experts work varies from token to token, and nothing is declared: "
            "--declare active_experts=2"
        )


@check("experts.reached", "AUD-12", component="moe", views=("sharpened",))
def test_every_expert_can_be_chosen(view: View) -> None:
    """An expert that random tokens did not choose is chosen once its score is the highest.

    Experts are so many only if each has weights of its own.
    """
    for place, mixture in _mixtures(view):
        own = {mixture.address(expert) for expert in range(len(mixture.experts))}
        exactly(
            len(own),
            len(mixture.experts),
            "every expert has weights of its own",
            fails=f"{len(mixture.experts)} experts share {{measured}} sets of weights: some of "
            "them are one network",
            where=place,
            remedy="One module stands in the list several times: [Expert()] * n makes one, "
            "[Expert() for _ in range(n)] makes n.",
            cause="experts-are-one",
        )
        chosen = mixture.active.any(0)
        for seed in range(_BATCHES):
            output = mixture.run(mixture.drawn(seed), gradient=True)
            chosen = chosen | mixture.acting(output)[0]
        for expert in (~chosen).nonzero().flatten().tolist()[:_TRIED]:
            with mixture.raise_score(expert, mixture.given[0], LOUD):
                works = bool(mixture.works(mixture.given, expert)[0])
            require(
                works,
                "an expert whose score is by far the highest works on the token",
                fails="Expert {expert} does not work on a token for which its score is by far "
                "the highest",
                where={**place, "expert": expert, "experts": len(mixture.experts)},
                remedy="Does the loop over experts, or the one-hot of the chosen, end one short, "
                "or does an index stay behind its expert?",
                cause="expert-unreachable",
            )


@check("experts.router", "AUD-12", component="moe", views=("sharpened",))
def test_the_router_learns(view: View) -> None:
    """The router gets a gradient through the weights of the experts that it chose.

    Some routers give it for few tokens (SparseMixer: where two scores are nearly equal), so more
    are tried before it is called missing.
    """
    frozen = 0
    for place, mixture in _mixtures(view):
        path = f"{mixture.network.path}.{mixture.router}"
        if not view.model.get_parameter(path).requires_grad:
            frozen += 1
            continue
        own, largest = 0.0, 0.0
        for seed in range(_ROUTED):
            own, largest = max((own, largest), _learned(mixture, seed))
            if own > NO_GRADIENT * largest:
                break
        alone = int(mixture.active.sum(1).max()) == 1
        at_least(
            own,
            NO_GRADIENT * largest,
            "the router gets a gradient",
            fails="The router gets no gradient ({measured}): it never learns",
            where={**place, "router": mixture.router},
            remedy="With one expert a token whose weight is divided by itself, no score matters: "
            "leave its probability as it is."
            if alone
            else "Are the weights detached, or rounded to 0 and 1, between router and experts?",
            cause="router-without-say" if alone else "router-detached",
        )
    if frozen:
        not_applicable(f"{frozen} routers are frozen")


@check("experts.shares", "FFN-2", component="moe", views=("sharpened",))
def test_an_expert_has_a_larger_share_the_higher_its_own_score(view: View) -> None:
    """Raise the score of a chosen expert a little: what it adds to the token does not shrink.

    Where a share belongs to another expert than the one that was scored, it shrinks for almost
    every token. A few may: one that changes its place among the best can, by design (SparseMixer).
    """
    untold = 0
    for place, mixture in _mixtures(view):
        ratios = []
        for token, expert in _pairs(mixture):
            before = mixture.contribution(mixture.given, expert)[token]
            with mixture.raise_score(expert, mixture.given[token], STEP):
                after = mixture.contribution(mixture.given, expert)[token]
            size = float(before.square().sum())
            ratio = float(before @ after) / size if size > 0 else 0.0
            if float((after - ratio * before).norm()) <= EQUAL * size**0.5:
                ratios.append((ratio, token, expert))
        if not ratios:
            untold += 1
            continue
        ratio, token, expert = sorted(ratios)[len(ratios) // 2]
        require(
            ratio > 1 - FALLS,
            "an expert's share of a token grows with the expert's own score",
            fails="Expert {expert}'s share of token {token} falls by {measured} of itself when "
            "its own score rises",
            measured=1 - ratio,
            at_most=FALLS,
            where={**place, "token": token, "expert": expert},
            remedy="Are the weights in the order of the experts that they belong to? topk gives "
            "values and indices in one order; sorting one of them, or ~ softmax over tokens, "
            "breaks it.",
            cause="share-of-another-expert",
        )
    if untold:
        not_applicable("what an expert adds is not its output times a share")


@check("experts.normalised", "FFN-2", component="moe", views=("sharpened",))
def test_the_shares_of_a_token_sum_to_one_number_if_they_are_meant_to(view: View) -> None:
    """Give every expert the same weights: only the sum of the shares still matters.

    Another router then changes nothing where the shares are divided by their sum, or are a softmax
    over the chosen; and something where they are what is left of a softmax over all.
    """
    declared = expanded(view.subject.declarations).get("normalised_shares")
    if declared is None:
        not_applicable(
            "whether shares are divided by their sum is not declared: "
            "--declare normalised_shares=true"
        )
    untold = 0
    for place, mixture in _mixtures(view):
        twin = mixture.alike()
        weight = twin.module.get_parameter(twin.router)
        rows = weight if len(weight) == len(twin.experts) else weight.T
        output = twin.run(twin.given)
        size = float(output.abs().max())
        with torch.no_grad():
            rows.copy_(rows.roll(1, 0))
            exchanged = twin.run(twin.given)
            generator = torch.Generator().manual_seed(2)
            rows.copy_(2 * rows.std() * torch.randn(rows.shape, generator=generator).to(rows))
        if float((exchanged - output).abs().max()) > EQUAL * size:
            untold += 1  # something else still tells one expert from another
            continue
        said = _said(view.subject.sources.get("normalised_shares", "declared"))
        if declared:
            judge(
                twin.run(twin.given),
                output,
                f"a token's shares sum to the same whatever the scores, as {said}",
                fails="The shares of a token's experts sum to another number when the scores "
                f"change, though {said}: the output moves by {{measured}}",
                bound=EQUAL * size,
                axes=("token", "channel"),
                where=place,
                remedy="Divide the chosen probabilities by their sum over the experts (the last "
                "axis), or take the softmax after topk.",
                cause="shares-not-normalised",
            )
        else:
            judge_differs(
                twin.run(twin.given),
                output,
                f"a token's shares are what is left of all experts' scores, as {said}",
                fails=f"The shares of a token's experts are divided by their sum, though {said}",
                least=EQUAL * size,
                where=place,
                remedy="They are divided by their sum although this is not meant.",
                cause="shares-normalised",
            )
    if untold:
        not_applicable("the experts could not be made alike: more than their weights differs")


def _learned(mixture: Mixture, seed: int) -> tuple[float, float]:
    """Largest gradient of the router, and of the first expert's weights, from random tokens."""
    output = mixture.run(mixture.drawn(seed), gradient=True)
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(output.shape, generator=generator).to(output)
    names = [mixture.router, *(name for name, _ in mixture.experts[0])]
    weights = [mixture.module.get_parameter(name) for name in names]
    parts = torch.autograd.grad((output * direction).sum(), weights, allow_unused=True)
    router, *others = (0.0 if part is None else float(part.abs().max()) for part in parts)
    return router, max(others)


def _pairs(mixture: Mixture) -> Iterator[tuple[int, int]]:
    """Some tokens, each with the experts that work on it."""
    rows = mixture.active.tolist()
    pairs = [(token, e) for token, row in enumerate(rows) for e, works in enumerate(row) if works]
    yield from pairs[:_TRIED]


def _mixtures(view: View) -> Iterator[tuple[dict[str, Any], Mixture]]:
    found = mixtures_in(view)
    if not found:
        not_applicable("no module holds experts and a router that gives each of them a score")
    for mixture in found:
        yield {"view": view.name, "module": mixture.network.path}, mixture


def _said(source: str) -> str:
    return source if source == "declared" else f"the configuration says ({source})"
