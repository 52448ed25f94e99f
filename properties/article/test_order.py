"""Attention does not know order: sets, bags of words, and the little that the mask gives away."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from theodolite.fixtures.judging.judgement import judge, judge_differs
from theodolite.fixtures.judging.rounding import attention_error
from theodolite.fixtures.oracles.attention_from_outside import Attention
from theodolite.fixtures.oracles.strategies import (
    AttentionShape,
    drawn,
    normal,
    permutations,
    query_key_value,
    score_kinds,
    seeds,
)
from theodolite.properties import claim
from theodolite.reference import model
from theodolite.reference.config import GPTConfig

AXES = ("row", "head", "position", "channel")
REMEDY = "Does attention add a bias, or turn something, by the index of a key?"


def _project(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight``, each row summed in the same order wherever it stands."""
    return (x[..., None] * weight).sum(-2)


@claim("ORD-1")
@drawn(max_examples=40, seed=seeds(), scores=score_kinds(), order=permutations(7))
def test_permuting_the_input_permutes_the_output(
    attention: Attention, seed: int, scores: str, order: list[int]
) -> None:
    """Unmasked, whatever the sizes of the scores: the outputs follow their positions."""
    query, key, value = query_key_value(AttentionShape(2, 3, 7, 10), seed, scores=scores)
    # both round, each in its own order
    judge(
        attention(query[:, :, order], key[:, :, order], value[:, :, order], causal=False),
        attention(query, key, value, causal=False)[:, :, order],
        "without mask and positions, permuting the input only permutes the output",
        bound=2 * attention_error(query, key, value),
        axes=AXES,
        where={"order": order},
        remedy=REMEDY,
    )


