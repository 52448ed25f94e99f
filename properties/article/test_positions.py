"""Absolute positions, sinusoidal and learned, in the reference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import exactly, judge, judge_differs, none_of, require
from theodolite.fixtures.judging.rounding import score_error
from theodolite.fixtures.oracles.rotation_matrix import rotation_error
from theodolite.fixtures.oracles.strategies import drawn, offsets, positions
from theodolite.properties import claim
from theodolite.reference import attention, model, rotary
from theodolite.reference import positions as reference
from theodolite.reference.config import GPTConfig, PositionKind

DOUBLE = torch.float64
WIDTHS = st.sampled_from([6, 2, 64])


@claim("POS-1")
@drawn(max_examples=20, width=WIDTHS, position=positions())
def test_sinusoidal_positions_are_the_formula(width: int, position: int) -> None:
    """sin(m·base^(-2i/C)) and cos of the same, side by side, as plain loops give them."""
    expected = np.empty(width)
    for i in range(width // 2):
        angle = position * 10000.0 ** (-2 * i / width)
        expected[2 * i], expected[2 * i + 1] = math.sin(angle), math.cos(angle)
    judge(
        reference.sinusoidal(torch.tensor([position]), width)[0],
        expected,
        "channels 2i and 2i+1 are sine and cosine of m·10000^(-2i/C)",
        bound=rotation_error(position, DOUBLE),
        axes=("channel",),
        where={"position": position, "C": width},
        component="position",
    )


@claim("POS-1")
@drawn(max_examples=30, width=WIDTHS, m=positions(4096), n=positions(4096), shift=offsets())
def test_products_depend_on_the_distance_alone(width: int, m: int, n: int, shift: int) -> None:
    """PE(m)·PE(n) = PE(m+s)·PE(n+s): vectors of length √(C/2), each wrong by its rotation."""
    at_m, at_n, later_m, later_n = reference.sinusoidal(
        torch.tensor([m, n, m + shift, n + shift]), width
    )
    furthest = max(abs(place) for place in (m, n, m + shift, n + shift))
    judge(
        later_m @ later_n,
        at_m @ at_n,
        "PE(m)·PE(n) depends on m - n alone",
        bound=width / 2 * (4 * rotation_error(furthest, DOUBLE) + width * torch.finfo(DOUBLE).eps),
        where={"m": m, "n": n, "shift": shift, "C": width},
        component="position",
    )


@claim("POS-1")
@drawn(max_examples=30, width=WIDTHS, k=offsets(), m=positions(4096))
def test_a_shift_is_one_linear_map(width: int, k: int, m: int) -> None:
    """PE(m+k) = M_k PE(m), M_k built from k alone: each pair turned by k·θ_i."""
    places = torch.tensor([0, 1, m, m + k])
    zeroth, _, before, after = reference.sinusoidal(places, width)
    turned = reference.sinusoidal(torch.tensor([k]), width)[0]
    sine, cosine = turned[0::2], turned[1::2]
    moved = torch.stack(
        (
            before[0::2] * cosine + before[1::2] * sine,
            before[1::2] * cosine - before[0::2] * sine,
        ),
        dim=-1,
    ).flatten()
    furthest = max(abs(k), m, abs(m + k))
    where = {"m": m, "k": k, "C": width}
    judge(
        moved,
        after,
        "one matrix, made from k alone, takes PE(m) to PE(m+k) for every m",
        bound=3 * rotation_error(furthest, DOUBLE),
        axes=("channel",),
        where=where,
        component="position",
    )
    judge(
        zeroth,
        torch.tensor([0.0, 1.0]).repeat(width // 2),
        "PE(0) is sin 0 and cos 0",
        axes=("channel",),
        component="position",
    )


@claim("POS-1")
def test_sinusoidal_positions_are_fixed() -> None:
    """Nothing to learn, nothing to save, no end."""
    module = reference.SinusoidalPositions(24)
    held = [name for name, _ in module.named_parameters()] + list(module.state_dict())
    none_of(
        held,
        "sinusoidal positions hold nothing that training changes",
        where={"held": held},
        component="position",
    )
    far = module(torch.tensor([10**6]))
    require(
        bool((far.abs() <= 1).all()), "any position has a vector of sines", component="position"
    )


def _sharp_model(kind: PositionKind, *, context: int | None = None) -> model.GPT:
    config = GPTConfig(
        vocabulary=31,
        width=24,
        layers=2,
        heads=2,
        positions=kind,
        context=context,
        initial_std=24**-0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return model.GPT(config).double().eval()


@claim("POS-1", "POS-2")
@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_are_added_to_the_embedding(kind: PositionKind) -> None:
    """What enters the first block is token vector plus position vector, the same in every row."""
    subject = _sharp_model(kind, context=16 if kind == "learned" else None)
    ids = torch.randint(31, (3, 7), generator=torch.Generator().manual_seed(1))
    streams: list[Tensor] = []
    subject.blocks[0].register_forward_pre_hook(lambda _, given: streams.append(given[0]))
    with torch.no_grad():
        subject(ids)
        if isinstance(subject.positions, reference.LearnedPositions):
            vectors = subject.positions.table.weight[:7]
        else:
            vectors = reference.sinusoidal(torch.arange(7), 24)
        judge(
            streams[0],
            subject.embedding.weight[ids] + vectors,
            f"a {kind} vector for each position is added to the token's embedding",
            axes=("row", "position", "channel"),
            component="position",
        )


@claim("POS-2")
def test_each_position_has_one_learned_vector() -> None:
    """Context × C numbers to learn, all different, and the gradient of one reaches it alone."""
    module = reference.LearnedPositions(16, 24)
    count = sum(each.numel() for each in module.parameters())
    exactly(
        count,
        16 * 24,
        "there is one learned vector of C numbers for each position",
        component="position",
    )
    read = module(torch.tensor([3, 5])).sum()
    (gradient,) = torch.autograd.grad(read, list(module.parameters()))
    reached = gradient.abs().sum(-1).nonzero().flatten().tolist()
    require(
        reached == [3, 5],
        "using positions 3 and 5 trains their two vectors alone",
        where={"trained": reached},
        component="position",
    )


@claim("POS-2")
@drawn(max_examples=10, context=st.integers(2, 20), past=st.integers(0, 5))
def test_a_position_past_the_table_is_refused(context: int, past: int) -> None:
    """Position `context` and later, and before 0: an error that names the position and the end."""
    module = reference.LearnedPositions(context, 6)
    subject = _sharp_model("learned", context=context)
    ids = torch.zeros(1, context + 1 + past, dtype=torch.long)
    attempts: dict[str, Callable[[], Tensor]] = {
        "the table": lambda: module(torch.tensor([0, context + past])),
        "the table, before 0": lambda: module(torch.tensor([0, -1 - past])),
        "the model, too long a text": lambda: subject(ids),
        "the model, too late a position": lambda: subject(
            ids[:, :1], positions=torch.tensor([context + past])
        ),
    }
    module(torch.arange(context))  # the table itself is used to its end
    subject(ids[:, :context])
    for name, attempt in attempts.items():
        message = None
        try:
            attempt()
        except ValueError as refusal:
            message = str(refusal)
        except Exception as crash:
            message = f"{type(crash).__name__}: {crash}"
        require(
            message is not None and re.search(rf"\b({context}|{context - 1})\b", message),
            "a position past the table is refused by an error that names its end",
            where={"asked of": name, "context": context, "said": message},
            remedy="Check positions against the table before looking them up.",
            component="position",
        )


@torch.no_grad()
def _score(subject: model.GPT, places: Tensor) -> tuple[Tensor, float]:
    """First-layer score of token 7 for token 3, standing at `places`, and its rounding error."""
    found: list[tuple[Tensor, float]] = []

    def keep(
        module: attention.MultiHeadAttention, given: tuple[Tensor], options: dict[str, Any]
    ) -> None:
        query, key, _ = module.project(given[0])
        if options.get("rotation") is not None:
            query = rotary.apply_rotation(query, options["rotation"])
            key = rotary.apply_rotation(key, options["rotation"])
        error = score_error(query, key) + 2 * rotation_error(float(places.max()), DOUBLE) * float(
            query.norm(dim=-1).max() * key.norm(dim=-1).max()
        )
        found.append((attention.attention_scores(query, key)[0, :, 1, 0], error))

    hooks = [
        each.register_forward_pre_hook(keep, with_kwargs=True)
        for each in subject.modules()
        if isinstance(each, attention.MultiHeadAttention)
    ]
    try:
        subject(torch.tensor([[3, 7]]), positions=places)
    finally:
        for hook in hooks:
            hook.remove()
    return found[0]


@claim("POS-3")
@drawn(max_examples=15, m=st.integers(0, 30), distance=st.integers(1, 30), shift=st.integers(1, 60))
def test_absolute_positions_see_a_shift_and_rope_does_not(
    m: int, distance: int, shift: int
) -> None:
    """The score of the same two tokens, both moved by `shift`, under each way of telling order."""
    places = torch.tensor([m, m + distance])
    for kind in ("rotary", "sinusoidal", "learned"):
        subject = _sharp_model(kind, context=128 if kind == "learned" else None)
        (before, error), (after, later_error) = (_score(subject, places + by) for by in (0, shift))
        where = {"positions": kind, "m": m + distance, "n": m, "shift": shift}
        if kind == "rotary":
            judge(
                after,
                before,
                "with RoPE the score of two tokens stays when both are moved",
                bound=error + later_error,
                axes=("head",),
                where=where,
                component="rope",
            )
        else:
            judge_differs(
                after,
                before,
                f"with {kind} positions the score of two tokens changes when both are moved",
                least=1e3 * (error + later_error),
                where=where,
                component="position",
            )
