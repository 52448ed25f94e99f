"""The heads of a subject, held to MHA by the numbers of its own attention."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.fixtures.anatomy.attentions import attentions, is_flat
from theodolite.fixtures.anatomy.heads import (
    handed_on_twice,
    joined,
    neighbours,
    output_projection,
    sharing,
    tiled,
    why_neighbours,
)
from theodolite.fixtures.judging.judgement import at_least, each, fail, judge, require
from theodolite.fixtures.judging.tolerances import EQUAL
from theodolite.fixtures.recording.attention_call import AttentionCall
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("heads.joined", "MHA-4", component="heads", views=("sharpened",))
def test_heads_are_joined_side_by_side_before_the_output_projection(view: View) -> None:
    """W_O gets, at each position, the outputs of that position's heads, in any order."""
    for place, call in each(
        attentions(view),
        "what the output projection gets is not the heads alone, or is not visible",
    ):
        twice = handed_on_twice(view.insides.random, call)
        if twice is not None:
            projection, head, other = twice
            fail(
                "each head hands on an output of its own",
                fails="Heads {heads} hand on the same output to the output projection",
                where={**place, "projection": projection.path, "heads": f"{head} and {other}"},
                remedy="Are heads averaged, or one of them copied, where they should be joined?",
                cause="heads-handed-on-twice",
            )
        found = output_projection(view.insides.random, call)
        if found is None:
            continue
        projection, in_order = found
        given = projection.given
        require(
            in_order and given is not None,
            "the output projection gets each position's heads side by side",
            fails="The output projection does not get the heads of each position side by side: "
            "heads and positions are mixed up",
            where={**place, "projection": projection.path},
            remedy="transpose (B, H, T, d) back to (B, T, H, d) before joining heads: reshape "
            "alone scatters them over positions.",
            cause="heads-scrambled",
        )
        assert given is not None
        judge(
            given.reshape(joined(call).shape).sort(-1).values,
            joined(call).sort(-1).values,
            "the output projection gets each position's heads side by side",
            fails="The output projection does not get the heads of each position side by side: "
            "heads and positions are mixed up",
            bound=EQUAL * float(joined(call).abs().max()),
            axes=("row", "position", "channel"),
            where=place,
        )


@check("heads.differ", "MHA-5", "MHA-2", component="heads", views=("sharpened",))
def test_heads_of_one_layer_attend_differently(view: View) -> None:
    """With weights drawn at random, no two heads of a layer give the same weights."""
    for place, call in each(attentions(view), "the layers have one head each"):
        weights = call.probabilities
        if min(weights.shape[1], weights.shape[-1]) < 2 or is_flat(call):
            continue
        first, second, gap = min(
            (
                (i, j, float((weights[:, i] - weights[:, j]).abs().max()))
                for i in range(weights.shape[1])
                for j in range(i)
            ),
            key=lambda pair: pair[2],
        )
        at_least(
            gap,
            EQUAL,
            "each head attends in its own way",
            fails="Heads {head} and {other head} have the same attention weights: they differ by "
            "{measured} only",
            where={**place, "head": second, "other head": first},
            remedy="Are both cut from the same channels of the projection?",
            cause="heads-alike",
        )


@check("heads.groups", "MHA-2", component="heads", views=("sharpened",))
def test_queries_that_share_a_key_head_share_its_value_head(view: View) -> None:
    """Keys and values are handed to the same groups of query heads, of neighbours.

    Groups that take turns (0 1 0 1) make a sound model of their own, and read a checkpoint with
    neighbours (0 0 1 1) wrongly: a fault in a family whose checkpoints are published, or where
    groups of neighbours are declared.
    """
    for place, call in each(attentions(view), "every query head has keys and values of its own"):
        heads = call.query.shape[1]
        keys, values = sharing(call.key, heads), sharing(call.value, heads)
        groups = max(keys) + 1
        if call.value.shape[1] != call.key.shape[1] or 1 < heads == groups == max(values) + 1:
            continue
        # fewer values than keys will do
        require(
            len({*zip(keys, values, strict=True)}) == groups,
            "query heads that share keys share the values of those keys",
            fails="Query heads share keys in the groups {keys}, and values in the groups {values}",
            where={**place, "keys": _listed(keys), "values": _listed(values)},
            remedy="repeat_interleave both, or neither.",
            cause="groups-differ",
        )
        if keys == tiled(heads, groups) != neighbours(heads, groups):
            said = why_neighbours(view, call.module)
            require(
                said is None,
                "each key head serves neighbouring query heads",
                fails="Key heads are handed to the query heads in turn ({groups}), not to "
                "neighbours",
                where={**place, "groups": _listed(keys)},
                remedy=f"{said}: repeat_interleave(n, dim=1) keeps neighbours together, "
                "repeat(1, n, 1, 1) lets the groups take turns.",
                cause="groups-tiled",
            )


@check("heads.projections", "MHA-2", "MHA-3", component="attention", views=("sharpened",))
def test_queries_keys_and_values_have_projections_of_their_own(view: View) -> None:
    """No two of q, k and v are the same numbers while a matrix of their module lies idle."""
    for place, call in each(attentions(view), "the projections are not visible"):
        parts = {
            "queries": call.projected_query,
            "keys": call.projected_key,
            "values": call.projected_value,
        }
        seen = {name: part for name, part in parts.items() if part is not None}
        for one, other in (("keys", "values"), ("queries", "keys"), ("queries", "values")):
            if one not in seen or other not in seen:
                continue
            same = seen[one].shape == seen[other].shape and _equal(seen[one], seen[other])
            idle = _idle(view, call) if same else []
            require(
                not idle,
                f"{one} and {other} come from matrices of their own",
                fails=f"The {other} are the {one}, while {{idle}} is not used",
                where={**place, "idle": ", ".join(idle[:3])},
                remedy="Is one projection called for both?",
                cause=f"{other}-are-{one}",
            )


def _idle(view: View, call: AttentionCall) -> list[str]:
    """The matrices in an attention's own module of which a head's width or more changes no logit.

    That is one that did not run, one whose result is left, or a part of one that makes queries,
    keys and values at once.
    """
    owner = view.model.get_submodule(call.module)
    matrices = {n: p for n, p in owner.named_parameters() if p.ndim == 2 and p.requires_grad}
    logits = view.logits(view.random_ids(2), gradient=True)
    if not matrices or not logits.requires_grad:
        return []
    with view.running():  # what is computed anew for backward, in the same mode
        found = torch.autograd.grad(
            logits.square().sum(), list(matrices.values()), allow_unused=True
        )
    idle = []
    for name, gradient in zip(matrices, found, strict=True):
        path = f"{call.module}.{name}" if call.module else name
        if gradient is None or not gradient.any():
            idle.append(path)
        elif max(int((gradient == 0).all(axis).sum()) for axis in (0, 1)) >= call.value.shape[-1]:
            idle.append(f"a part of {path}")
    return idle


def _listed(groups: tuple[int, ...]) -> str:
    return " ".join(map(str, groups))


def _equal(one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= EQUAL * float(other.abs().max())
