"""GPT: what transpose does to memory, and how heads are split and joined (quiz 4)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import judge, judge_differs, require
from theodolite.fixtures.oracles.strategies import drawn, normal, seeds
from theodolite.properties import claim
from theodolite.reference import attention

NOISE = 64 * 2.0**-53
"""Of one attention in float64, relative to its largest value."""

AXES = ("row", "position", "channel")


class Sizes(NamedTuple):
    """Batch, heads, length and head width, all different."""

    batch: int
    heads: int
    length: int
    width: int


SIZES = st.sampled_from([Sizes(2, 4, 7, 6), Sizes(3, 2, 5, 4), Sizes(1, 3, 2, 8)])


def _joined_by_hand(heads: Tensor) -> Tensor:
    """(B, H, T, d) -> (B, T, H·d): each head's channels side by side."""
    return torch.cat(list(heads.unbind(1)), dim=-1)


@claim("GPT-4")
@drawn(max_examples=10, sizes=SIZES, seed=seeds())
def test_view_after_transpose_raises_and_reshape_copies(sizes: Sizes, seed: int) -> None:
    """After transpose(1, 2) no stride can walk (T, H·d) without a copy."""
    heads = normal(*sizes, seed=seed)
    turned = heads.transpose(1, 2)
    joined = (sizes.batch, sizes.length, sizes.heads * sizes.width)
    require(not turned.is_contiguous(), "after transpose(1, 2) memory is out of order")
    require(
        turned.untyped_storage().data_ptr() == heads.untyped_storage().data_ptr(),
        "transpose itself moves nothing",
    )
    try:
        turned.view(joined)
    except RuntimeError:
        refused = True
    else:
        refused = False
    require(refused, "view to (B, T, C) raises after transpose(1, 2)")
    copied = turned.reshape(joined)
    require(
        copied.untyped_storage().data_ptr() != heads.untyped_storage().data_ptr(),
        "reshape to (B, T, C) copies",
    )
    says = "reshape joins the heads' channels side by side"
    judge(copied, _joined_by_hand(heads), says, axes=AXES)


@claim("GPT-4")
@drawn(max_examples=10, sizes=SIZES, seed=seeds())
def test_view_straight_to_heads_raises_nothing_and_scrambles_them(sizes: Sizes, seed: int) -> None:
    """(B, T, C) in order seen as (B, H, T, d): a head then holds pieces of several positions."""
    batch, heads, length, width = sizes
    x = normal(batch, length, heads * width, seed=seed)
    right = x.view(batch, length, heads, width).transpose(1, 2)
    straight = x.view(batch, heads, length, width)
    judge_differs(
        straight,
        right,
        "view straight to (B, H, T, d) gives other heads than view and transpose",
        least=0.1,
    )
    judge(straight.flatten(), x.flatten(), "no value is lost by it, which is why nothing complains")
    judge(
        right.flatten(0, 1),
        torch.cat([piece for row in x for piece in row.split(width, dim=-1)]).view_as(
            right.flatten(0, 1)
        ),
        "view to (B, T, H, d) and transpose gives each head its own channels",
    )


@claim("GPT-4")
@drawn(max_examples=15, sizes=SIZES, seed=seeds())
def test_each_head_is_given_its_own_channels_of_every_position(sizes: Sizes, seed: int) -> None:
    """Head h of the reference reads channels h·d … (h + 1)·d - 1 of query, key and value."""
    batch, heads, length, width = sizes
    part, x = _attention(sizes, seed)
    with torch.no_grad():
        joined = part.qkv(x).split(heads * width, dim=-1)
        found = part.project(x)
    for name, split, whole in zip(("query", "key", "value"), found, joined, strict=True):
        require(
            tuple(split.shape) == (batch, heads, length, width),
            f"{name} is split into (B, H, T, d)",
            where={"shape": tuple(split.shape)},
        )
        for head in range(heads):
            judge(
                split[:, head],
                whole[..., head * width : (head + 1) * width],
                f"a head's {name} is its own slice of channels, position by position",
                bound=NOISE * float(whole.abs().max()),
                axes=AXES,
                where={"head": head},
                remedy="view to (B, T, H, d), then transpose; not view to (B, H, T, d)",
                component="heads",
            )


@claim("GPT-4")
@drawn(max_examples=15, sizes=SIZES, seed=seeds())
def test_joined_heads_stand_side_by_side(sizes: Sizes, seed: int) -> None:
    """The reference's joined output against each head's own attention, set side by side."""
    part, _ = _attention(sizes, seed)
    query, key, value = normal(3, *sizes, seed=seed)
    expected = _joined_by_hand(
        attention.scaled_dot_product_attention(query, key, value, causal=True)
    )
    judge(
        part.attend(query, key, value, mask=None, causal=True),
        expected,
        "channels h·d … (h + 1)·d - 1 of the joined output are head h's",
        bound=NOISE * float(expected.abs().max()),
        axes=AXES,
        remedy="transpose(1, 2) before the heads are joined, and reshape instead of view",
        component="heads",
    )


def _attention(sizes: Sizes, seed: int) -> tuple[attention.MultiHeadAttention, Tensor]:
    width = sizes.heads * sizes.width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        part = attention.MultiHeadAttention(width, sizes.heads).double()
    return part.requires_grad_(False), normal(sizes.batch, sizes.length, width, seed=seed)
