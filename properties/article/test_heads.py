"""MHA: many small attentions in the channels of one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from theodolite.fixtures.judging.judgement import judge, judge_differs, require
from theodolite.fixtures.judging.rounding import attention_error, product_error
from theodolite.fixtures.oracles.strategies import drawn, normal, seeds
from theodolite.properties import claim
from theodolite.reference import attention as reference
from theodolite.reference.config import GPTConfig

AXES = ("row", "position", "channel")
LENGTH = 7
head_counts = st.sampled_from([2, 3, 4, 6])
WIDTH = 24


def layer_of(heads: int, seed: int, width: int = WIDTH) -> reference.MultiHeadAttention:
    """A float64 layer whose weights keep the variance of their input."""
    layer = reference.MultiHeadAttention(width, heads).double()
    with torch.no_grad():
        for index, weight in enumerate(layer.parameters()):
            weight.copy_(normal(*weight.shape, seed=seed + index, scale=weight.shape[1] ** -0.5))
    return layer.requires_grad_(requires_grad=False)


def layer_error(layer: reference.MultiHeadAttention, x: Tensor) -> float:
    """Bound on the rounding of a whole layer: projection, attention, output projection.

    An error e in q and k moves a score by at most e·√d times the longest of them (twice, and again
    for the softmax), hence the output by that times the largest value.
    """
    query, key, value = layer.project(x)
    e = product_error(x, layer.qkv.weight.T)
    longest = float(torch.maximum(query.norm(dim=-1).amax(), key.norm(dim=-1).amax()))
    mean = attention_error(query, key, value) + e + 4 * e * longest * float(value.abs().max())
    columns = float(layer.output.weight.abs().sum(dim=1).max())
    joined = value.abs().amax().expand(1, layer.output.weight.shape[1])
    return columns * mean + product_error(joined, layer.output.weight.T)


@claim("MHA-1", component="heads")
@pytest.mark.parametrize("width", [16, 24, 64])
def test_heads_cost_neither_parameters_nor_operations(width: int) -> None:
    """4·d² parameters, and 2·B·T·(4·d² + 2·T·d) operations, for 1, 2, 4 and 8 heads."""
    x = normal(3, LENGTH, width, seed=0, dtype=torch.float32)
    for heads in (1, 2, 4, 8):
        layer = reference.MultiHeadAttention(width, heads)
        where = {"heads": heads, "width": width}
        judge(
            sum(each.numel() for each in layer.parameters()),
            4 * width**2,
            "attention has 4·d² parameters, whatever the number of heads",
            where=where,
            remedy="is each head d/h wide, and are the four matrices d by d?",
        )
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            layer(x)
        judge(
            counter.get_total_flops(),
            2 * 3 * LENGTH * (4 * width**2 + 2 * LENGTH * width),
            "attention takes the same operations, whatever the number of heads",
            where=where,
        )


@claim("MHA-2", component="heads")
@drawn(max_examples=30, heads=head_counts, seed=seeds(), which=st.sampled_from("qkv"))
def test_a_head_moves_its_own_slice_alone(heads: int, seed: int, which: str) -> None:
    """Changing one head's q, k or v changes that head's channels of the joined output only."""
    layer = layer_of(heads, seed)
    width = WIDTH // heads
    given = list(normal(3, 2, heads, LENGTH, width, seed=seed))
    before = layer.attend(*given, mask=None, causal=True)
    head = seed % heads
    changed = [x.clone() for x in given]
    changed["qkv".index(which)][:, head] = normal(2, LENGTH, width, seed=seed + 1)
    after = layer.attend(*changed, mask=None, causal=True)
    own = torch.arange(WIDTH) // width == head
    bound = attention_error(*given)
    where = {"heads": heads, "changed": f"{which} of head {head}"}
    judge(
        after[..., ~own],
        before[..., ~own],
        "a head leaves the channels of the others alone",
        bound=bound,
        axes=AXES,
        where=where,
        remedy="are heads split from channels, and joined again, along the same axes?",
    )
    judge_differs(
        after[..., own],
        before[..., own],
        "a head moves its own channels",
        least=2 * bound,
        where=where,
    )


@claim("MHA-3", component="heads")
@drawn(max_examples=20, heads=head_counts, seed=seeds())
def test_one_fused_projection_is_three(heads: int, seed: int) -> None:
    layer = layer_of(heads, seed)
    x = normal(2, LENGTH, WIDTH, seed=seed)
    bound = 2 * product_error(x, layer.qkv.weight.T)
    separate = layer.qkv.weight.split(WIDTH)
    for name, weight, fused in zip(
        ("queries", "keys", "values"), separate, layer.project(x), strict=True
    ):
        heads_apart = [F.linear(x, rows) for rows in weight.split(WIDTH // heads)]
        judge(
            fused,
            torch.stack(heads_apart, dim=1),
            f"the fused projection gives the {name} that one of their own would give",
            bound=bound,
            axes=("row", "head", "position", "channel"),
            where={"heads": heads},
            remedy="in what order do the rows of the fused matrix hold q, k, v and heads?",
        )


@claim("MHA-4", component="heads")
@drawn(max_examples=20, heads=head_counts, seed=seeds())
def test_joined_heads_pass_through_the_output_projection(heads: int, seed: int) -> None:
    """Head after head in the channels, then one full matrix over all of them."""
    layer = layer_of(heads, seed)
    x = normal(2, LENGTH, WIDTH, seed=seed)
    query, key, value = layer.project(x)
    one_by_one = [
        reference.scaled_dot_product_attention(
            query[:, head], key[:, head], value[:, head], causal=True
        )
        for head in range(heads)
    ]
    judge(
        layer(x),
        torch.cat(one_by_one, dim=-1) @ layer.output.weight.T,
        "the layer's output is W_O applied to its heads, joined in order",
        bound=2 * layer_error(layer, x),
        axes=AXES,
        where={"heads": heads},
        remedy="is there an output projection, and does it mix all heads?",
    )


@claim("MHA-4", component="heads")
@drawn(max_examples=20, heads=head_counts, seed=seeds())
def test_the_order_of_heads_does_not_matter(heads: int, seed: int) -> None:
    """Permute heads in q, k, v and in the columns of W_O together."""
    layer, permuted = layer_of(heads, seed), layer_of(heads, seed)
    x = normal(2, LENGTH, WIDTH, seed=seed)
    order = torch.arange(WIDTH).view(heads, -1).roll(1, dims=0).flatten()
    rows = torch.cat([order, order + WIDTH, order + 2 * WIDTH])
    permuted.qkv.weight.copy_(layer.qkv.weight[rows])
    half_done = permuted(x)
    permuted.output.weight.copy_(layer.output.weight[:, order])
    bound = 2 * layer_error(layer, x)
    judge(
        permuted(x),
        layer(x),
        "permuting heads together with the columns of W_O changes nothing",
        bound=bound,
        axes=AXES,
        where={"heads": heads},
        remedy="is every head treated alike, and does W_O read them in the order of q, k and v?",
    )
    judge_differs(
        half_done,
        layer(x),
        "permuting heads without the columns of W_O changes the output",
        least=bound,
        remedy="is the output projection used?",
    )


@claim("MHA-5", component="heads")
@drawn(max_examples=20, seed=seeds(), first=st.integers(0, 6), second=st.integers(0, 6))
def test_two_heads_look_at_two_places_and_one_cannot(seed: int, first: int, second: int) -> None:
    """Values spell their position twice: one head must spell the same place in both halves."""
    spelled = torch.eye(LENGTH, dtype=torch.float64).expand(1, 1, LENGTH, LENGTH)
    twice = torch.cat([spelled, spelled], dim=-1)
    single = layer_of(1, seed, 2 * LENGTH)
    query, key = normal(2, 1, 1, LENGTH, 2 * LENGTH, seed=seed)
    left, right = single.attend(query, key, twice, mask=None, causal=False).split(LENGTH, dim=-1)
    judge(
        left,
        right,
        "one head gives every channel the same weights",
        bound=attention_error(query, key, twice),
        axes=AXES,
    )
    double = layer_of(2, seed, 2 * LENGTH)
    pointed = 50.0 * torch.stack([spelled[0, 0, first], spelled[0, 0, second]])
    query = pointed[None, :, None].expand(1, 2, LENGTH, LENGTH)
    both = spelled.expand(1, 2, LENGTH, LENGTH)
    joined = double.attend(query, both, both, mask=None, causal=False)
    places = joined[0].unflatten(-1, (2, LENGTH)).argmax(dim=-1)
    judge(
        places,
        torch.tensor([first, second]).expand(LENGTH, 2),
        "two heads of one layer look at the two places that their queries ask for",
        axes=("position", "head"),
        remedy="does each head use its own queries and keys?",
    )


@claim("MHA-5", component="heads")
@drawn(max_examples=10, heads=head_counts, seed=seeds())
def test_heads_of_one_layer_attend_differently(heads: int, seed: int) -> None:
    layer = layer_of(heads, seed)
    query, key, _ = layer.project(normal(2, LENGTH, WIDTH, seed=seed))
    weights = reference.attention_weights(reference.attention_scores(query, key))
    for head in range(1, heads):
        judge_differs(
            weights[:, head],
            weights[:, 0],
            "two heads of one layer have two patterns of attention",
            least=2 * attention_error(query, key, torch.ones_like(query)),
            where={"heads": (0, head)},
            remedy="does each head have rows of its own in the projections?",
        )


@claim("MHA-6", component="heads")
@drawn(max_examples=40, width=st.integers(1, 40), heads=st.integers(1, 12))
def test_heads_divide_the_width_or_are_refused(width: int, heads: int) -> None:
    where = {"width": width, "heads": heads}
    try:
        layer = reference.MultiHeadAttention(width, heads)
        GPTConfig(width=width, heads=heads, positions="none")
    except ValueError as error:
        require(width % heads, "a width that its heads divide is accepted", where=where)
        require(
            str(width) in str(error) and str(heads) in str(error),
            "the refusal names the width and the number of heads",
            where={**where, "said": str(error)},
        )
        return
    require(
        width % heads == 0,
        "a width that its heads do not divide is refused",
        where=where,
        remedy="raise an error that names both numbers, before any tensor is made",
    )
    judge(layer.head_width, width // heads, "d_head is d_model/h", where=where)
