"""Rotary position embedding, the reference's own: printed figures, tables, base and pairings."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import judge, judge_differs, none_of, require
from theodolite.fixtures.oracles.rotation_matrix import score_error
from theodolite.fixtures.oracles.strategies import drawn, normal, offsets, positions, seeds
from theodolite.properties import claim
from theodolite.reference import model, rotary
from theodolite.reference.config import GPTConfig

EXACT = torch.finfo(torch.float64).eps


@claim("ROPE-1")
def test_the_printed_inner_products() -> None:
    """-10.1427 for (3, 1), (10, 8) and (1002, 1000), from seed 0 in float32."""
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 64, generator=generator) for _ in range(2))
    for m, n in ((3, 1), (10, 8), (1002, 1000)):
        turned = rotary.rotate(query, torch.tensor([m])), rotary.rotate(key, torch.tensor([n]))
        # half a unit of the last printed digit
        judge(
            (turned[0] * turned[1]).sum(),
            -10.1427,
            "the article's three pairs two positions apart have the inner product -10.1427",
            bound=0.5e-4,
            where={"m": m, "n": n},
            component="rope",
        )


@claim("ROPE-1")
@drawn(max_examples=30, seed=seeds(), m=positions(), n=positions(), shift=offsets())
def test_scores_depend_on_the_distance_however_far(seed: int, m: int, n: int, shift: int) -> None:
    """In float64 at positions up to 32,768, shifted to either side, before 0 as well."""
    query, key = normal(2, 1, 64, seed=seed)
    here, there = (
        (rotary.rotate(query, torch.tensor([m + by])) * rotary.rotate(key, torch.tensor([n + by])))
        .sum()
        .item()
        for by in (0, shift)
    )
    double = torch.float64
    judge(
        there,
        here,
        "the inner product depends on m - n alone",
        bound=score_error(query, key, m, n, double)
        + score_error(query, key, m + shift, n + shift, double),
        where={"m": m, "n": n, "shift": shift},
        component="rope",
    )


@claim("ROPE-2")
@drawn(max_examples=20, seed=seeds(), m=offsets(), width=st.sampled_from([6, 2, 64]))
def test_minus_m_undoes_m(seed: int, m: int, width: int) -> None:
    """R_(-m) R_m x = x, in float64: cos and sin of both angles are exactly alike or opposite."""
    x = normal(3, width, seed=seed)
    there = rotary.rotate(x, torch.full((3,), m))
    # two rotations, six roundings of u each
    judge(
        rotary.rotate(there, torch.full((3,), -m)),
        x,
        "turning by -m undoes turning by m",
        bound=8 * EXACT * float(x.norm(dim=-1).max()),
        axes=("row", "channel"),
        where={"m": m, "d": width},
        component="rope",
    )


@claim("ROPE-5")
def test_the_module_holds_nothing_to_learn() -> None:
    """No parameter, and nothing in a checkpoint, with a table or without."""
    for length in (None, 64):
        module = rotary.Rotary(16, length=length)
        module(torch.arange(4))
        held = [name for name, _ in module.named_parameters()] + list(module.state_dict())
        none_of(
            held,
            "a rotary embedding learns nothing and saves nothing",
            where={"length": length},
            component="rope",
        )


@claim("ROPE-5")
@drawn(
    max_examples=30,
    width=st.sampled_from([6, 2, 64]),
    start=st.integers(0, 200),
    length=st.sampled_from([1, 13, 56]),
    pairing=st.sampled_from(["interleaved", "half"]),
)
def test_a_table_is_what_would_be_computed(
    width: int, start: int, length: int, pairing: rotary.Pairing
) -> None:
    """Looked up or computed at once, at every offset and length: the same cos and sin."""
    places = torch.arange(start, start + length)
    looked_up = rotary.Rotary(width, pairing=pairing, length=256)(places)
    computed = rotary.Rotary(width, pairing=pairing)(places)
    for name, one, other in zip(("cosine", "sine"), looked_up, computed, strict=False):
        # a unit in the last place: cos differs so between vector and scalar code
        judge(
            one,
            other,
            f"a precomputed {name} is the one computed for the same position",
            bound=EXACT,
            axes=("position", "pair"),
            where={"d": width, "start": start, "length": length},
            component="rope",
        )
    require(looked_up.pairing == computed.pairing == pairing, "the pairing is kept")


@claim("ROPE-5")
def test_casting_the_model_does_not_touch_the_angles() -> None:
    """A model cast to half precision turns late positions by the same angles as before."""
    places = torch.arange(1000, 1024)
    for context in (None, 1024):
        fresh = model.GPT(GPTConfig(layers=1, context=context))
        exact = fresh.rotary(places) if fresh.rotary is not None else None
        for dtype in (torch.bfloat16, torch.float16):
            cast = model.GPT(GPTConfig(layers=1, context=context)).to(dtype)
            found = cast.rotary(places) if cast.rotary is not None else None
            assert exact is not None
            assert found is not None
            for name in ("cosine", "sine"):
                judge(
                    getattr(found, name),
                    getattr(exact, name),
                    f"casting a model to {dtype} leaves the {name} of every angle as it was",
                    bound=EXACT,
                    axes=("position", "pair"),
                    where={"first position": 1000, "table": context is not None},
                    remedy="Keep frequencies and tables out of what a cast reaches.",
                    component="rope",
                )


@claim("ROPE-6")
@drawn(
    max_examples=20,
    width=st.sampled_from([6, 4, 64, 128]),
    base=st.sampled_from([10000.0, 500.0]),
    factor=st.sampled_from([2.0, 50.0, 1000.0]),
)
def test_a_larger_base_slows_every_pair_but_the_first(
    width: int, base: float, factor: float
) -> None:
    """Pair i slows by factor^(-2i/d).

    Relative rounding: exponents of three powers, each worth ln(its base) units, and three more
    units for each power and quotient.
    """
    before = rotary.rotary_frequencies(width, base=base)
    after = rotary.rotary_frequencies(width, base=base * factor)
    powers = [factor ** (-2 * i / width) for i in range(width // 2)]
    wanted = torch.tensor(powers, dtype=torch.float64)
    where = {"d": width, "base": base, "larger by": factor}
    judge(after[0], before[0], "the first pair keeps its pace", where=where, component="rope")
    require(
        bool((after[1:] < before[1:]).all()),
        "a larger base slows every other pair",
        where=where,
        component="rope",
    )
    judge(
        after / before / wanted,
        torch.ones_like(before),
        "pair i slows by the factor to the power -2i/d",
        bound=(2 * math.log(base * factor) + 9) * EXACT / 2,
        axes=("pair",),
        where=where,
        component="rope",
    )


@claim("ROPE-6")
@drawn(max_examples=20, seed=seeds(), m=positions(4096), s=st.sampled_from([2.0, 8.0, 3.0, 1.5]))
def test_interpolation_makes_position_s_m_look_like_m(seed: int, m: int, s: float) -> None:
    """Turning s·m with interpolation s is turning m without; a fractional position is one."""
    x = normal(1, 64, seed=seed)
    # the angle m·θ carries three roundings more than in `rotation_error`: s·m, θ/s, product
    judge(
        rotary.rotate(x, torch.tensor([s * m], dtype=torch.float64), interpolation=s),
        rotary.rotate(x, torch.tensor([m])),
        "interpolation by s turns position s·m as position m is turned without it",
        bound=(8 * m + 12) * EXACT * float(x.norm()),
        axes=("row", "channel"),
        where={"m": m, "s": s},
        component="rope",
    )
    if m:
        judge_differs(
            rotary.rotate(x, torch.tensor([m]), interpolation=s),
            rotary.rotate(x, torch.tensor([m])),
            "interpolation changes how a position is turned",
            least=(8 * m + 12) * EXACT * float(x.norm()),
            where={"m": m, "s": s},
            component="rope",
        )


@claim("ROPE-7")
@drawn(
    max_examples=20,
    seed=seeds(),
    width=st.sampled_from([6, 2, 64]),
    m=positions(4096),
    n=positions(4096),
)
def test_the_two_conventions_are_one_permutation_apart(
    seed: int, width: int, m: int, n: int
) -> None:
    """Sort even channels before odd ones and the interleaved rotation is the half-split one."""
    query, key = normal(2, 1, width, seed=seed)
    order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    at_m, at_n = torch.tensor([m]), torch.tensor([n])
    where = {"d": width, "m": m, "n": n}
    # the same products and sums, in other places
    judge(
        rotary.rotate(query[..., order], at_m, pairing="half"),
        rotary.rotate(query, at_m)[..., order],
        "the half-split rotation is the interleaved one with even channels sorted first",
        axes=("row", "channel"),
        where=where,
        component="rope",
    )
    conventions: dict[rotary.Pairing, Tensor] = {"interleaved": torch.arange(width), "half": order}
    scores = [
        rotary.rotate(query[..., sort], at_m, pairing=pairing)
        @ rotary.rotate(key[..., sort], at_n, pairing=pairing).T
        for pairing, sort in conventions.items()
    ]
    # one sum of d products in two orders
    judge(
        scores[1],
        scores[0],
        "either convention, used consistently, gives the same scores",
        bound=width * EXACT * float(query.norm() * key.norm()),
        where=where,
        component="rope",
    )


@claim("ROPE-7")
@drawn(max_examples=15, seed=seeds(), width=st.sampled_from([6, 8, 64]))
def test_mixed_conventions_are_no_rotation(seed: int, width: int) -> None:
    """Half-split partners with interleaved angles change lengths.

    Queries turned one way and keys the other make a distance's score depend on where it is.
    """
    query, key = normal(2, 1, width, seed=seed)
    angles = 3 * rotary.rotary_frequencies(width)
    partner = torch.cat([-query[..., width // 2 :], query[..., : width // 2]], -1)
    angle = angles.repeat_interleave(2)
    mixed = query * angle.cos() + partner * angle.sin()
    least = 1e-6 * float(query.norm() * key.norm())  # rounding is 1e-13 here
    where = {"d": width}
    judge_differs(
        mixed.norm(), query.norm(), "mixed pairing changes lengths", least=least, where=where
    )
    near, far = (
        rotary.rotate(query, torch.tensor([by + 2]), pairing="interleaved")
        @ rotary.rotate(key, torch.tensor([by]), pairing="half").T
        for by in (0, 5)
    )
    judge_differs(
        near,
        far,
        "queries turned one way and keys the other see absolute positions",
        least=least,
        where=where,
    )
