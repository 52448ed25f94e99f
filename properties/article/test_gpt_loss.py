"""GPT: the loss by hand, and what it is before anything has been learned."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import at_most, judge, require
from theodolite.fixtures.oracles.reference_stream import random_ids, small_config, small_gpt, styles
from theodolite.fixtures.oracles.strategies import drawn, normal, seeds
from theodolite.properties import claim
from theodolite.reference import config, loss

IGNORED = -100
PRINTED_FIRST_LOSS = 4.495
MODELS = 32
VOCABULARY = 74


def _by_hand(logits: Tensor, targets: Tensor) -> float:
    """Mean of log Σ exp(z) - z[target] over the targets that count, one number at a time."""
    terms = []
    flat = zip(
        logits.reshape(-1, logits.shape[-1]).tolist(), targets.flatten().tolist(), strict=True
    )
    for row, target in flat:
        if target != IGNORED:
            highest = max(row)
            total = math.fsum(math.exp(value - highest) for value in row)
            terms.append(highest + math.log(total) - row[target])
    return math.fsum(terms) / len(terms)


def _bound(logits: Tensor) -> float:
    """Float64: V roundings in the sum of exponentials, a few more of the largest logit."""
    return (logits.shape[-1] + 16) * 2.0**-53 * (1 + float(logits.abs().max()))


@claim("GPT-5")
@drawn(
    max_examples=30,
    batch=st.sampled_from([2, 1, 3]),
    length=st.sampled_from([5, 1, 7]),
    scale=st.sampled_from([1.0, 0.0, 1000.0]),
    ignored=st.sampled_from([0.0, 0.4]),
    seed=seeds(),
)
def test_loss_is_the_mean_negative_log_probability(
    batch: int, length: int, scale: float, ignored: float, seed: int
) -> None:
    """Equal logits give ln V, huge ones stay finite, and what is ignored has no share."""
    logits = normal(batch, length, 11, seed=seed) * scale
    targets = random_ids(small_config(vocabulary=11), batch, length, seed)
    dropped = normal(batch, length, seed=seed + 1).abs() < ignored
    dropped[0, 0] = False
    targets = targets.masked_fill(dropped, IGNORED)
    judge(
        loss.token_loss(logits, targets),
        _by_hand(logits, targets),
        "the loss is the mean of -log p(target) over the tokens that count",
        bound=_bound(logits),
        where={"scale": scale, "ignored": int(dropped.sum())},
        remedy="natural logarithm, mean over counted tokens, logits (not probabilities) in",
    )


@claim("GPT-5")
@drawn(max_examples=20, batch=st.sampled_from([2, 1]), length=st.sampled_from([5, 2]), seed=seeds())
def test_targets_are_the_inputs_shifted_once(batch: int, length: int, seed: int) -> None:
    """Logits at t are held against the token at t + 1, and the last logits against nothing."""
    logits = normal(batch, length, 11, seed=seed)
    ids = random_ids(small_config(vocabulary=11), batch, length, seed)
    judge(
        loss.next_token_loss(logits, ids),
        _by_hand(logits[:, :-1], ids[:, 1:]),
        "the next-token loss shifts once",
        bound=_bound(logits),
        remedy="shift either the targets in the data or the logits in the loss, not both",
    )
    certain = torch.nn.functional.one_hot(ids.roll(-1, dims=1), 11).double() * 50
    judge(
        loss.next_token_loss(certain, ids),
        0.0,
        "who is certain of every next token has no loss",
        bound=11 * math.exp(-50),
        remedy="an unshifted target rewards copying the visible token",
    )


@claim("GPT-5")
@drawn(max_examples=15, style=styles(), seed=seeds())
def test_the_model_returns_the_loss_of_its_own_logits(style: str, seed: int) -> None:
    """Given targets, already shifted, it shifts no further and changes no logit."""
    shape = small_config(style)
    gpt = small_gpt(shape, seed)
    ids = random_ids(shape, 2, 8, seed)
    with torch.no_grad():
        alone = gpt(ids[:, :-1])
        logits, found = gpt(ids[:, :-1], ids[:, 1:])
    judge(logits, alone, "targets do not change the logits")
    judge(
        found,
        _by_hand(logits, ids[:, 1:]),
        "the model's loss is the cross-entropy of its logits against the targets as given",
        bound=_bound(logits),
        where={"style": style},
        remedy="targets come shifted from the data; the model must not shift them again",
    )


class _Untrained(NamedTuple):
    """Of each of the models: (MODELS,)."""

    variance: Tensor
    expected_loss: Tensor
    loss: Tensor


def _untrained(frequencies: Tensor) -> _Untrained:
    """The article's model from 32 seeds, on tokens of the given frequencies, 4 rows of 64."""
    kept = []
    for seed in range(MODELS):
        gpt = small_gpt(config.article(), seed, dtype=torch.float32)
        generator = torch.Generator().manual_seed(seed)
        ids = torch.multinomial(frequencies, 4 * 65, replacement=True, generator=generator)
        ids = ids.view(4, 65)
        with torch.no_grad():
            logits, found = gpt(ids[:, :-1], ids[:, 1:])
        logits = logits.double()
        over_uniform_targets = (logits.logsumexp(-1) - logits.mean(-1)).mean()
        kept.append(torch.stack([logits.var(-1).mean(), over_uniform_targets, found.double()]))
    return _Untrained(*torch.stack(kept).unbind(1))


