"""AUD-1 and ORD-4: what position does to a whole model, seen from outside."""

from __future__ import annotations

from torch import Tensor

from theodolite.fixtures.anatomy.constant_sequence import PositionEntry, position_enters
from theodolite.fixtures.anatomy.sinks import learned_sink
from theodolite.fixtures.judging.judgement import not_applicable
from theodolite.fixtures.judging.tolerances import EQUAL
from theodolite.fixtures.recording.observation import is_inside
from theodolite.fixtures.recording.tensors import spread
from theodolite.fixtures.relations.blame import leak_of
from theodolite.fixtures.relations.changed_tokens import influence
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_TOKENS = 3


@check("positions.constant_sequence", "AUD-1", component="position")
def test_one_token_repeated_gives_one_distribution(view: View) -> None:
    """Without absolute positions every position computes the same mean of the same values.

    That holds if rows of the weights sum to 1, values do not turn, and nothing positional enters
    the stream. Absolute positions and sinks are designs: they are told apart by looking inside.
    """
    ids = view.random_ids(_TOKENS, 1).expand(-1, view.length)
    logits = view.logits(ids)
    gap = float((logits - logits[:, :1]).abs().max())
    accused, cause, finding = None, None, ""
    if not gap <= view.relation_bound:
        with view.running() as model:
            entry = position_enters(model, lambda: view.subject.run(model, ids, view.extra(ids)))
        design = _design(entry) or _mixes_otherwise(view, ids)
        if design is not None:
            not_applicable(design)
        accused, cause, finding = _fault(view, ids, entry)
        guilty = leak_of(view) if accused is None else None
        if guilty is not None:
            accused, cause = guilty.component, guilty.cause
    view.same(
        logits,
        logits[:, :1].expand_as(logits),
        "one token repeated gives the same logits at every position",
        fails="One token repeated gives logits that change with the position by {measured}, in a "
        "model without absolute positions",
        remedy=finding,
        component=accused,
        cause=cause,
    )


@check("positions.order_matters", "ORD-4", component="position", budget="standard")
def test_swapping_two_earlier_tokens_changes_the_last_logits(view: View) -> None:
    """The control of permutation: a decoder tells "dog bites man" from "man bites dog"."""
    if view.name != "sharpened":
        not_applicable(
            "fresh weights attend so evenly that order hardly shows: judged on sharpened ones alone"
        )
    if view.length < 4:
        not_applicable("the model takes fewer than four tokens")
    ids = view.random_ids(_TOKENS)
    ids[:, 1] = view.subject.other_ids(ids[:, :1])[:, 0]
    if not bool(influence(view)[0, -1] > 0):
        not_applicable("the first token does not reach the last logits (see causality.past)")
    swapped = ids.clone()
    swapped[:, [0, 1]] = ids[:, [1, 0]]
    view.differ(
        view.logits(swapped)[:, -1],
        view.logits(ids)[:, -1],
        "swapping the first two tokens changes the last logits",
        fails="Swapping the first two tokens does not change the last logits (by {measured}): "
        "the model does not tell their order",
        remedy="do positions reach the model (rotation of q and k, a table added, a bias)?",
        cause="no-positions",
    )


def _design(entry: PositionEntry) -> str | None:
    if entry.extra_keys:
        return "attention has keys that are no tokens: their share falls as tokens come"
    if entry.in_values:
        return None
    if not entry.sees_softmax:
        return f"attention is not visible: {entry.reason}"
    if entry.in_stream:
        return "positions are absolute: they are in the residual stream before any attention"
    if entry.extra_columns and not entry.rows_sum_to_one:
        return "attention has sinks: its rows may sum to less than 1"
    return None


def _mixes_otherwise(view: View, ids: Tensor) -> str | None:
    """Say so if the stream comes to vary with position elsewhere than in a visible attention.

    A table that is added does that, and so does a mixture with the token before (which the first
    position lacks), even where a norm hides it from the projections; or a recurrence, linear
    attention, a convolution between attentions.
    """
    forward = view.watch(ids)
    calls = forward.recording.calls
    if any(learned_sink(forward, view.model, call) is not None for call in calls):
        return "attention has sinks: a learned score takes a share that falls as tokens come"
    if not calls or calls[0].stream is None:
        return None
    width, attention = calls[0].stream.shape[-1], calls[0].module
    for call in forward.calls:
        streams, outputs = (
            [x for x in forward.per_token(part) if x.ndim == 3 and x.shape[-1] == width]
            for part in (call.arguments, call.result)
        )
        moves = any(spread(stream, 1) > EQUAL for stream in streams)
        if _within(attention, call.path) and moves:
            return "position enters the residual stream before any attention"
        seen = any(_within(c.module, call.path) or _within(call.path, c.module) for c in calls)
        if streams and not moves and not seen and any(spread(x, 1) > EQUAL for x in outputs):
            return f"{call.path} mixes positions, and is no attention that is visible"
    return None


def _within(path: str, outer: str) -> bool:
    return bool(outer) and is_inside(path, outer)


def _fault(view: View, ids: Tensor, entry: PositionEntry) -> tuple[str | None, str | None, str]:
    """Component, cause and what was found, for a spread that no design explains."""
    if entry.in_values:
        said = f"the values turn with position (by {entry.value_spread:.2g} of their size): rotate "
        return "rope", "value-rotated", said + "queries and keys alone."
    if entry.rows_sum_to_one:
        return None, None, "something that depends on position enters the stream after attention."
    calls = view.record(ids).calls
    normal = [c.softmax_output for c in calls if c.softmax_output is not None]
    if not normal:
        not_applicable("the weights are no softmax: their rows need not sum to 1")
    if all(float((rows.double().sum(-1) - 1).abs().max()) <= EQUAL for rows in normal):
        said = f"rows of the weights that meet the values are off 1 by up to {entry.row_error:.2g}"
        return "softmax", "mask-after-softmax", f"{said}: mask before softmax, not after."
    return "softmax", "softmax-axis", "softmax does not run over the keys."
