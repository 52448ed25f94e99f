"""The feed-forward networks of a subject, held to FFN by running each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from theodolite.fixtures.anatomy.blocks import blocks_of
from theodolite.fixtures.anatomy.feed_forward import (
    FeedForward,
    Role,
    added_branches,
    feed_forwards,
    nonlinearity,
    roles,
)
from theodolite.fixtures.judging.judgement import at_least, each, judge, not_applicable, require
from theodolite.fixtures.judging.tolerances import EQUAL, LINEAR
from theodolite.fixtures.subject.declarations import expanded
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("feed_forward.position_wise", "FFN-1", component="feed_forward", views=("sharpened",))
def test_a_position_is_fed_forward_by_itself(view: View) -> None:
    """Change every position but one, before it, after it and in other rows: its output stays."""
    for place, network in _networks(view):
        given = network.call.given
        if given is None or given.ndim < 3:
            given = None if given is None else given.reshape(*view.insides.random.ids.shape, -1)
        if given is None:
            continue
        shape = network.call.given.shape if network.call.given is not None else given.shape
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(given.shape, generator=generator).to(given)
        before = network.run(given.reshape(shape)).reshape(given.shape)
        for position in (0, given.shape[1] // 2, given.shape[1] - 1):
            changed = given + noise
            changed[0, position] = given[0, position]
            after = network.run(changed.reshape(shape)).reshape(given.shape)
            judge(
                after[0, position],
                before[0, position],
                "the feed-forward network's output at a position depends on that one alone",
                fails="Changing other positions changes the feed-forward network's output at "
                "position {position} by {measured}; it must not change at all",
                bound=EQUAL * float(before.abs().max()),
                axes=("channel",),
                where={**place, "position": position},
                remedy="Are experts' weights normalised over tokens instead of experts?"
                if network.experts
                else "Does a mean, a norm, a shift or a transposed axis mix positions or rows?",
                component="moe" if network.experts else None,
                cause="positions-mixed",
            )


@check("feed_forward.nonlinear", "FFN-2", "FFN-5", component="feed_forward", views=("sharpened",))
def test_the_feed_forward_network_is_not_linear(view: View) -> None:
    """Twice the input does not give twice the output, or minus the input minus the output."""
    for place, network in _networks(view):
        given = network.call.given
        if given is None:
            continue
        none, once, twice, against = (network.run(given * f) for f in (0.0, 1.0, 2.0, -1.0))
        bend, least = nonlinearity(none, once, twice, against), LINEAR * float(once.abs().max())
        at_least(
            bend,
            least,
            "the feed-forward network is not linear",
            fails="The feed-forward network is linear: it bends by {measured}",
            where=place,
            remedy="Two matrices in a row are one: is the activation applied?",
            component="moe" if network.experts else None,
            cause="activation-missing",
        )


@check("feed_forward.branches", "FFN-2", component="feed_forward", views=("sharpened",))
def test_each_matrix_takes_part_and_the_gate_is_the_activated_one(view: View) -> None:
    """W₂(act(W₁x) ⊙ W₃x): linear in W₂ and W₃, not in W₁; where a name says gate, that is W₁."""
    declared = expanded(view.subject.declarations).get("gated")
    for place, network in each(
        _networks(view), "every feed-forward network is a mixture of experts"
    ):
        if network.experts:
            continue
        found = roles(network)
        unused = [role.name for role in found if not role.used]
        require(
            not unused,
            "every matrix of the feed-forward network takes part",
            fails="A matrix of the feed-forward network has no effect on its output: {unused}",
            where={**place, "unused": ", ".join(unused)},
            remedy="A gated network multiplies two branches; one of them is left out.",
            cause="branch-left-out",
        )
        gates = [role for role in found if _is_called_gate(role)]
        bent = [role for role in found if not role.linear and role not in gates]
        require(
            not (gates and bent) or not all(gate.linear for gate in gates),
            "the activation is applied to the gate, and the other branch enters linearly",
            fails="The activation is applied to the wrong branch: the output is linear in {gate}",
            where={**place, "gate": ", ".join(gate.name for gate in gates)},
            remedy=f"The output is linear in the gate and not in {bent[0].name if bent else ''}: "
            "act(gate(x)) * up(x) is meant.",
            cause="activation-on-the-other-branch",
        )
        added = None if declared is False else added_branches(network, found)
        require(
            added is None,
            "the gate multiplies the other branch",
            fails="Two branches of the feed-forward network are added, where one should multiply "
            "the other: {added}",
            where={**place, "added": " and ".join(added or ())},
            remedy="act(W₁x) + W₃x is no gate: W₂(act(W₁x) ⊙ W₃x) is meant; if a sum is, declare "
            "it (--declare gated=false).",
            cause="branches-added",
        )


def _networks(view: View) -> Iterator[tuple[dict[str, Any], FeedForward]]:
    inside = view.insides.random
    found = 0
    for network in feed_forwards(blocks_of(inside), inside):
        found += 1
        yield {"view": view.name, "module": network.path}, network
    if not found:
        not_applicable("no module beside attention maps the stream by two matrices")


def _is_called_gate(role: Role) -> bool:
    name = role.name.lower()
    return "gate" in name and "up" not in name.replace("gate", "")
