"""Where positions enter, told by the numbers of one token repeated."""

import math

import pytest
import torch
from torch import nn

from theodolite.fixtures.anatomy.constant_sequence import position_enters

B, T, H, D = 2, 7, 3, 4
FUTURE = torch.ones(T, T, dtype=torch.bool).triu(1)


def heads(x):
    return x.view(B, T, H, D).transpose(1, 2)


def turned(x):
    angle = torch.arange(T)[:, None] * 10.0 ** -torch.arange(D // 2)
    first, second = x.chunk(2, -1)
    turned_first = first * angle.cos() - second * angle.sin()
    return torch.cat([turned_first, first * angle.sin() + second * angle.cos()], -1)


def attention(q, k, v, bias=0.0):
    scores = q @ k.mT / math.sqrt(D) + bias
    return scores.masked_fill(FUTURE, -math.inf).softmax(-1) @ v


def plain(q, k, v):
    return attention(q, k, v).transpose(1, 2).flatten(2)


def rotary(q, k, v):
    return plain(turned(q), turned(k), v)


def rotary_values(q, k, v):
    return plain(turned(q), turned(k), turned(v))


def distance_bias(q, k, v):
    bias = torch.arange(T, dtype=torch.float32)
    return attention(q, k, v, bias).transpose(1, 2).flatten(2)


def zeroed_after_softmax(q, k, v):
    weights = (q @ k.mT / math.sqrt(D)).softmax(-1).masked_fill(FUTURE, 0.0)
    return (weights @ v).transpose(1, 2).flatten(2)


def sink(q, k, v):
    scores = (q @ k.mT / math.sqrt(D)).masked_fill(FUTURE, -math.inf)
    scores = torch.cat([scores, scores.new_zeros(B, H, T, 1)], -1)
    return (scores.softmax(-1)[..., :-1] @ v).transpose(1, 2).flatten(2)


def entry(one_layer, attend):
    model = one_layer(lambda *qkv: attend(*map(heads, qkv)))
    with torch.no_grad():
        return position_enters(model, lambda: model(torch.full((B, T), 5)))


@pytest.mark.parametrize(
    ("attend", "in_queries_and_keys", "in_scores", "in_values"),
    [
        (plain, False, False, False),
        (rotary, True, False, False),
        (distance_bias, False, True, False),
        (rotary_values, True, False, True),
    ],
)
def test_relative_positions_are_told_apart(
    attend, in_queries_and_keys, in_scores, in_values, one_layer
):
    found = entry(one_layer, attend)
    assert found.sees_softmax
    assert found.in_stream is False
    assert found.in_queries_and_keys is in_queries_and_keys
    assert found.in_scores is in_scores
    assert found.in_values is in_values
    assert found.rows_sum_to_one


def test_a_mask_after_softmax_is_told_from_a_sink(one_layer):
    fault, design = entry(one_layer, zeroed_after_softmax), entry(one_layer, sink)
    assert not fault.rows_sum_to_one
    assert not design.rows_sum_to_one
    assert (fault.extra_columns, design.extra_columns) == (0, 1)


def test_absolute_positions_are_in_the_stream(one_layer):
    model = one_layer(lambda *qkv: plain(*map(heads, qkv)))

    class WithPositions(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions = nn.Embedding(T, H * D)

        def forward(self, ids):
            x = model.embedding(ids) + 0.02 * self.positions(torch.arange(T))
            return model.attend(model.query(x), model.key(x), model.value(x))

    whole = WithPositions()
    with torch.no_grad():
        found = position_enters(whole, lambda: whole(torch.full((B, T), 5)))
    assert found.in_stream
    assert not found.in_values


def test_no_attention_is_an_answer(one_layer):
    found = entry(one_layer, lambda q, k, v: v.cumsum(2).transpose(1, 2).flatten(2))
    assert not found.sees_softmax
    assert found.rows_sum_to_one is None
    assert "no attention" in found.reason
