"""AUD-8: half precision costs a subject what rounding costs, at late positions too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import not_applicable, require
from theodolite.fixtures.relations.half_precision import (
    AUTOCAST,
    BFLOAT16,
    FLOAT16,
    LATE,
    LONG,
    SHARE,
    Comparison,
    Place,
    fits_float16,
    in_half_precision,
    own_way,
)
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

WORTHWHILE = 48
"""A shorter sequence shows nothing of late positions: bfloat16 keeps its angles to 1/10 radian."""

_ATTEMPTS = 3

_CAST = "cast to"

Places = Callable[[int], list[Place]]
"""Where to judge, on tokens of a given seed."""


# None of the three is a use that float32 weights promise; a model that is meant for one says so.
@check("precision.half", "AUD-8", component="dtype", level="hazard", use="bfloat16")
def test_half_precision_costs_what_rounding_costs(view: View) -> None:
    """Cast to bfloat16 or float16, the logits move by what rounding weights and activations does.

    It shows what float32 hides: a large bias on the scores, a mask or a sum that overflows, a
    statistic that is gathered in a few bits.
    """
    own = own_way(view)
    _judge(view, (BFLOAT16, FLOAT16) if own is None else (own,), partial(_near, view))


@check(
    "precision.autocast",
    "AUD-8",
    component="dtype",
    views=("sharpened",),
    level="hazard",
    use="bfloat16",
)
def test_autocast_costs_what_rounding_costs(view: View) -> None:
    """Under torch.autocast in bfloat16 the logits are finite, and as near as in bfloat16."""
    _judge(view, (AUTOCAST,), partial(_near, view))


@check(
    "precision.late",
    "AUD-8",
    component="dtype",
    views=("sharpened",),
    level="hazard",
    use="bfloat16",
    budget="standard",
)
def test_half_precision_keeps_late_positions(view: View) -> None:
    """At positions near 8,000, and at the end of 512 tokens, rounding costs what it costs at 0.

    Positions, angles, their cosines and running sums need more bits the further they get.
    """
    length, start = _longest_taken(view), _latest_taken(view)
    if length is None and start is None:
        not_applicable(
            f"it takes fewer than {WORTHWHILE} positions, too few to show anything: build it with "
            "a longer "
            "context (--set)"
        )
    near = in_half_precision(view, (BFLOAT16, FLOAT16, AUTOCAST), _near(view, 0))
    ways = [way for way, found in near.items() if found[0].is_right]
    if not ways:
        not_applicable(
            "not judged: half precision is refused, or wrong at position 0 already (see "
            "precision.half)"
        )
    _judge(view, ways, partial(_far, view, length, start))


def _judge(view: View, ways: Sequence[str], places: Places) -> None:
    """Require of each place that half precision costs no more than `SHARE` roundings."""
    refusals, judged = [], 0
    for way, found in in_half_precision(view, ways, places(0)).items():
        for number, one in enumerate(found):
            if one.refusal is not None:
                refusals.append(f"{way}: {one.refusal[-160:]}")
                continue
            if not one.is_right and way == FLOAT16 and not fits_float16(view, one.place):
                refusals.append("activations are too large for float16, which ends at 65504")
                continue
            judged += 1
            _require_right(view, way, one if one.is_right else _again(view, way, places, number))
    if not judged:
        not_applicable(f"the model does not run in half precision: {'; '.join(refusals)}")


def _again(view: View, way: str, places: Places, number: int) -> Comparison:
    """The best of some attempts on other tokens, and with its tables left as they are.

    Where a rounding lets an early token choose another expert, all that follows is off.
    """
    best = None
    for seed in range(1, _ATTEMPTS + 1):
        (one,) = in_half_precision(view, (way,), [places(seed)[number]])[way]
        if best is None or (one.finite, -one.share) > (best.finite, -best.share):
            best = one
        if one.is_right:
            return one
    assert best is not None
    if way in (AUTOCAST, own_way(view)):
        return best
    (parts,) = in_half_precision(view, (way,), [best.place], whole=False)[way]
    if parts.is_right:
        _advise(view, way, best)
        return parts
    return best


def _require_right(view: View, way: str, found: Comparison) -> None:
    where = {"view": view.name, "dtype": way}
    late, use = bool(found.place.says), FLOAT16 if way == FLOAT16 else BFLOAT16
    if late:
        where["place"] = found.place.says
    require(
        found.finite,
        f"logits are finite in {way}",
        fails=f"In {way} logits are NaN or infinite",
        where=where,
        remedy="does a mask, a sum or an exponential pass the largest number of the dtype?",
        cause="half-overflows",
        use=use,
    )
    require(
        found.is_right,
        f"{way} moves the logits by what rounding weights and activations does, times {SHARE:g}",
        fails=f"In {way} the logits are off by {{measured}} times what rounding weights and "
        "activations costs",
        measured=found.share,
        at_most=SHARE,
        where=where,
        remedy="are positions, angles or their cosines computed in half precision?"
        if late
        else "is a statistic, a mask or a large bias computed in half precision?",
        cause="late-positions-in-half" if late else "half-precision-inside",
        use=use,
    )


def _advise(view: View, way: str, found: Comparison) -> None:
    """Say what casting a finished model does where building it in that dtype does not."""
    what = f"are off by {found.share:.0f} times what rounding costs" if found.finite else "are NaN"
    note = (
        f"{_CAST} {way} after it was built, its logits {found.place.says} {what}, as a table is "
        "cast along: build or load it in that dtype instead"
    )
    if not any(said.startswith(_CAST) for said in view.subject.notes):
        view.subject.notes.append(note)


def _near(view: View, seed: int) -> list[Place]:
    return [Place(view.random_ids(2, seed=seed), {})]


def _far(view: View, length: int | None, start: int | None, seed: int) -> list[Place]:
    places = []
    if start is not None:
        places.append(_at(view, start, seed))
    if length is not None:
        places.append(_end_of(view, length, seed))
    return places


def _at(view: View, start: int, seed: int) -> Place:
    ids = view.random_ids(2, seed=seed)
    positions = torch.arange(start, start + ids.shape[1], device=view.subject.device)
    extra = {str(view.subject.positions): positions.expand(ids.shape)}
    return Place(ids, extra, says=f"at positions from {start} on")


def _end_of(view: View, length: int, seed: int) -> Place:
    last = slice(length - length // 4, None)
    return Place(view.random_ids(1, length, seed=seed), {}, last, f"at the end of {length} tokens")


def _latest_taken(view: View) -> int | None:
    starts = LATE if view.subject.positions is not None else ()
    return next((start for start in starts if _is_taken(view, _at(view, start, 0))), None)


def _longest_taken(view: View) -> int | None:
    return next((n for n in _lengths(view) if _is_taken(view, _end_of(view, n, 0))), None)


def _lengths(view: View) -> Iterator[int]:
    """Lengths to try: past its own limit too where positions are given, as rotation has none."""
    if view.subject.convention.only_length is not None:
        return
    longest = view.subject.longest
    if longest is None:
        yield from (LONG, LONG // 2, LONG // 4, LONG // 8)
        return
    if view.subject.positions is not None or longest >= LONG:
        yield LONG
    if WORTHWHILE <= longest < LONG:
        yield longest


def _is_taken(view: View, place: Place) -> bool:
    try:
        logits = view.logits(place.ids, **place.extra)
    except SubjectError:
        return False
    return bool(torch.isfinite(logits).all())
