"""Attention against plain float64 loops, and fused against written out."""

import math

import pytest
import torch
from hypothesis import strategies as st

from theodolite import reference
from theodolite.fixtures.oracles import formulas as oracle
from theodolite.fixtures.oracles.strategies import drawn

DTYPES = (torch.float32, torch.float64)


def rounding_bound(query, key, value):
    """Largest difference that rounding explains.

    A score is a sum of d products: off by e ≤ (d + 2)·eps·max Σ|q||k|/√d. A softmax weight is then
    off by 2e + 4·eps·max|s| + S·eps of itself, and a sum of S such weights times values by that
    and S·eps more, of the largest value.
    """
    eps = torch.finfo(query.dtype).eps
    width, keys = query.shape[-1], key.shape[-2]
    size = float((query.abs() @ key.abs().transpose(-2, -1)).max()) / math.sqrt(width)
    relative = 2 * (width + 2) * eps * size + 4 * eps * size + (2 * keys + 8) * eps
    return relative * float(value.abs().max())


def random_qkv(seed, queries, keys, *, dtype=torch.float64, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    query = scale * torch.randn(2, 3, queries, 6, generator=generator, dtype=torch.float64)
    key = torch.randn(2, 3, keys, 6, generator=generator, dtype=torch.float64)
    value = torch.randn(2, 3, keys, 5, generator=generator, dtype=torch.float64)
    return query.to(dtype), key.to(dtype), value.to(dtype)


@drawn(
    20,
    seed=st.integers(0, 1000),
    queries=st.integers(1, 5),
    past=st.integers(0, 4),
    causal=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
)
def test_both_ways_to_attend_give_what_the_formula_gives(
    *, seed, queries, past, causal, dtype, scale
):
    query, key, value = random_qkv(seed, queries, past + queries, dtype=dtype, scale=scale)
    expected = torch.from_numpy(oracle.attention(query, key, value, causal=causal))
    bound = rounding_bound(query, key, value)
    for attend in (reference.scaled_dot_product_attention, reference.fused_attention):
        assert (attend(query, key, value, causal=causal) - expected).abs().max() <= bound


def test_a_mask_joins_the_causal_triangle():
    query, key, value = random_qkv(0, 4, 4)
    mask = torch.tensor([True, False, True, True]) | torch.eye(4, dtype=torch.bool)
    expected = torch.from_numpy(oracle.attention(query, key, value, mask=mask, causal=True))
    for attend in (reference.scaled_dot_product_attention, reference.fused_attention):
        found = attend(query, key, value, mask=mask, causal=True)
        assert (found - expected).abs().max() <= rounding_bound(query, key, value)


def test_soft_capped_scores_give_what_the_formula_gives():
    query, key, value = random_qkv(1, 4, 6, scale=9.0)
    expected = torch.from_numpy(oracle.attention(query, key, value, softcap=2.0))
    found = reference.scaled_dot_product_attention(query, key, value, softcap=2.0)
    assert (found - expected).abs().max() <= rounding_bound(query, key, value)


@pytest.mark.parametrize(
    "attend", [reference.scaled_dot_product_attention, reference.fused_attention]
)
def test_a_scale_of_one_s_own_takes_the_place_of_the_root(attend):
    query, key, value = random_qkv(2, 4, 4)
    own = attend(query, key, value, causal=True, scale=0.5)
    expected = attend(query * 0.5 * math.sqrt(6), key, value, causal=True)
    assert (own - expected).abs().max() <= rounding_bound(query, key, value)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys", "width"), [(3, 5, 5), (4, 6, 4), (4, 4, 6)])
def test_without_an_axis_of_heads_both_ways_give_the_same(queries, keys, width, causal):
    generator = torch.Generator().manual_seed(3)
    query = torch.randn(2, queries, width, generator=generator, dtype=torch.float64)
    key, value = torch.randn(2, 2, keys, width, generator=generator, dtype=torch.float64)
    fused = reference.fused_attention(query, key, value, causal=causal)
    written_out = reference.scaled_dot_product_attention(query, key, value, causal=causal)
    assert (fused - written_out).abs().max() <= 2 * rounding_bound(query, key, value)


def test_nothing_is_hidden_unless_it_is_asked_for():
    query, key, value = random_qkv(4, 4, 4)
    expected = torch.from_numpy(oracle.attention(query, key, value))
    for attend in (reference.scaled_dot_product_attention, reference.fused_attention):
        found = attend(query, key, value)
        assert (found - expected).abs().max() <= rounding_bound(query, key, value)


@pytest.mark.parametrize("fused", [False, True])
def test_a_layer_is_causal_and_takes_a_mask_besides(fused):
    torch.manual_seed(0)
    layer = reference.MultiHeadAttention(12, 4, fused=fused)
    x = torch.randn(2, 5, 12)
    changed = x.clone()
    changed[:, 2] += 1
    mask = torch.tensor([True, True, False, True, True]) | torch.eye(5, dtype=torch.bool)
    others = [0, 1, 3, 4]
    assert torch.equal(layer(x, mask=mask)[:, others], layer(changed, mask=mask)[:, others])
    assert torch.equal(layer(x)[:, :2], layer(changed)[:, :2])
    assert not torch.allclose(layer(x)[:, 3:], layer(changed)[:, 3:])
    assert not torch.allclose(layer(x, causal=False)[:, :2], layer(changed, causal=False)[:, :2])


def test_masks_are_where_the_queries_are():
    assert reference.causal_mask(3, device=torch.device("meta")).is_meta
    layer = reference.MultiHeadAttention(12, 4).to("meta")
    assert layer(torch.zeros(2, 5, 12, device="meta")).shape == (2, 5, 12)


def test_hidden_keys_have_weight_zero_and_the_rest_sums_to_one():
    scores = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    weights = reference.attention_weights(scores, reference.causal_mask(5, 7))
    assert torch.equal(weights.triu(3), torch.zeros(5, 7))
    assert (weights.sum(-1) - 1).abs().max() <= 7 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_many_heads_are_as_many_separate_attentions(kv_heads, fused):
    torch.manual_seed(0)
    layer = reference.MultiHeadAttention(18, 6, kv_heads=kv_heads, fused=fused).double()
    x = torch.randn(2, 5, 18, dtype=torch.float64)
    query, key, value = layer.project(x)
    heads = [
        reference.scaled_dot_product_attention(
            query[:, head],
            key[:, head * kv_heads // 6],
            value[:, head * kv_heads // 6],
            causal=True,
        )
        for head in range(6)
    ]
    expected = layer.output(torch.cat(heads, dim=-1))
    assert (layer(x) - expected).abs().max() <= 1e-13  # sums of 18 terms below 1, eps 2e-16


def test_a_layer_caps_the_scores_of_every_head():
    torch.manual_seed(0)
    layer = reference.MultiHeadAttention(12, 3, softcap=0.5).double()
    layer.qkv.weight.data *= 4
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    query, key, value = (part.detach() for part in layer.project(x))
    capped = oracle.attention(query, key, value, causal=True, softcap=0.5)
    expected = layer.output(torch.from_numpy(capped).transpose(1, 2).flatten(2))
    assert (layer(x) - expected).abs().max() <= 12 * rounding_bound(query, key, value)
    layer.softcap = None
    assert (layer(x) - expected).abs().max() > 0.01


def test_a_layer_s_norms_have_the_epsilon_of_the_model_s_norms_or_their_own():
    layer = reference.MultiHeadAttention(12, 3, qk_norm=True)
    assert layer.query_norm.eps == layer.key_norm.eps == reference.RMSNorm(4).eps == 1e-5
    layer = reference.MultiHeadAttention(12, 3, qk_norm=True, norm_eps=0.25)
    assert layer.query_norm.eps == layer.key_norm.eps == 0.25


def test_one_joined_projection_is_three_separate_ones():
    torch.manual_seed(0)
    layer = reference.MultiHeadAttention(12, 4, kv_heads=2)
    x = torch.randn(2, 5, 12)
    parts = layer.qkv.weight.split([12, 6, 6])
    for found, weight in zip(layer.project(x), parts, strict=True):
        separate = (x @ weight.T).unflatten(-1, (-1, 3)).transpose(1, 2)
        assert (found - separate).abs().max() <= 12 * torch.finfo(torch.float32).eps * 4


def test_normed_queries_and_keys_bound_the_scores_whatever_the_weights():
    torch.manual_seed(0)
    layer = reference.MultiHeadAttention(16, 2, qk_norm=True)
    layer.qkv.weight.data *= 1e4
    query, key, _ = layer.project(torch.randn(3, 9, 16))
    # |q| = |k| = √d at most, so |q·k|/√d ≤ √d; a few roundings more
    assert reference.attention_scores(query, key).abs().max() <= math.sqrt(8) * (1 + 1e-5)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="width 10 does not divide into 3 heads: choose"):
        reference.MultiHeadAttention(10, 3)
    with pytest.raises(ValueError, match="4 query heads do not divide among 3 key"):
        reference.MultiHeadAttention(8, 4, kv_heads=3)
