"""Rotary position embedding, on the fixture `rope`: a part of the reference, or anybody's own."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from theodolite.fixtures.judging.judgement import (
    judge,
    judge_differs,
    none_of,
    not_applicable,
    require,
)
from theodolite.fixtures.oracles import formulas as oracle
from theodolite.fixtures.oracles.rotation_matrix import (
    Rope,
    channel_pairs,
    frequency_error,
    pair_angles,
    published_frequencies,
    rotation_error,
    rotation_matrices,
    score_error,
)
from theodolite.fixtures.oracles.strategies import drawn, normal, positions, seeds
from theodolite.properties import claim

LONGEST = 511
"""Positions drawn for a part that may hold a table of limited length."""


@claim("ROPE-1")
@drawn(
    max_examples=40,
    seed=seeds(),
    m=positions(LONGEST),
    n=positions(LONGEST),
    shift=st.integers(1, LONGEST),
)
def test_scores_depend_on_the_distance_alone(
    rope: Rope, rope_width: int, *, seed: int, m: int, n: int, shift: int
) -> None:
    """⟨R_m q, R_n k⟩ = ⟨R_(m+s) q, R_(n+s) k⟩ for arbitrary q and k; another distance differs."""
    query, key = normal(2, 1, 1, 1, rope_width, seed=seed, dtype=torch.float32)
    places = torch.tensor([m, m + shift, n, n + shift, n + 1])
    turned_query = rope(query.expand(1, 1, 5, rope_width).contiguous(), places)[0, 0].double()
    turned_key = rope(key.expand(1, 1, 5, rope_width).contiguous(), places)[0, 0].double()
    here = turned_query[0] @ turned_key[2]
    there = turned_query[1] @ turned_key[3]
    where = {"m": m, "n": n, "shift": shift}
    judge(
        there,
        here,
        "the inner product of a query at m and a key at n depends on m - n alone",
        bound=score_error(query, key, m, n) + score_error(query, key, m + shift, n + shift),
        where=where,
        remedy="Is each turned by its own absolute position, with angles in float32 or better, and "
        "are both paired alike?",
    )
    judge_differs(
        turned_query[0] @ turned_key[4],
        here,
        "another distance gives another inner product",
        where=where,
        remedy="Does the rotation use the positions that it is given?",
    )


@claim("ROPE-2")
@drawn(max_examples=20, seed=seeds(), a=positions(LONGEST), b=positions(LONGEST))
def test_it_is_a_rotation(rope: Rope, rope_width: int, seed: int, a: int, b: int) -> None:
    """R_0 is the identity, lengths are kept, R_a R_b = R_(a+b), and the transpose undoes R_a."""
    zeroth, by_a, by_b, by_both = rotation_matrices(
        rope, rope_width, torch.tensor([0, a, b, a + b])
    )
    identity = torch.eye(rope_width, dtype=torch.float64)
    where = {"a": a, "b": b}
    axes = ("channel", "from channel")
    judge(zeroth, identity, "position 0 turns nothing", axes=axes, where=where)
    # whatever the angle, cos² + sin² = 1
    judge(
        by_a.T @ by_a,
        identity,
        "a rotation keeps lengths and right angles (RᵀR = 1)",
        bound=2 * rotation_error(0),
        axes=axes,
        where=where,
        remedy="Do the two channels of a pair take the same cos and the same sin?",
    )
    judge(
        by_a @ by_b,
        by_both,
        "turning by a and then by b is turning by a + b",
        bound=rotation_error(a) + rotation_error(b) + rotation_error(a + b),
        axes=axes,
        where=where,
        remedy="Is the angle position · frequency, computed in float32 or better?",
    )
    vector = normal(1, 1, 1, rope_width, seed=seed, dtype=torch.float32)
    judge(
        rope(vector, torch.tensor([a])).double().norm(),
        vector.double().norm(),
        "the length of a vector is kept",
        bound=float(vector.double().norm()) * rotation_error(0),
        where=where,
    )


@claim("ROPE-3")
def test_frequencies_are_geometric(rope: Rope, rope_width: int, rope_base: float) -> None:
    """Pair i turns base^(-2i/d) radians a position: the first 1 radian, the last slowest."""
    matrices = rotation_matrices(rope, rope_width, torch.tensor([1, 2, 3]))
    measured = pair_angles(matrices[:1], channel_pairs(matrices))[0].abs()
    published = published_frequencies(rope_width, rope_base)
    judge(
        measured / published,
        torch.ones_like(published),
        f"pair i turns {rope_base:g}^(-2i/d) radians a position",
        bound=frequency_error(rope_base),
        axes=("pair",),
        where={"d": rope_width},
        remedy="Is the exponent -2i/d with d the head width, and the base the one you mean?",
    )
    require(
        bool((measured[1:] < measured[:-1]).all()),
        "each pair turns more slowly than the one before it",
        where={"d": rope_width},
    )


@claim("ROPE-5")
def test_nothing_is_learned(rope: Rope) -> None:
    """A rotary embedding that is a module has no parameter that training would change."""
    if not isinstance(rope, nn.Module):
        not_applicable("the rotary embedding is a function, not a module: it holds no parameter")
    assert isinstance(rope, nn.Module)
    learned = [name for name, each in rope.named_parameters() if each.requires_grad]
    none_of(
        learned,
        "a rotary embedding has no learnable parameter",
        where={"parameters": learned},
        remedy="Keep frequencies and tables in buffers.",
    )


@claim("ROPE-5")
@drawn(
    max_examples=25,
    seed=seeds(),
    start=positions(LONGEST),
    length=st.sampled_from([1, 2, 5, 13, 64]),
)
def test_every_length_and_offset_turns_alike(
    rope: Rope, rope_width: int, seed: int, start: int, length: int
) -> None:
    """A stretch of positions on its own is turned as it is within the whole sequence."""
    whole = torch.arange(start + length)
    x = normal(1, 1, len(whole), rope_width, seed=seed, dtype=torch.float32)
    last = rotation_error(float(whole[-1])) * math.sqrt(2)  # per channel of a pair, twice over
    judge(
        rope(x[:, :, start:].contiguous(), whole[start:]),
        rope(x, whole)[:, :, start:],
        "how a position is turned depends on neither the length nor the offset of the call",
        bound=last * float(x.norm(dim=-1).max()),
        axes=("batch", "head", "position", "channel"),
        where={"start": start, "length": length},
        remedy="Is a precomputed table indexed by position, and long enough?",
    )


@claim("ROPE-5")
@drawn(
    max_examples=20,
    seed=seeds(),
    dtype=st.sampled_from([torch.bfloat16, torch.float16]),
    start=positions(LONGEST),
)
def test_half_precision_input_is_turned_by_exact_angles(
    rope: Rope, rope_width: int, seed: int, dtype: torch.dtype, start: int
) -> None:
    """Half precision loses the rounding of its own type, no more, at late positions too.

    The exact result is float32's on the same numbers. cos and sin may be rounded to the half type
    (v of a channel each), and so may two products and their sum: 3v of the pair's length on each
    channel, v more for float32's own error.
    """
    places = torch.arange(start, start + 16)
    x = normal(1, 1, len(places), rope_width, seed=seed, dtype=dtype)
    try:
        turned = rope(x, places)
    except (RuntimeError, TypeError) as refusal:
        not_applicable(f"the rotary embedding does not take {dtype}: {refusal}")
    exact = rope(x.float(), places).double()
    pairs = channel_pairs(rotation_matrices(rope, rope_width, torch.tensor([1, 2])))
    length = x.double()[..., pairs].norm(dim=-1)
    allowed = torch.empty_like(exact)
    allowed[..., pairs] = (4 * torch.finfo(dtype).eps / 2) * length[..., None].expand(
        *length.shape, 2
    )
    tiny = torch.finfo(dtype).tiny
    judge(
        (turned.double() - exact).abs() / (allowed + tiny),
        0.0,
        "half precision costs its own rounding and no accuracy of the angle",
        bound=1.0,
        axes=("batch", "head", "position", "channel"),
        where={"dtype": str(dtype), "first position": start},
        remedy="Keep positions, frequencies and their product in float32, whatever q's type is.",
    )


@claim("ROPE-7")
def test_channels_turn_in_fixed_pairs(rope: Rope, rope_width: int, rope_base: float) -> None:
    """Up to one permutation of channels every position is the textbook's block rotation."""
    places = torch.arange(LONGEST + 1)
    matrices = rotation_matrices(rope, rope_width, places)
    pairs = channel_pairs(matrices)
    angles = places[:, None].double() * published_frequencies(rope_width, rope_base)
    sense = pair_angles(matrices[1:2], pairs)[0].sign()  # either sense of turning is relative
    expected = torch.zeros_like(matrices)
    low, high = pairs.unbind(-1)
    expected[:, low, low] = expected[:, high, high] = angles.cos()
    expected[:, high, low] = angles.sin() * sense
    expected[:, low, high] = -expected[:, high, low]
    allowed = torch.tensor([rotation_error(float(place)) for place in places])
    judge(
        (matrices - expected) / allowed[:, None, None],
        0.0,
        "up to one fixed permutation of channels it is the rotation of pairs (2i, 2i+1)",
        bound=1.0,
        axes=("position", "channel", "from channel"),
        where={"d": rope_width},
        remedy="Is one pairing used throughout, for cos, for sin and for the channels?",
    )


