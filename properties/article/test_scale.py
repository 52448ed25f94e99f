"""SCL: why q·k is divided by the root of the head width, and what softmax makes of scale."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from theodolite.fixtures.judging.judgement import judge, judge_differs, require
from theodolite.fixtures.judging.rounding import attention_error, score_error, unit_roundoff
from theodolite.fixtures.oracles.attention_from_outside import Attention, attention_weights
from theodolite.fixtures.oracles.strategies import (
    AttentionShape,
    attention_shapes,
    drawn,
    normal,
    seeds,
)
from theodolite.properties import claim
from theodolite.reference import attention as reference

PRINTED = {16: (15.8, 0.99), 64: (63.5, 0.99), 256: (261.3, 1.02)}
"""Width → the variance that the article prints, before and after division by √d."""

DEVIATIONS = 6
"""Standard errors allowed: a normal variable strays as far with a chance of 2e-9."""


def _normal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


def _uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return (torch.rand(shape, generator=generator) * 2 - 1) * math.sqrt(3)


def _signs(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.randint(2, shape, generator=generator) * 2.0 - 1


def _exponential(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.empty(shape).exponential_(generator=generator) - 1


DISTRIBUTIONS = {
    "normal": (_normal, 3.0),
    "uniform": (_uniform, 9 / 5),
    "signs": (_signs, 1.0),
    "exponential": (_exponential, 9.0),
}
"""Name → how to draw mean 0 and variance 1, and the fourth moment."""


def products(query: Tensor, key: Tensor, scale: float | None) -> Tensor:
    """The score of query i with key i, (N, d) twice -> (N,)."""
    return reference.attention_scores(query[:, None], key[:, None], scale=scale)[:, 0, 0]


@claim("SCL-1", "SCL-2", component="scale")
@pytest.mark.parametrize("width", PRINTED)
def test_the_printed_variances_are_reproduced(width: int) -> None:
    """10,000 draws for each width in turn, from seed 0."""
    generator = torch.Generator().manual_seed(0)
    for each in PRINTED:
        query, key = (torch.randn(10000, each, generator=generator) for _ in range(2))
        if each == width:
            break
    raw, scaled = PRINTED[width]
    # one digit is printed; float32 sums in another order move the second
    judge(
        products(query, key, 1.0).var(),
        raw,
        f"seed 0 gives the printed variance of q·k at width {width}",
        bound=0.051,
    )
    judge(
        products(query, key, None).var(),
        scaled,
        f"seed 0 gives the printed variance of q·k/√d at width {width}",
        bound=0.0051,
        remedy="divide by √d, the root of the width",
    )


@claim("SCL-1", "SCL-2", component="scale")
@pytest.mark.parametrize("width", [16, 61])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_variance_of_a_product_is_the_width(distribution: str, width: int) -> None:
    """Var(q·k) = d and Var(q·k/√d) = 1, whatever the components' distribution.

    A sum of d products, each of variance 1 and fourth moment m² (m the components'), has the fourth
    cumulant d(m² - 3), so its sample variance over n draws has the variance
    (d(m² - 3) + 2d²)/n; for n this large it is normal.
    """
    draw, fourth = DISTRIBUTIONS[distribution]
    draws = 50_000
    generator = torch.Generator().manual_seed(width)
    query, key = draw((draws, width), generator), draw((draws, width), generator)
    error = math.sqrt((width * (fourth**2 - 3) + 2 * width**2) / draws)
    where = {"distribution": distribution, "width": width}
    judge(
        products(query, key, 1.0).var(),
        width,
        "the variance of q·k is d",
        bound=DEVIATIONS * error,
        where=where,
    )
    judge(
        products(query, key, None).var(),
        1.0,
        "the variance of q·k/√d is 1",
        bound=DEVIATIONS * error / width,
        where=where,
        remedy="divide by √d, the root of the width",
    )


@claim("SCL-3")
def test_the_printed_softmax_is_reproduced() -> None:
    logits = torch.tensor([1.0, 2.0, 3.0])
    judge(
        reference.attention_weights(logits),
        torch.tensor([0.0900, 0.2447, 0.6652]),
        "softmax(1, 2, 3) is as printed",
        bound=0.5e-4 + 1e-8,
        axes=("key",),
    )
    # relative: five digits are printed
    judge(
        reference.attention_weights(logits * 16) / torch.tensor([1.2664e-14, 1.1254e-07, 1.0]),
        1.0,
        "softmax(16, 32, 48) is as printed, and all but one-hot",
        bound=0.5e-4,
        axes=("key",),
    )


@claim("SCL-3")
@drawn(max_examples=30, keys=st.integers(2, 20), seed=seeds())
def test_entropy_falls_with_the_factor(keys: int, seed: int) -> None:
    """dH/dβ = -β·Var(score) < 0; scores that are all equal stay at ln n."""
    scores = normal(keys, seed=seed)
    factors = 2.0 ** torch.arange(-2, 5, dtype=torch.float64)
    entropy = _entropy(reference.attention_weights(factors[:, None] * scores))
    falls = entropy[:-1] - entropy[1:]
    still_spread = entropy[1:] > 1e-9  # below, both are 0 up to rounding
    require(
        bool((falls[still_spread] > 0).all()),
        "a larger factor gives a softmax of lower entropy",
        measured=float(falls[still_spread].min()) if still_spread.any() else None,
        at_least=0.0,
        remedy="is anything done to the scores that takes their scale away?",
    )
    equal = factors[:, None].expand(-1, keys) * scores[0]
    judge(
        _entropy(reference.attention_weights(equal)),
        math.log(keys),
        "equal scores keep the greatest entropy, whatever the factor",
        bound=4 * keys * unit_roundoff(scores.dtype) * math.log(keys),
        axes=("factor",),
    )


@claim("SCL-4")
def test_saturation_starves_the_gradient() -> None:
    """The trace of softmax's Jacobian, Σ p(1 - p), over 32 keys: starved as d grows, or kept.

    Unscaled it about halves with each fourfold width (0.50, 0.25, 0.12, 0.06). Scaled, scores are
    nearly standard normal at every width, for which 6.4 million draws gave 0.9272.
    """
    widths, draws, keys = (16, 64, 256, 1024), 500, 32
    unscaled, scaled = [], []
    for width in widths:
        query = normal(draws, 1, width, seed=width, dtype=torch.float32)
        key = normal(draws, keys, width, seed=width + 1, dtype=torch.float32)
        unscaled.append(_jacobian_trace(reference.attention_scores(query, key, scale=1.0)))
        scaled.append(_jacobian_trace(reference.attention_scores(query, key)))
    for width, (narrow, wide) in zip(widths[1:], pairwise(unscaled), strict=True):
        # a half, and four standard errors of 0.06 at the largest width
        require(
            wide < 0.75 * narrow,
            "without scaling, four times the width about halves the gradient through softmax",
            measured=wide / narrow,
            at_most=0.75,
            where={"width": width},
        )
    # a row's trace spreads by at most 0.04; and q of width d varies in length by 1/√(2d),
    # which moves the mean by less than 0.002 at d = 16
    judge(
        torch.tensor(scaled),
        0.9272,
        "with scores divided by √d, the gradient through softmax stays at every width",
        bound=DEVIATIONS * 0.04 / math.sqrt(draws) + 0.002,
        axes=("width",),
        remedy="divide the scores by √d",
        component="scale",
    )


@claim("SCL-4")
@drawn(max_examples=10, keys=st.integers(2, 12), seed=seeds())
def test_the_trace_is_that_of_the_real_jacobian(keys: int, seed: int) -> None:
    scores = normal(keys, seed=seed)
    jacobian = torch.autograd.functional.jacobian(reference.attention_weights, scores)
    judge(
        jacobian.trace(),
        _jacobian_trace(scores),
        "the trace of softmax's Jacobian is Σ p(1 - p)",
        bound=8 * keys * unit_roundoff(scores.dtype),
    )


@claim("SCL-5", component="scale")
@drawn(
    max_examples=30,
    shape=attention_shapes(lengths=(4, 7, 13), widths=(6, 2, 16, 50)),
    seed=seeds(),
)
def test_the_scale_is_one_over_the_root_of_the_head_width(
    attention: Attention, shape: AttentionShape, seed: int
) -> None:
    """Read off the weights: log(w_j/w_0) = scale·(q·k_j - q·k_0), by least squares."""
    query, key, _ = (x / shape.width**0.25 for x in normal(3, *shape, seed=seed))
    weights = attention_weights(attention, query, key, causal=False)
    logs = weights.log()
    logs = logs - logs[..., :1]
    raw = query @ key.mT
    raw = raw - raw[..., :1]
    found = float((logs * raw).sum() / raw.square().sum())
    # a weight's relative error is its logarithm's absolute one, and 1/scale magnifies it
    error = attention_error(query, key, torch.ones_like(query)) + score_error(query, key)
    judge(
        found * math.sqrt(shape.width),
        1.0,
        "scores are q·k/√d_head",
        bound=4 * error * math.sqrt(shape.width) * float(raw.abs().sum() / raw.square().sum()),
        where={"head width": shape.width, "heads": shape.heads, "scale": f"{found:.4g}"},
        remedy="divide by the root of the width of one head, once",
    )


@claim("SCL-5", component="scale")
@drawn(max_examples=12, heads=st.sampled_from([2, 3, 6]), seed=seeds())
def test_a_head_is_scaled_by_its_own_width_not_the_models(heads: int, seed: int) -> None:
    """The reference's layer, against the formula on its own queries, keys and values."""
    layer = reference.MultiHeadAttention(24, heads).double()
    query, key, value = normal(3, 2, heads, 7, 24 // heads, seed=seed)
    scores = query @ key.mT / math.sqrt(24 // heads)
    visible = torch.ones(7, 7, dtype=torch.bool).tril()
    weights = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    judge(
        layer.attend(query, key, value, mask=None, causal=True),
        (weights @ value).transpose(1, 2).reshape(2, 7, 24),
        "a layer of several heads divides scores by the root of the head width",
        bound=2 * attention_error(query, key, value),
        axes=("row", "position", "channel"),
        where={"heads": heads, "head width": 24 // heads, "model width": 24},
        remedy="use d_head, not d_model",
    )


@claim("SCL-6", component="softmax")
@drawn(
    max_examples=30,
    keys=st.integers(1, 20),
    seed=seeds(),
    constant=st.sampled_from([1.0, -3.0, 1000.0, -1000.0, 1e6]),
)
def test_softmax_ignores_a_constant_and_heeds_a_factor(
    keys: int, seed: int, constant: float
) -> None:
    scores = normal(3, keys, seed=seed)
    weights = reference.attention_weights(scores)
    # adding and taking off the constant rounds twice, at its size; then as for any softmax
    bound = 2 * (4 * abs(constant) + 2 * keys + 16) * unit_roundoff(scores.dtype)
    judge(
        reference.attention_weights(scores + constant),
        weights,
        "adding a constant to a row of scores leaves its softmax alone",
        bound=bound,
        axes=("row", "key"),
        where={"constant": constant},
        remedy="take the row's maximum off before the exponential",
    )
    if keys > 1:
        judge_differs(
            reference.attention_weights(scores * 2),
            weights,
            "multiplying a row of scores changes its softmax",
            least=bound,
        )


@claim("SCL-6", component="softmax")
@drawn(max_examples=30, shape=attention_shapes(), seed=seeds(), causal=st.booleans())
def test_one_vector_added_to_all_keys_changes_nothing(
    attention: Attention, shape: AttentionShape, seed: int, causal: bool
) -> None:
    """q·(k + c) = q·k + q·c: the same constant for a whole row."""
    query, key, value = normal(3, *shape, seed=seed)
    shifted = key + 3 * normal(shape.width, seed=seed + 1)
    judge(
        attention(query, shifted, value, causal=causal),
        attention(query, key, value, causal=causal),
        "one vector added to every key leaves attention alone",
        bound=attention_error(query, shifted, value) + attention_error(query, key, value),
        axes=("row", "head", "position", "channel"),
        remedy="are the weights a softmax of q·k over the keys?",
    )


def _entropy(weights: Tensor) -> Tensor:
    information: Tensor = torch.special.xlogy(weights, weights)
    return -information.sum(dim=-1)


def _jacobian_trace(scores: Tensor) -> float:
    weights = reference.attention_weights(scores)
    return float((weights * (1 - weights)).sum(dim=-1).mean())
