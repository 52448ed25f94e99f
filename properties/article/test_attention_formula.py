"""ATT-1: attention against its formula in plain float64 loops, and against torch's operator."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import strategies as st

from theodolite.fixtures.judging.judgement import judge
from theodolite.fixtures.judging.rounding import attention_error
from theodolite.fixtures.oracles import formulas as oracle
from theodolite.fixtures.oracles.attention_from_outside import Attention
from theodolite.fixtures.oracles.strategies import (
    AttentionShape,
    attention_shapes,
    drawn,
    dtypes,
    normal,
    query_key_value,
    score_kinds,
    seeds,
)
from theodolite.properties import claim
from theodolite.reference import attention as reference

AXES = ("row", "head", "position", "channel")
REMEDY = "softmax(Q Kᵀ / √d + M) V: look at the scale, the mask and the axis of softmax"


@claim("ATT-1")
@drawn(
    max_examples=60,
    shape=attention_shapes(),
    seed=seeds(),
    scores=score_kinds(),
    dtype=dtypes(),
    causal=st.booleans(),
)
def test_attention_is_the_formula(
    attention: Attention,
    shape: AttentionShape,
    seed: int,
    scores: str,
    dtype: torch.dtype,
    causal: bool,
) -> None:
    """As plain loops give it, for any shape, size of scores and dtype."""
    query, key, value = query_key_value(shape, seed, scores=scores, dtype=dtype)
    expected = oracle.attention(query.double(), key.double(), value.double(), causal=causal)
    judge(
        attention(query, key, value, causal=causal),
        expected,
        "attention is softmax(QKᵀ/√d + M)V, as plain float64 loops give it",
        bound=attention_error(query, key, value),
        axes=AXES,
        where={"dtype": dtype, "causal": causal},
        remedy=REMEDY,
    )


@claim("ATT-1")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_attention_is_the_fused_operator(
    attention: Attention, causal: bool, dtype: torch.dtype
) -> None:
    """On sequences long enough for torch to work in blocks."""
    query, key, value = normal(3, 2, 3, 157, 20, seed=1, dtype=dtype)
    # both round
    judge(
        attention(query, key, value, causal=causal),
        F.scaled_dot_product_attention(query, key, value, is_causal=causal),
        "attention is torch's scaled_dot_product_attention",
        bound=2 * attention_error(query, key, value),
        axes=AXES,
        remedy=REMEDY,
    )


@claim("ATT-1")
@drawn(
    max_examples=30,
    shape=attention_shapes(),
    past=st.integers(0, 6),
    seed=seeds(),
    causal=st.booleans(),
    masked=st.booleans(),
)
def test_queries_are_the_last_of_the_keys(
    shape: AttentionShape, past: int, seed: int, causal: bool, masked: bool
) -> None:
    """With more keys than queries, as in decoding, and under a mask of one's own."""
    batch, heads, length, width = shape
    query = normal(*shape, seed=seed)
    key, value = normal(2, batch, heads, past + length, width, seed=seed + 1)
    mask = None
    if masked:
        mask = normal(batch, 1, length, past + length, seed=seed + 2) > 0
        mask |= torch.eye(past + length, dtype=torch.bool)[-length:]
    expected = oracle.attention(query, key, value, mask=mask, causal=causal)
    for form in (reference.scaled_dot_product_attention, reference.fused_attention):
        judge(
            form(query, key, value, mask=mask, causal=causal),
            expected,
            "query i stands at S - T + i and sees the keys up to there that the mask allows",
            bound=attention_error(query, key, value),
            axes=AXES,
            where={"form": form.__name__},
            remedy="is the triangle lined up with the last key, and is the mask True for visible?",
        )
