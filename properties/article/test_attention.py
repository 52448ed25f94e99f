"""ATT: what the weights are: a softmax, masked before it is taken, of q·k and nothing else."""

from __future__ import annotations

import torch

from theodolite.fixtures.judging.judgement import judge, judge_differs, require
from theodolite.fixtures.judging.rounding import attention_error, row_sum_error, unit_roundoff
from theodolite.fixtures.oracles.attention_from_outside import Attention, attention_weights
from theodolite.fixtures.oracles.strategies import (
    AttentionShape,
    attention_shapes,
    drawn,
    normal,
    query_key_value,
    score_kinds,
    seeds,
)
from theodolite.properties import claim

ROWS = ("row", "head", "query")
KEYS = (*ROWS, "key")
longer = attention_shapes(lengths=(4, 7, 13))


@claim("ATT-2", component="softmax")
@drawn(max_examples=40, shape=attention_shapes(), seed=seeds(), scores=score_kinds())
def test_each_row_of_weights_is_a_distribution(
    attention: Attention, shape: AttentionShape, seed: int, scores: str
) -> None:
    """Non-negative, and summing to 1, with the mask and without."""
    query, key, _ = query_key_value(shape, seed, scores=scores, dtype=torch.float32)
    for causal in (True, False):
        weights = attention_weights(attention, query, key, causal=causal)
        where = {"causal": causal}
        judge(
            weights.clamp(max=0),
            0.0,
            "no weight is negative",
            axes=KEYS,
            where=where,
            remedy="are the weights a softmax of the scores?",
        )
        judge(
            weights.double().sum(dim=-1),
            1.0,
            "the weights of each query sum to 1",
            bound=row_sum_error(shape.length, weights.dtype),
            axes=ROWS,
            where=where,
            remedy="is softmax taken over the keys, after the mask, and nothing done to it since?",
        )


@claim("ATT-2", component="mask")
@drawn(max_examples=30, shape=longer, seed=seeds(), scores=score_kinds())
def test_later_keys_get_a_weight_of_exactly_zero(
    attention: Attention, shape: AttentionShape, seed: int, scores: str
) -> None:
    query, key, _ = query_key_value(shape, seed, scores=scores, dtype=torch.float32)
    weights = attention_weights(attention, query, key, causal=True)
    judge(
        weights.triu(1),
        0.0,
        "a later key has a weight of exactly 0, however large its score",
        axes=KEYS,
        remedy="is every later key filled with -inf, rather than with a finite number?",
    )
    spread = query / 1024  # huge scores become ordinary: no weight is too small for float32
    require(
        bool((attention_weights(attention, spread, key, causal=False).triu(1) > 0).any()),
        "without the mask, some later key has a weight above 0",
        remedy="does `causal` switch the mask on and off?",
    )


@claim("ATT-3", component="mask")
@drawn(max_examples=30, shape=longer, seed=seeds())
def test_the_mask_comes_before_softmax(
    attention: Attention, shape: AttentionShape, seed: int
) -> None:
    """Zeros put in after softmax leave rows short; renormalising them is as good as masking."""
    query, key, _ = query_key_value(shape, seed)
    bound = row_sum_error(shape.length, query.dtype)
    masked = attention_weights(attention, query, key, causal=True)
    zeroed = attention_weights(attention, query, key, causal=False).tril()
    sums = zeroed.sum(dim=-1)
    judge(
        masked.sum(dim=-1),
        1.0,
        "under the mask each row of weights still sums to 1",
        bound=bound,
        axes=ROWS,
        remedy="add the mask to the scores before softmax",
        cause="mask-after-softmax",
    )
    require(
        bool((sums[..., :-1] < 1 - bound).all()),
        "zeroing later weights after softmax leaves every row but the last short of 1",
        measured=float(sums[..., :-1].max()),
        at_most=1 - bound,
    )
    judge(sums[..., -1], 1.0, "the last row sees everything and stays at 1", bound=bound)
    judge(
        masked,
        zeroed / sums[..., None],
        "masking before softmax is zeroing after it and renormalising",
        bound=2 * attention_error(query, key, torch.ones_like(query)) / float(sums.min()),
        axes=KEYS,
    )


