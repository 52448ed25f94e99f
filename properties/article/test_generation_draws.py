"""GEN-3: tokens are drawn from the softmax at the last position; tested by their counts.

Pearson's statistic, Σ (counted - expected)² / expected over K cells, follows the chi-squared
distribution with K - 1 degrees of freedom where no expected count is small. The unlikeliest cells
are pooled until they expect 25 together, and draws are refused below a chance of 1e-10: so far out
the distribution is only nearly chi-squared, and two decades to spare keep the false alarm of all
examples here together well below one in a million.
"""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import at_most, judge, require
from theodolite.fixtures.oracles.reference_stream import random_ids, small_config, small_gpt
from theodolite.fixtures.oracles.strategies import drawn, normal, seeds
from theodolite.properties import claim
from theodolite.reference import GPT, generation

FEWEST = 25
CHANCE = 1e-10
ROWS = 12_000


def _pooled(counts: Tensor, probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """Counted and expected in each cell, unlikely cells taken together until they expect enough."""
    order = probabilities.argsort()
    expected = (probabilities * counts.sum())[order]
    together = max(1, int((expected.cumsum(0) < FEWEST).sum()) + 1)
    cells = [
        torch.cat([values[:together].sum()[None], values[together:]])
        for values in (counts[order].double(), expected)
    ]
    return cells[0], cells[1]


def _chance(statistic: float, freedom: int) -> float:
    """Chance that chi-squared with `freedom` degrees exceeds `statistic`."""
    if freedom == 0:
        return 1.0
    half = torch.tensor([freedom / 2, max(statistic, 0.0) / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def _judge_draws(
    counts: Tensor, probabilities: Tensor, says: str, where: dict[str, object]
) -> None:
    """Hold counts against the probabilities they should have been drawn from."""
    impossible = int(counts[probabilities == 0].sum())
    judge(impossible, 0, f"{says}: nothing of probability 0 is drawn", where=where)
    counted, expected = _pooled(counts, probabilities)
    statistic = float(((counted - expected).square() / expected).sum())
    chance = _chance(statistic, len(counted) - 1)
    require(
        chance >= CHANCE,
        f"{says} (the chance of counts as far off as these)",
        measured=chance,
        at_least=CHANCE,
        where=where | {"statistic": round(statistic, 1), "cells": len(counted)},
        remedy="softmax over the vocabulary, of the last position, one draw a row and step",
    )


def _require_power(logits: Tensor, draws: int, factor: float) -> None:
    """Logits divided by `factor` would be refused, five standard deviations of the test over.

    Their statistic is chi-squared off its centre by n·Σ (q - p)²/p: mean k + nc, variance
    2(k + 2nc).
    """
    p, q = logits.softmax(-1), (logits / factor).softmax(-1)
    _, cells = _pooled(draws * p, p)
    off_centre = draws * float(((q - p).square() / p).sum())
    freedom = len(cells) - 1
    low = freedom + off_centre - 5 * math.sqrt(2 * (freedom + 2 * off_centre))
    chance = _chance(low, freedom)
    at_most(
        chance,
        CHANCE,
        f"the test is sharp enough to refuse a temperature that is {factor - 1:.0%} too high",
    )


@claim("GEN-3")
@drawn(
    max_examples=8,
    vocabulary=st.sampled_from([11, 2, 40]),
    temperature=st.sampled_from([1.0, 0.5, 2.0]),
    seed=seeds(),
)
def test_a_token_is_drawn_with_its_softmax_probability(
    vocabulary: int, temperature: float, seed: int
) -> None:
    """A hundred thousand draws from the same logits, which the temperature divides."""
    draws = 100_000
    logits = temperature * torch.linspace(-1.5, 1.5, vocabulary, dtype=torch.float64)
    logits = logits[torch.randperm(vocabulary, generator=torch.Generator().manual_seed(seed))]
    drawn_ids = generation.sample(
        logits.expand(draws, -1),
        temperature=temperature,
        generator=torch.Generator().manual_seed(seed),
    )
    _judge_draws(
        drawn_ids.flatten().bincount(minlength=vocabulary),
        (logits / temperature).softmax(-1),
        "tokens are drawn from the softmax of the logits",
        {"vocabulary": vocabulary, "temperature": temperature},
    )
    _require_power(logits / temperature, draws, 1.1)


@claim("GEN-3")
@drawn(max_examples=4, use_cache=st.booleans(), seed=seeds())
def test_two_generated_tokens_are_drawn_one_after_the_other(use_cache: bool, seed: int) -> None:
    """Twelve thousand rows of one prompt: pairs come as p(first)·p(second | first), both exact.

    The pair tells also whether rows and steps are drawn independently of each other.
    """
    model = _opinionated(seed)
    vocabulary = model.config.vocabulary
    prompt = random_ids(model.config, 1, 4, seed)
    with torch.no_grad():
        first = model(prompt)[0, -1].double().softmax(-1)
        followed = torch.cat([prompt.expand(vocabulary, -1), torch.arange(vocabulary)[:, None]], 1)
        second = model(followed)[:, -1].double().softmax(-1)  # (first, second)
    written = generation.generate(
        model,
        prompt.expand(ROWS, -1),
        2,
        generator=torch.Generator().manual_seed(seed),
        use_cache=use_cache,
    )
    pairs = written[:, -2] * vocabulary + written[:, -1]
    _judge_draws(
        pairs.bincount(minlength=vocabulary**2),
        (first[:, None] * second).flatten(),
        "tokens are drawn from the softmax at the last position, step by step",
        {"cache": use_cache},
    )


@claim("GEN-3")
@drawn(
    max_examples=10, top_k=st.sampled_from([1, 3]), top_p=st.sampled_from([None, 0.6]), seed=seeds()
)
def test_what_top_k_and_top_p_leave_out_is_never_drawn(
    top_k: int, top_p: float | None, seed: int
) -> None:
    """And what they keep is drawn in its proportions."""
    logits = normal(11, seed=seed)
    order = logits.argsort(descending=True)
    kept = order[:top_k]
    expected = torch.zeros(11, dtype=torch.float64)
    expected[kept] = logits[kept].softmax(-1)
    if top_p is not None:
        before = expected[kept].cumsum(0) - expected[kept]
        expected[kept[before >= top_p]] = 0
        expected = expected / expected.sum()
    found = generation.sample(
        logits.expand(ROWS, -1),
        top_k=top_k,
        top_p=top_p,
        generator=torch.Generator().manual_seed(seed),
    )
    _judge_draws(
        found.flatten().bincount(minlength=11),
        expected,
        "draws keep to the k likeliest tokens, and among them to the fewest that reach p",
        {"top_k": top_k, "top_p": top_p},
    )


def _opinionated(seed: int) -> GPT:
    """A small model whose logits spread by about 1.5, as a trained one's do."""
    model = small_gpt(small_config(layers=2), seed, dtype=torch.float32)
    with torch.no_grad():
        model.head.weight.mul_(2.5)
    return model
