"""The rotary embedding of a subject, read off its own queries and keys (ROPE)."""

from __future__ import annotations

from torch import Tensor

from theodolite.fixtures.anatomy.attentions import still_attentions
from theodolite.fixtures.anatomy.rotated_scores import (
    before_norm,
    not_yet_turned,
    settles,
    turned_attentions,
    unevenness,
)
from theodolite.fixtures.anatomy.rotation import Turning, start_phases, turning, wrapped
from theodolite.fixtures.judging.judgement import each, judge, require
from theodolite.fixtures.judging.tolerances import EQUAL, PHASE
from theodolite.fixtures.recording.attention_call import AttentionCall, scores_of
from theodolite.fixtures.recording.tensors import spread
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("rope.relative", "ROPE-1", "ROPE-7", component="rope", views=("sharpened",))
def test_the_product_of_rotated_vectors_depends_on_their_distance_alone(view: View) -> None:
    """One token repeated: q·k along each diagonal is the same, in either pairing of channels."""
    for place, call in turned_attentions(view):
        query, key = call.query.double(), call.key.double()
        size = float(query.norm(dim=-1).max() * key.norm(dim=-1).max())
        uneven = unevenness(scores_of(query, key), size)
        if float(uneven.max()) > EQUAL:  # lengths that vary with position are a temperature
            uneven = min(uneven, unevenness(scores_of(_even(query), _even(key)), size), key=_max)
        given = [before_norm(view.insides.constant, call.module, x) for x in (query, key)]
        if float(uneven.max()) > EQUAL and given[0] is not None and given[1] is not None:
            query, key = given[0].double(), given[1].double()
            size = float(query.norm(dim=-1).max() * key.norm(dim=-1).max())
            uneven = unevenness(scores_of(query, key), size)
        cause, remedy = _why_not_relative(call)
        judge(
            uneven,
            0.0,
            "q·k of one token repeated depends on m - n alone",
            fails="With one token repeated, q·k of query {query} and key {key} is off by "
            "{measured} of its size from other pairs at the same distance",
            bound=EQUAL,
            axes=("row", "head", "query", "key"),
            where=place,
            remedy=remedy,
            cause=cause,
        )


@check("rope.same_positions", "ROPE-4", component="rope", views=("sharpened",))
def test_queries_and_keys_stand_at_the_same_positions(view: View) -> None:
    """What the first query is turned by, the first key is turned by, whatever that is.

    Scores stay relative where keys take the angles of another position, so the angles are measured
    against the projections, which are not yet turned.
    """
    for place, call in each(
        turned_attentions(view), "queries and keys before their rotation are not visible"
    ):
        turn = turning(call.query)
        if turn is None:
            continue
        phases = [
            _phases(view, call, call.query, call.projected_query, turn),
            _phases(view, call, call.key, call.projected_key, turn),
        ]
        query, key = phases
        if query is None or key is None:
            continue
        ahead = wrapped(key - query)
        steps = float(ahead[0] / turn.frequencies[0])
        judge(
            ahead,
            0.0,
            "queries and keys are turned by the angles of the same positions",
            fails="At one position, pair {pair} of the keys is turned by {measured} radians "
            "against the queries; it must be 0",
            bound=PHASE,
            axes=("pair",),
            where=place,
            remedy=f"At one position keys are turned by {steps:+.2f} steps against the queries: do "
            "both take the same slice of the table?",
            cause="positions-offset",
        )


@check("rope.values_still", "ROPE-4", component="rope", views=("sharpened",))
def test_values_do_not_turn_with_position(view: View) -> None:
    """One token repeated has the same values at every position (quiz 2)."""
    for place, call in still_attentions(view):
        if settles(call.value):
            continue
        judge(
            call.value,
            call.value[:, :, :1].expand_as(call.value),
            "values do not vary with position",
            fails="With one token repeated, the value at position {position} differs by "
            "{measured} from that at position 0; values must not turn",
            bound=EQUAL * float(call.value.abs().max()),
            axes=("row", "head", "position", "channel"),
            where=place,
            remedy="Rotate queries and keys alone.",
            cause="value-rotated",
        )


@check("rope.along_sequence", "ROPE-8", component="rope", views=("sharpened",))
def test_rotation_runs_along_the_sequence(view: View) -> None:
    """Where queries do not vary with position, no other axis turns them either.

    A rotation along heads (or rows) leaves the first head (or row) as it was and turns the others.
    """
    for place, call in still_attentions(view):
        before, after = call.projected_query, call.query
        if before is None or before.shape != after.shape or spread(after, 2) > EQUAL:
            continue
        before, after = before.double(), after.double()
        factor = float(after.norm() / before.norm())
        lengths = (after.norm(dim=-1) - factor * before.norm(dim=-1)).abs().max()
        if float(lengths) > EQUAL * float(after.norm(dim=-1).max()):
            continue
        same = (after - factor * before).abs().amax((2, 3)) <= EQUAL * after.abs().max()  # (B, H)
        axis = "heads" if bool((same == same[:1]).all()) else "rows of the batch"
        require(
            bool(same.all()) or not bool(same.any()),
            "rotation runs along the sequence",
            fails=f"The rotation runs along the {axis}, not along the sequence",
            where={**place, "untouched": int(same.sum()), "turned": int((~same).sum())},
            remedy="Rotate (B, H, T, d) by position, on axis T.",
            cause="turned-along-another-axis",
        )


def _why_not_relative(call: AttentionCall) -> tuple[str, str]:
    moves = {name: spread(x, 2) > EQUAL for name, x in (("q", call.query), ("k", call.key))}
    if not moves["k"]:
        return "queries-alone", "Keys do not turn: rotate both."
    if not moves["q"]:
        return "keys-alone", "Queries do not turn: rotate both."
    lengths = call.query.double().norm(dim=-1)
    if float((lengths - lengths[:, :, :1]).abs().max()) > EQUAL * float(lengths.max()):
        return "pairing-mixed", (
            "Lengths change with position, so this is no rotation: cos and sin laid out for one "
            "pairing of channels, (2i, 2i+1) or (i, i + d/2), turn channels paired the other way?"
        )
    return "not-relative", "Do queries and keys turn by the same angles, in the same direction?"


def _phases(
    view: View, call: AttentionCall, vectors: Tensor, projected: Tensor | None, turn: Turning
) -> Tensor | None:
    origins = [] if projected is None else [projected]
    origins += not_yet_turned(view.insides.constant, call.module, vectors)
    found = (start_phases(vectors, origin, turn.pairs) for origin in origins)
    return next((phases for phases in found if phases is not None), None)


def _even(vectors: Tensor) -> Tensor:
    lengths = vectors.norm(dim=-1, keepdim=True)
    even: Tensor = vectors * lengths[:, :, :1] / lengths
    return even


def _max(tensor: Tensor) -> float:
    return float(tensor.max())
