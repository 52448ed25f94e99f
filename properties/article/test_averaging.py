"""AVG: the past averaged by a loop, by a matrix, and by attention with equal scores."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import judge, require
from theodolite.fixtures.judging.rounding import attention_error, unit_roundoff
from theodolite.fixtures.oracles.attention_from_outside import Attention
from theodolite.fixtures.oracles.strategies import (
    AttentionShape,
    attention_shapes,
    drawn,
    normal,
    seeds,
)
from theodolite.properties import claim
from theodolite.reference import averaging

lengths = st.integers(1, 40)


def mean_error(x: Tensor) -> float:
    """Rounding of two means of at most T numbers: T + 2 roundings each, of the largest number."""
    return 2 * (x.shape[1] + 2) * unit_roundoff(x.dtype) * float(x.abs().max())


@claim("AVG-1")
@drawn(max_examples=30, batch=st.integers(1, 3), length=lengths, seed=seeds())
def test_a_triangular_product_is_the_running_mean(batch: int, length: int, seed: int) -> None:
    """(w @ x)[t] is x[: t + 1].mean(0), for every t."""
    x = normal(batch, length, 2, seed=seed, dtype=torch.float32)
    expected = torch.stack([x[:, : t + 1].mean(dim=1) for t in range(length)], dim=1)
    for form in (
        averaging.running_mean_by_product,
        averaging.running_mean_by_loop,
        averaging.running_mean_by_softmax,
    ):
        judge(
            form(x),
            expected,
            "position t gets the mean of positions 0 to t",
            bound=mean_error(x),
            axes=("row", "position", "channel"),
            where={"form": form.__name__},
            remedy="are the weights lower-triangular, and does each row sum to 1?",
        )


@claim("AVG-1")
def test_the_printed_mean_is_reproduced() -> None:
    x = torch.randn(1, 4, 2, generator=torch.Generator().manual_seed(0))
    # four digits are printed
    judge(
        averaging.running_mean_by_product(x)[0, 2],
        torch.tensor([-0.5741, -0.3745]),
        "seed 0 gives the printed mean of three positions",
        bound=0.5e-4,
        axes=("channel",),
    )


@claim("AVG-1")
@drawn(max_examples=20, length=lengths)
def test_averaging_weights_are_triangular_and_sum_to_one(length: int) -> None:
    weights = averaging.averaging_matrix(length)
    judge(weights.triu(1), 0.0, "no weight on later positions", axes=("row", "key"))
    # each weight is rounded once
    judge(
        weights.double().sum(dim=1),
        1.0,
        "each row of weights sums to 1",
        bound=length * unit_roundoff(weights.dtype),
        axes=("row",),
    )


@claim("AVG-2")
@drawn(max_examples=20, length=lengths)
def test_softmax_over_minus_infinity_gives_the_same_matrix(length: int) -> None:
    weights = averaging.masked_softmax_matrix(length)
    t = torch.arange(length)
    expected = (t[:, None] >= t).double() / (t[:, None] + 1)
    # exp(0) and small sums are exact; one division
    judge(
        weights,
        expected,
        "softmax of equal scores, -inf above the diagonal, is the averaging matrix",
        bound=4 * unit_roundoff(weights.dtype),
        axes=("row", "key"),
        remedy="is the mask -inf on every later key and on no other?",
    )
    judge(
        weights.triu(1),
        0.0,
        "a score of -inf gets a weight of exactly 0, not a small one",
        axes=("row", "key"),
        remedy="fill with -inf, not with a large negative number",
    )


@claim("AVG-2")
def test_the_printed_row_of_weights_is_reproduced() -> None:
    judge(
        averaging.masked_softmax_matrix(4)[2],
        torch.tensor([0.3333, 0.3333, 0.3333, 0.0]),
        "row 2 of four is a third on each of three positions",
        bound=0.5e-4,
        axes=("key",),
    )
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        nothing = torch.tensor(float("-inf"), dtype=dtype).exp()
        require(nothing.item() == 0, "exp(-inf) is exactly 0", where={"dtype": dtype})


@claim("AVG-3")
@drawn(max_examples=30, shape=attention_shapes(), seed=seeds(), same=st.booleans())
def test_equal_scores_average_the_visible_prefix(
    attention: Attention, shape: AttentionShape, seed: int, same: bool
) -> None:
    """Keys all alike, or queries of zero: every visible position counts the same."""
    query, key, value = normal(3, *shape, seed=seed)
    if same:
        key = key[:, :, :1].expand(key.shape).contiguous()
    else:
        query = torch.zeros_like(query)
    bound = attention_error(query, key, value)
    judge(
        attention(query, key, value, causal=True),
        value.cumsum(dim=2) / torch.arange(1, shape.length + 1)[:, None],
        "with equal scores, causal attention is the mean of the values so far",
        bound=bound,
        axes=("row", "head", "position", "channel"),
        remedy="does anything but q·k enter the scores, or is the mask off by a key?",
    )
    judge(
        attention(query, key, value, causal=False),
        value.mean(dim=2, keepdim=True).expand(value.shape),
        "with equal scores and no mask, attention is the mean of all values",
        bound=bound,
        axes=("row", "head", "position", "channel"),
    )
