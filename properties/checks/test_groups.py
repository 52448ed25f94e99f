"""Heads, told by changing them: a head has its own queries, and the keys of its group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from theodolite.fixtures.anatomy.head_reach import Reach, reach_of
from theodolite.fixtures.anatomy.heads import why_neighbours
from theodolite.fixtures.errors import Unknown
from theodolite.fixtures.judging.judgement import each, not_applicable, require
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("groups.queries", "MHA-2", component="heads", views=("sharpened",))
def test_a_head_s_queries_change_that_head_alone(view: View) -> None:
    """Change the rows of W_Q that make one head's queries: one head's output changes."""
    if view.length == 1:
        not_applicable("the model takes single tokens, which have nothing to choose between")
    for place, reach in each(_reaches(view, "query"), _NO_HEADS):
        owners: dict[int, int] = {}
        for head, served in zip(reach.heads, _served(reach), strict=True):
            require(
                len(served) == 1 and served[0] not in owners,
                "each query head has queries of its own",
                fails="Changing the queries of head {head} changes the heads: {changes}; it must "
                "change that head alone",
                where={**place, "head": head, "changes": _listed(served)},
                remedy="Two heads are cut from the same channels, or one head's channels are used "
                "by none.",
                cause="queries-shared" if served else "queries-unused",
            )
            owners[served[0]] = head


@check("groups.members", "MHA-2", component="heads", views=("sharpened",))
def test_a_key_head_changes_exactly_the_query_heads_of_its_group(view: View) -> None:
    """Change the rows of W_K, or of W_V, that make one head: its group changes, and no other head.

    Keys and values are handed to the same groups. Which group comes first is a fact of the weights'
    order, and a claim where checkpoints are published or groups of neighbours are declared: key
    head j then serves the query heads j·g to j·g + g - 1.
    """
    if view.length == 1:
        not_applicable("the model takes single tokens, which have nothing to choose between")
    judged = 0
    groups: dict[int, dict[str, tuple[tuple[int, ...], ...]]] = {}
    for kind in ("key", "value"):
        for place, reach in _reaches(view, kind):
            judged += 1
            served = _served(reach)
            said = why_neighbours(view, reach.module)
            _judge_parts(reach, served, place)
            if said is not None:
                _judge_neighbours(reach, served, place, said)
            if len(reach.heads) == reach.count:
                groups.setdefault(reach.layer, {})[kind] = tuple(sorted(served))
    for layer, of_layer in groups.items():
        keys, values = of_layer.get("key"), of_layer.get("value")
        if keys is None or values is None or len(keys) != len(values):
            continue
        view.require(
            keys == values,
            "query heads that share keys share values",
            fails="Query heads share keys in the groups {keys}, and values in the groups {values}",
            where={
                "layer": layer,
                "keys": "; ".join(map(_listed, keys)),
                "values": "; ".join(map(_listed, values)),
            },
            remedy="repeat_interleave both, or neither.",
            cause="groups-differ",
        )
    if not judged:
        not_applicable(_NO_HEADS)


_NO_HEADS = "changing one head of a projection is not possible, or changes every head by design"


def _judge_parts(reach: Reach, served: Sequence[tuple[int, ...]], place: dict[str, Any]) -> None:
    """Every query head belongs to one group and no more."""
    total = reach.reached.shape[1]
    owners: dict[int, int] = {}
    for head, members in zip(reach.heads, served, strict=True):
        for member in members:
            require(
                member not in owners,
                f"a query head attends with the {reach.kind}s of one head",
                fails=f"Query head {{query head}} attends with the {reach.kind}s of two heads, "
                f"{{heads}}",
                where={**place, "query head": member, "heads": f"{owners.get(member)} and {head}"},
                remedy=f"Are the {reach.kind} heads repeated along the axis of heads?",
                cause="groups-overlap",
            )
            owners[member] = head
    if len(reach.heads) == reach.count:
        missing = sorted(set(range(total)) - set(owners))
        idle = [head for head, members in zip(reach.heads, served, strict=True) if not members]
        require(
            not missing and not idle,
            f"every query head has a {reach.kind} head, and every {reach.kind} head a query head",
            fails=f"Query heads without a {reach.kind} head: {{without}}; {reach.kind} heads that "
            f"no query head uses: {{unused}}",
            where={**place, "without": _listed(missing), "unused": _listed(idle)},
            remedy="Is each head repeated as often as there are query heads in a group?",
            cause="head-left-out",
        )


def _judge_neighbours(
    reach: Reach, served: Sequence[tuple[int, ...]], place: dict[str, Any], said: str
) -> None:
    size = reach.reached.shape[1] // reach.count
    for head, members in zip(reach.heads, served, strict=True):
        due = tuple(range(head * size, head * size + size))
        require(
            members == due,
            f"{reach.kind} head {head} serves the query heads {_listed(due)}",
            fails=f"{reach.kind.capitalize()} head {head} serves the query heads "
            f"{_listed(members)}, and should serve {_listed(due)}",
            where={**place, "serves": _listed(members)},
            remedy=f"{said}: repeat_interleave(n, dim=1) of heads in their order.",
            cause="groups-tiled"
            if len(members) > 1 and members[1] - members[0] > 1
            else "groups-out-of-order",
        )


def _reaches(view: View, kind: str) -> Iterator[tuple[dict[str, Any], Reach]]:
    """What heads of a kind reach, where none of them reaches all by design.

    A norm over all heads lets each reach all; queries or keys of one head may select keys for the
    others as well. Where one reaches all because others reach none, that is judged.
    """
    found = reach_of(view)
    if isinstance(found, Unknown):
        not_applicable(found.reason)
    for reach in found:
        one_for_all = reach.count == 1 or reach.reached.shape[1] == 1
        everywhere = reach.reached.all(1)
        mixed = bool(everywhere.all() if kind == "value" else everywhere.any())
        mixed = mixed and bool(reach.reached.any(1).all())
        if reach.kind == kind and (one_for_all or not mixed):
            where = {"view": view.name, "layer": reach.layer, "module": reach.module}
            yield where, reach


def _served(reach: Reach) -> list[tuple[int, ...]]:
    return [tuple(row.nonzero().flatten().tolist()) for row in reach.reached]


def _listed(heads: Sequence[int]) -> str:
    return " ".join(map(str, heads)) or "none"