@claim("ORD-1")
def test_the_printed_permutation(attention: Attention) -> None:
    """The article's five positions of width 8, seed 0, in float32: equivariant."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 8, generator=generator)
    weights = [torch.randn(8, 8, generator=generator) for _ in range(3)]
    order = torch.tensor([4, 2, 0, 1, 3])
    query, key, value = ((x @ each)[None, None] for each in weights)
    turned = ((x[order] @ each)[None, None] for each in weights)
    # the article's own tolerance
    judge(
        attention(*turned, causal=False),
        attention(query, key, value, causal=False)[:, :, order],
        "the article's example is equivariant",
        bound=1e-5,
        axes=AXES,
        remedy=REMEDY,
    )


@claim("ORD-1")
def test_every_permutation_of_four(attention: Attention) -> None:
    """All 24 orders at once, as a batch; and outputs do move: they are not all alike."""
    query, key, value = query_key_value(AttentionShape(1, 2, 4, 6), seed=3)
    orders = torch.tensor(list(itertools.permutations(range(4))))
    permuted = [each[0][:, orders].transpose(0, 1) for each in (query, key, value)]
    plain = attention(query, key, value, causal=False)
    bound = 2 * attention_error(query, key, value)
    judge(
        attention(*permuted, causal=False),
        plain[0][:, orders].transpose(0, 1),
        "each of the 24 orders of four positions permutes the output",
        bound=bound,
        axes=("order", "head", "position", "channel"),
        remedy=REMEDY,
    )
    judge_differs(plain[:, :, 0], plain[:, :, 1], "positions differ", least=1e3 * bound)


@claim("ORD-2")
@drawn(max_examples=20, seed=seeds())
def test_dog_bites_man_is_man_bites_dog(attention: Attention, seed: int) -> None:
    """The full stop after either sentence attends to the same set, hence takes in the same."""
    dog, bites, man, stop = normal(4, 1, 12, seed=seed)
    weights = normal(3, 12, 12, seed=seed + 1, scale=12**-0.5)
    outputs, inputs = [], []
    for sentence in ((dog, bites, man, stop), (man, bites, dog, stop)):
        x = torch.stack(sentence, dim=1)[None]  # (1, 1, 4, 12)
        inputs.append([_project(x, each) for each in weights])
        outputs.append(attention(*inputs[-1], causal=False)[0, 0, -1])
    bound = sum(attention_error(*each) for each in inputs)
    judge(
        outputs[1],
        outputs[0],
        "without positions the last token takes in the same from either word order",
        bound=bound,
        axes=("channel",),
        remedy=REMEDY,
    )
    other = [(torch.stack((dog, bites, bites, stop), dim=1)[None] @ each) for each in weights]
    judge_differs(
        attention(*other, causal=False)[0, 0, -1],
        outputs[0],
        "another word in the context does change what the last token takes in",
        least=1e3 * bound,
        component="attention",
    )


def _layer(attention: Attention, x: Tensor, seed: int) -> Tensor:
    """A causal layer with residual; weights keep the variance, so that softmax is not saturated."""
    projections = normal(3, x.shape[-1], x.shape[-1], seed=seed, scale=x.shape[-1] ** -0.5)
    return x + attention(*(_project(x, each) for each in projections), causal=True)


@claim("ORD-3")
@drawn(max_examples=20, seed=seeds(), order=permutations(6))
def test_the_mask_brings_order_to_the_last_position_only_in_two_layers(
    attention: Attention, seed: int, order: list[int]
) -> None:
    """Six tokens and a last one: permute the six; one layer's last output stays, two layers' not.

    In one layer the last query sees all six keys and values, which do not depend on order. What
    they turned into there does, and the second layer reads that.
    """
    if order == sorted(order):
        order = [5, 4, 3, 2, 1, 0]
    x = normal(1, 1, 7, 12, seed=seed)
    permuted = x[:, :, [*order, 6]]
    one = [_layer(attention, each, seed=1) for each in (x, permuted)]
    two = [_layer(attention, each, seed=2) for each in one]
    projections = normal(3, 12, 12, seed=1, scale=12**-0.5)
    rounding = 2 * attention_error(*(_project(x, each) for each in projections))
    where = {"order": order}
    judge(
        one[1][:, :, -1],
        one[0][:, :, -1],
        "in one causal layer the last position cannot tell the order of those before it",
        bound=rounding,
        where=where,
        remedy=REMEDY,
    )
    judge_differs(
        one[1],
        one[0][:, :, [*order, 6]],
        "the causal mask breaks equivariance",
        least=1e3 * rounding,
        where=where,
        remedy="Does `causal` hide later positions at all?",
    )
    judge_differs(
        two[1][:, :, -1],
        two[0][:, :, -1],
        "two causal layers bring some order even without positions",
        least=1e3 * rounding,
        where=where,
        remedy="Does `causal` hide later positions at all?",
    )


@claim("ORD-3")
@pytest.mark.parametrize("layers", [1, 2])
def test_a_model_without_positions_tells_order_from_its_second_layer_on(layers: int) -> None:
    """The reference with no positions: last logits of a permuted context, one layer and two."""
    config = GPTConfig(
        vocabulary=31, width=24, layers=layers, heads=2, positions="none", initial_std=24**-0.5
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        subject = model.GPT(config).double()
        ids = torch.tensor([[3, 1, 4, 15, 9, 2, 6], [9, 15, 3, 2, 1, 4, 6]])
        first, second = subject(ids)[:, -1]
        rounded = subject.float()(ids)[:, -1].double()
    # What the model makes of rounding, measured in float32 and brought to float64 (2^-29), is an
    # estimate that need not be the worst: hence the factor of a thousand, far below any signal.
    bound = 1e3 * 2.0**-29 * float((rounded - torch.stack([first, second])).abs().max())
    if layers == 1:
        judge(
            second,
            first,
            "one layer without positions ends in the same logits for a permuted context",
            bound=bound,
            axes=("token",),
            remedy=REMEDY,
        )
    else:
        judge_differs(second, first, "two layers tell a permuted context apart", least=bound)