@claim("ROPE-3", "ROPE-7")
@drawn(max_examples=10, seed=seeds(), start=positions(LONGEST))
def test_it_is_the_formula(
    rope: Rope, rope_width: int, rope_base: float, seed: int, start: int
) -> None:
    """Plain float64 loops from the formula give the same, in the pairing that the part uses."""
    matrices = rotation_matrices(rope, rope_width, torch.tensor([1, 2]))
    pairing, sense = (
        _named_pairing(channel_pairs(matrices)),
        pair_angles(matrices[:1], channel_pairs(matrices)).sign(),
    )
    if pairing is None or bool((sense != sense[0, 0]).any()):
        not_applicable("channels are paired in an order of the part's own")
    places = torch.arange(start, start + 5)
    x = normal(2, 3, len(places), rope_width, seed=seed, dtype=torch.float32)
    turns = (places * sense[0, 0]).numpy()
    assert pairing is not None
    judge(
        rope(x, places),
        oracle.rotate(x.numpy(), turns, base=rope_base, pairing=pairing),
        "x is turned by position · base^(-2i/d), as plain loops from the formula turn it",
        bound=rotation_error(start + 5) * float(x.norm(dim=-1).max()),
        axes=("batch", "head", "position", "channel"),
        where={"d": rope_width, "first position": start, "pairing": pairing},
    )


