"""Rotary position embedding where it belongs: inside the reference's attention, in every layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import exactly, judge, judge_differs
from theodolite.fixtures.oracles import formulas as oracle
from theodolite.fixtures.oracles.rotation_matrix import rotation_error
from theodolite.fixtures.oracles.strategies import drawn
from theodolite.properties import claim
from theodolite.reference import attention, model
from theodolite.reference.config import GPTConfig
from theodolite.reference.rotary import Pairing

Offsets = tuple[int | None, int | None, int | None]

HEADS, LAYERS, LENGTH, WIDTH, VOCABULARY = 2, 3, 7, 20, 31
HEAD_WIDTH = WIDTH // HEADS

VARIANTS = {
    "nothing is turned": (None, None, None),
    "queries alone are turned": (0, None, None),
    "keys alone are turned": (None, 0, None),
    "values are turned too": (0, 0, 0),
    "keys are turned by the position after their own": (0, 1, None),
    "queries are turned by the position after their own": (1, 0, None),
}
"""What may have happened instead: the positions' offset for q, k and v; None for not turned."""


@dataclass(frozen=True)
class Call:
    """One attention call, float64: q, k, v as projected, (B, H, T, d), W_O, and what came out."""

    query: Tensor
    key: Tensor
    value: Tensor
    mixing: Tensor
    out: Tensor


@claim("ROPE-4")
@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_queries_and_keys_of_every_layer_are_turned_and_values_are_not(pairing: Pairing) -> None:
    """Each layer's attention, computed again by plain loops: q and k turned, v as it is."""
    _, calls = _record(_sharp_model(pairing))
    exactly(len(calls), LAYERS, "every layer attends", component="rope")
    for layer, call in enumerate(calls):
        claimed, bound = _attend(call, (0, 0, None), pairing), _attention_error(call)
        as_claimed = bool(((call.out - claimed).abs() <= bound).all())
        judge(
            call.out,
            claimed,
            "queries and keys are turned by the same positions, values are not turned",
            bound=bound,
            axes=("batch", "position", "channel"),
            where={"layer": layer},
            remedy="" if as_claimed else _closest_variant(call, pairing),
            component="rope",
        )


@claim("ROPE-4")
@pytest.mark.parametrize("pairing", ["interleaved", "half"])
def test_nothing_positional_is_added_to_the_stream(pairing: Pairing) -> None:
    """What enters the first block is the token embedding, to the bit (quiz 2)."""
    subject = _sharp_model(pairing)
    stream, _ = _record(subject)
    judge(
        stream,
        subject.embedding(_ids()),
        "the stream that enters the first block is the token embedding and nothing else",
        axes=("batch", "position", "channel"),
        remedy="With rotary positions nothing is added to the embedding.",
        component="rope",
        cause="position-added-to-embedding",
    )


@claim("ROPE-9")
@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@drawn(max_examples=10, shift=st.integers(1, 5000))
def test_shifting_all_positions_moves_no_logit(pairing: Pairing, shift: int) -> None:
    """Positions k … k+T-1 for 0 … T-1: the same logits; half of them shifted: others.

    What this model makes of rounding is measured in float32, where queries and keys are wrong by
    at least 6 units; float64's angles at the shifted positions are wrong by 5·(k + T) + 6 of its
    own far smaller ones.
    """
    subject = _sharp_model(pairing)
    ids, places = _ids(), torch.arange(LENGTH)
    with torch.no_grad():
        exact = subject(ids)
        shifted = subject(ids, positions=places + shift)
        split = subject(ids, positions=places + shift * (places > LENGTH // 2))
        rounded = _sharp_model(pairing).float()(ids)
    in_float32 = float((rounded.double() - exact).abs().max())
    bound = in_float32 * rotation_error(shift + LENGTH, torch.float64) / rotation_error(0)
    bound *= 6  # rotation is at least a sixth of what float32 rounds between q, k and the scores
    judge(
        shifted,
        exact,
        "shifting all positions leaves the logits where they were",
        bound=bound,
        axes=("batch", "position", "token"),
        where={"shift": shift},
        remedy="Do queries and keys take the same positions, and does nothing else take any?",
        component="rope",
    )
    judge_differs(
        split,
        exact,
        "shifting the later half of the positions alone changes the logits",
        least=1e3 * bound,
        where={"shift": shift},
        component="rope",
    )


def _ids() -> Tensor:
    return torch.randint(VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(1))


def _sharp_model(pairing: Pairing) -> model.GPT:
    """The reference at an awkward shape in float64; scores of variance 1, far from uniform."""
    config = GPTConfig(
        vocabulary=VOCABULARY,
        width=WIDTH,
        layers=LAYERS,
        heads=HEADS,
        rotary_pairing=pairing,
        initial_std=WIDTH**-0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return model.GPT(config).double().eval()


@torch.no_grad()
def _record(subject: model.GPT) -> tuple[Tensor, list[Call]]:
    """What enters the first block, and each layer's attention call."""
    calls: list[Call] = []
    streams: list[Tensor] = []

    def keep_call(module: Any, given: tuple[Tensor, ...], out: Tensor) -> None:
        projected = module.qkv(given[0]).chunk(3, dim=-1)  # -> 3 × (B, T, H·d)
        query, key, value = (
            each.unflatten(-1, (HEADS, HEAD_WIDTH)).transpose(1, 2) for each in projected
        )
        calls.append(Call(query, key, value, module.output.weight.detach(), out))

    hooks = [subject.blocks[0].register_forward_pre_hook(lambda _, given: streams.append(given[0]))]
    hooks += [
        each.register_forward_hook(keep_call)
        for each in subject.modules()
        if isinstance(each, attention.MultiHeadAttention)
    ]
    try:
        subject(_ids())
    finally:
        for hook in hooks:
            hook.remove()
    return streams[0], calls


@torch.no_grad()
def _attend(call: Call, offsets: Offsets, pairing: Pairing) -> Tensor:
    """Causal attention by the oracle; each of q, k, v turned by position + offset, or not."""
    turned = [
        each.numpy()
        if offset is None
        else oracle.rotate(each.numpy(), np.arange(LENGTH) + offset, pairing=pairing)
        for each, offset in zip((call.query, call.key, call.value), offsets, strict=True)
    ]
    mean = torch.from_numpy(oracle.attention(*turned, causal=True))
    return mean.transpose(1, 2).flatten(2) @ call.mixing.T


def _attention_error(call: Call) -> float:
    """How far rounding can take the output from the oracle's, which rounds less; u an operation.

    A score loses two rotations and a sum of d products, relative to |q||k|/√d; a weight, the
    exponential of a score over a sum of T such, loses twice that and T; the output, a sum of T
    values and then of H·d = C products, T + C more. All of it in relation to |v| and |W_O|.
    """
    unit = torch.finfo(torch.float64).eps / 2
    longest = float(call.query.norm(dim=-1).max() * call.key.norm(dim=-1).max())
    score = 2 * rotation_error(LENGTH, torch.float64) + HEAD_WIDTH * unit
    relative = 2 * score * longest / math.sqrt(HEAD_WIDTH) + (2 * LENGTH + WIDTH) * unit
    size = math.sqrt(HEADS) * float(call.value.norm(dim=-1).max()) * float(call.mixing.norm())
    return relative * size


def _closest_variant(call: Call, pairing: Pairing) -> str:
    distances = {
        name: float((call.out - _attend(call, offsets, pairing)).abs().max())
        for name, offsets in VARIANTS.items()
    }
    name = min(distances, key=lambda each: distances[each])
    return f"The output is nearest to what comes when {name} ({distances[name]:.1e} away)."