def _standard_error(values: Tensor) -> float:
    return float(values.std()) / math.sqrt(len(values))


def _predicted_loss(variance: float, vocabulary: int) -> float:
    """Ln V + σ²/2 - (exp(σ²) - 1) / 2V, for V normal logits of variance σ².

    The mean of log Σ exp(z) - z[target]. exp(z) has mean exp(σ²/2) and relative variance
    exp(σ²) - 1; the logarithm of a mean of V of them falls short of its limit by half of that
    over V.
    """
    return math.log(vocabulary) + variance / 2 - math.expm1(variance) / (2 * vocabulary)


@claim("GPT-6")
def test_untrained_logits_have_a_variance_of_a_third() -> None:
    """Weights uniform in ±1/√d have variance 1/(3d), and the head reads d channels of RMS 1.

    Statistical: 32 seeds, a mean within seven of its standard errors, by Student's distribution a
    false alarm of 1e-7. That is about 2.5 % of the variance: weights off by 15 % are seen.
    """
    found = _untrained(torch.ones(VOCABULARY)).variance
    judge(
        found.mean(),
        1 / 3,
        "the untrained logits of torch's own initialisation have variance 1/3",
        bound=7 * _standard_error(found),
        where={"models": MODELS},
        remedy="is the head initialised like any linear layer, and does it read unit RMS?",
    )
    at_most(
        7 * _standard_error(found),
        0.15 / 3,
        "the bound is narrower than an error of 15 % in the variance",
    )


@claim("GPT-6")
def test_the_untrained_loss_is_ln_v_and_half_the_variance_of_the_logits() -> None:
    """Ln 74 + 1/6 - 0.003 = 4.468, over targets that the model knows nothing of.

    Statistical: 32 seeds, means within seven standard errors (1e-7 each by Student's distribution).
    Over uniform targets taken all together a mean of 32 is known to 0.0006, with 256 drawn targets
    a model to 0.007.
    """
    untrained = _untrained(torch.ones(VOCABULARY))
    expected = _predicted_loss(1 / 3, VOCABULARY)
    for what, found in (
        ("expected over uniform targets", untrained.expected_loss),
        ("as the model returns it", untrained.loss),
    ):
        judge(
            found.mean(),
            expected,
            "the untrained loss is ln V + var(logits)/2, less (exp(var) - 1)/2V",
            bound=7 * _standard_error(found),
            where={"loss": what, "models": MODELS},
            remedy="a head of unit variance starts tens of nats above ln V",
        )


@claim("GPT-6")
def test_the_articles_first_loss_is_one_of_these() -> None:
    """4.495 is printed beside ln 74 = 4.30; it was measured on text, where few tokens are frequent.

    With frequencies falling as 1/rank, as letters' roughly do, a model's loss spreads by some
    hundredths around the same mean. The printed one has to lie within three such spreads.
    """
    require(f"{math.log(VOCABULARY):.2f}" == "4.30", "ln 74 is 4.30", measured=math.log(VOCABULARY))
    found = _untrained(1 / torch.arange(1.0, VOCABULARY + 1)).loss
    judge(
        found.mean(),
        PRINTED_FIRST_LOSS,
        "the article's first loss, 4.495, lies among those of untrained models",
        bound=3 * float(found.std()),
        where={"models": MODELS, "spread": round(float(found.std()), 4)},
    )
    at_most(3 * float(found.std()), 0.25, "three spreads are less than a quarter of a nat")