@claim("ATT-7")
@drawn(max_examples=40, shape=attention_shapes(), seed=seeds(), scores=score_kinds())
def test_output_stays_between_the_visible_values(
    attention: Attention, shape: AttentionShape, seed: int, scores: str
) -> None:
    """Channel by channel: no more than the largest visible value, no less than the smallest."""
    query, key, value = query_key_value(shape, seed, scores=scores)
    output = attention(query, key, value, causal=True)
    # the weights' sum and the mean's T products round; the scores' error moves weights within it
    slack = 2 * row_sum_error(shape.length, value.dtype) * float(value.abs().max())
    highest, lowest = value.cummax(dim=2).values, value.cummin(dim=2).values
    outside = torch.maximum(output - highest, lowest - output).clamp(min=0)
    judge(
        outside,
        0.0,
        "each output channel lies between the least and the greatest visible value",
        bound=slack,
        axes=("row", "head", "position", "channel"),
        remedy="do the weights sum to 1, and is nothing added to or taken from the values?",
    )


@claim("ATT-7")
@drawn(max_examples=30, shape=longer, seed=seeds())
def test_output_is_linear_in_the_values_alone(
    attention: Attention, shape: AttentionShape, seed: int
) -> None:
    """f(Q, K, 2V - W) = 2f(Q, K, V) - f(Q, K, W); doubling Q or K does not double the output."""
    query, key, value = query_key_value(shape, seed)
    other = normal(*shape, seed=seed + 1)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attention(q, k, v, causal=True)

    combined = attend(query, key, 2 * value - other)
    # the weights are the same numbers in all three; only the means over values round
    largest = float(2 * value.abs().max() + other.abs().max())
    bound = 2 * (shape.length + 4) * unit_roundoff(value.dtype) * largest
    output = attend(query, key, value)
    judge(
        combined,
        2 * output - attend(query, key, other),
        "the output is linear in V",
        bound=bound,
        axes=("row", "head", "position", "channel"),
        remedy="is anything but a weighted sum done to the values?",
    )
    for name, doubled in (
        ("Q", attend(2 * query, key, value)),
        ("K", attend(query, 2 * key, value)),
    ):
        judge_differs(
            doubled,
            2 * output,
            f"the output is not linear in {name}: doubling it does not double the output",
            least=bound,
            remedy="is there a softmax between scores and weights?",
        )


@claim("ATT-8")
@drawn(max_examples=30, shape=longer, seed=seeds())
def test_weights_are_chosen_by_the_data(
    attention: Attention, shape: AttentionShape, seed: int
) -> None:
    """Other queries give other weights, and so do other keys."""
    query, key, _ = query_key_value(shape, seed)
    other = normal(*shape, seed=seed + 1)
    bound = attention_error(query, key, torch.ones_like(query))
    weights = attention_weights(attention, query, key, causal=True)
    for name, changed in (
        ("queries", attention_weights(attention, other, key, causal=True)),
        ("keys", attention_weights(attention, query, other, causal=True)),
    ):
        judge_differs(
            changed,
            weights,
            f"other {name} give other weights",
            least=2 * bound,
            remedy="do the scores come from q·k?",
        )


@claim("ATT-8")
@drawn(max_examples=30, shape=longer, seed=seeds())
def test_weights_depend_on_products_alone(
    attention: Attention, shape: AttentionShape, seed: int
) -> None:
    """Q·A and K·A⁻ᵀ have the same products as Q and K, for any invertible A: the same weights."""
    query, key, value = query_key_value(shape, seed)
    first, second = torch.linalg.qr(normal(2, shape.width, shape.width, seed=seed)).Q
    stretch = torch.logspace(-1, 1, shape.width, base=2, dtype=query.dtype)
    stretched, shrunk = query @ (first * stretch) @ second, key @ (first / stretch) @ second
    # each of the two turns rounds d products twice, on entries stretched at most twofold
    turn = 4 * (shape.width + 2) * unit_roundoff(query.dtype)
    lengths = float(query.norm(dim=-1).max() * key.norm(dim=-1).max()) / shape.width**0.5
    bound = attention_error(query, key, value) + attention_error(stretched, shrunk, value)
    bound += 2 * 2 * turn * shape.width * lengths * float(value.abs().max())
    judge(
        attention(stretched, shrunk, value, causal=True),
        attention(query, key, value, causal=True),
        "queries and keys with the same products give the same output",
        bound=bound,
        axes=("row", "head", "position", "channel"),
        remedy="is a score anything but a dot product: a distance, a cosine, a bias from content?",
    )
