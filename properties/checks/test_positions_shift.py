"""ROPE-9 and POS-3 on a subject: what moving all positions together does to the logits."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from theodolite.fixtures.anatomy.attentions import is_still
from theodolite.fixtures.anatomy.rotated_scores import is_relative, is_steady
from theodolite.fixtures.judging.judgement import not_applicable
from theodolite.fixtures.judging.tolerances import EQUAL
from theodolite.fixtures.recording.recorder import record
from theodolite.fixtures.serving.padding import far
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_SHIFTS = (1, 10, 50)
_FREE = 32
"""Longest position tried where the model names no limit: none of a small model is below it."""


@check("positions.default", "POS-3", "ROPE-9", component="position")
def test_positions_counted_from_zero_are_the_default(view: View) -> None:
    """Explicit 0, 1, 2 … give the logits of no positions."""
    keyword = _keyword(view)
    ids = view.random_ids(2)
    view.same(
        _at(view, ids, keyword, 0),
        view.logits(ids),
        f"{keyword} counted from 0 give the logits of none",
        fails=f"{keyword}= of 0, 1, 2 ... changes the logits by {{measured}}, though that is what "
        "positions are where none are given",
        remedy="does the default count from 1, or from the wrong end?",
        cause="positions-default",
    )


@check("positions.shift", "POS-3", "ROPE-9", component="position", views=("sharpened",))
def test_moving_all_positions_leaves_relative_schemes_alone_and_changes_absolute_ones(
    view: View,
) -> None:
    """Rotation and distances see differences only; a table that is added sees the place itself."""
    keyword = _keyword(view)
    room = (view.subject.longest or view.length + _FREE) - view.length
    shifts = [shift for shift in _SHIFTS if shift <= room]
    if not shifts:
        not_applicable(f"the model has no room to shift {view.length} positions")
    ids = view.random_ids(2)
    plain = view.logits(ids)
    if _in_stream(view, ids, keyword):
        view.differ(
            _at(view, ids, keyword, shifts[0]),
            plain,
            "absolute positions change the logits when all of them move",
            fails="Moving all positions by {shift} changes the logits by {measured} alone, "
            "though positions are absolute",
            least=view.relation_bound,
            where={"shift": shifts[0]},
            remedy="are positions taken from the mask or the length instead of what is given?",
            cause="absolute-shift",
        )
        return
    still = list(filter(is_still, view.insides.constant.whole))
    if not all(is_relative(call) and is_steady(call) for call in still):
        not_applicable(
            "q·k depends on more than the distance (a norm with gains after rotation, or a "
            "temperature): see rope.relative"
        )
    moved = {shift: _at(view, ids, keyword, shift) for shift in shifts}
    first, last = moved[shifts[0]], moved[shifts[-1]]
    if (
        len(shifts) > 1
        and not far(last, first, view.relation_bound)
        and far(first, plain, view.relation_bound)
    ):
        not_applicable("position 0 is special: a recurrent layer begins anew there")
    for shift, logits in moved.items():
        view.same(
            logits,
            plain,
            "moving all positions by the same amount leaves the logits where they were",
            fails="Moving all positions by {shift} changes the logits by {measured}, though "
            "positions are relative",
            where={"shift": shift},
            remedy="are queries and keys turned by the same positions, and does a mask or bias "
            "take them from elsewhere?",
            component="rope",
            cause="relative-shift",
        )


def _keyword(view: View) -> str:
    keyword = view.subject.positions
    if keyword is None:
        not_applicable("no explicit positions found: forward takes none that act")
    return keyword


def _at(view: View, ids: Tensor, keyword: str, shift: int) -> Tensor:
    places = torch.arange(shift, shift + ids.shape[1], device=view.subject.device)
    given: dict[str, Any] = {keyword: places.expand(ids.shape)}
    return view.logits(ids, **given)


def _in_stream(view: View, ids: Tensor, keyword: str) -> bool:
    """Whether positions are in what the first attention projects: other positions, other stream.

    A stream that varies along the sequence does not tell: recurrent layers before an attention do
    that as well.
    """
    streams: list[Tensor] = []
    for step in (1, 2):
        places = step * torch.arange(view.length, device=view.subject.device)
        extra = {**view.extra(ids), keyword: (places % view.length).expand(ids.shape)}
        with view.running() as model:
            recording = record(model, partial(view.subject.run, model, ids, extra))
        first = recording.calls[0].stream if recording.calls else None
        if first is None:
            not_applicable(f"whether positions are absolute is not visible: {recording.reason}")
        streams.append(first.double())
    change = float((streams[1] - streams[0]).abs().max())
    return change > EQUAL * float(streams[0].abs().max())