@claim("ROPE-8")
@drawn(max_examples=20, seed=seeds(), batch=st.sampled_from([1, 3]), heads=st.sampled_from([5, 1]))
def test_it_turns_along_the_sequence_and_nothing_else(
    rope: Rope, rope_width: int, seed: int, batch: int, heads: int
) -> None:
    """Every batch row and head is turned by the matrix of its position; positions differ."""
    places = torch.arange(7)
    matrices = rotation_matrices(rope, rope_width, places)
    x = normal(batch, heads, len(places), rope_width, seed=seed, dtype=torch.float32)
    turned = rope(x, places)
    allowed = rotation_error(6) * 2 * float(x.norm(dim=-1).max())
    judge(
        turned,
        torch.einsum("tij,bhtj->bhti", matrices, x.double()),
        "each head of each row is turned by its position in the sequence",
        bound=allowed,
        axes=("batch", "head", "position", "channel"),
        where={"B": batch, "H": heads, "T": 7, "d": rope_width},
        remedy="Is the angle laid along T, not along heads or the batch? Which layout comes in?",
    )
    judge_differs(
        matrices[1],
        matrices[2],
        "the next position is turned further",
        least=rotation_error(2) * 2,
        remedy="Does the rotation use the positions that it is given?",
    )


def _named_pairing(pairs: Tensor) -> Literal["interleaved", "half"] | None:
    half = len(pairs)
    if torch.equal(pairs, torch.arange(2 * half).view(half, 2)):
        return "interleaved"
    return "half" if torch.equal(pairs, torch.arange(2 * half).view(2, half).T) else None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@claim("ROPE-2")
def test_shape_and_type_are_kept(rope: Rope, rope_width: int, dtype: torch.dtype) -> None:
    """What comes out is as long, as wide and as precise as what went in, float64 included."""
    x = normal(2, 3, 5, rope_width, seed=0, dtype=dtype)
    turned = rope(x, torch.arange(5))
    require(turned.shape == x.shape, "rotation keeps the shape", where={"shape": turned.shape})
    require(turned.dtype == dtype, "rotation keeps the type", where={"dtype": turned.dtype})
