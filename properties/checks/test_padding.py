"""AUD-5 on a subject: padding under a mask is as if it were not there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import judge, not_applicable, require
from theodolite.fixtures.serving.padding import Ragged, far, half_hearted, padding_of, ragged
from theodolite.fixtures.subject.subject import Subject
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

AXES = ("row", "position", "token")


@check("padding.hides", "AUD-5", component="padding")
def test_a_mask_that_changes_logits_hides_what_it_masks(subject: Subject) -> None:
    """The content of a hidden token matters nowhere else, and a library's mask is 1 for the others.

    Tokenizers of that library give 1 for a token and 0 for padding; others may mean the contrary.
    """
    if subject.views.as_given.obstacle:
        return
    if subject.padding is not None:
        keyword, real = subject.padding
        require(
            real or keyword != "attention_mask" or not subject.is_library or type(real) is float,
            f"{keyword} hides what it is 0 for",
            fails=f"{keyword} hides what it is 1 for: the real tokens",
            where={"hidden by": 1},
            remedy="Real tokens are hidden, and padding is seen: is the mask negated twice?",
            cause="padding-inverted",
        )
        return
    if subject.length < 3:
        not_applicable(
            f"the model takes {subject.length} tokens, too few for one behind a hidden one"
        )
    padding = half_hearted(subject)
    if padding is None:
        not_applicable(
            "no padding mask was found: forward takes none of shape (B, T) that changes anything"
        )
    ids = subject.random_ids(2)
    real = torch.ones(ids.shape, dtype=torch.bool)
    real[:, 1] = False
    changed = torch.where(real, ids, subject.other_ids(ids))
    mask = padding.mask(real, subject)
    judge(
        subject.run(subject.model, changed, mask)[:, 2:],
        subject.run(subject.model, ids, mask)[:, 2:],
        f"a token hidden by {padding.keyword} does not change the logits of others",
        fails=f"A token hidden by {padding.keyword} changes the logits of others by {{measured}}; "
        "it must not change them at all",
        bound=subject.views.as_given.leak_bound,
        axes=AXES,
        remedy="is the mask on the axis of the keys, (B, 1, 1, T), and not on that of the queries?",
        cause="padding-on-queries",
    )


@check("padding.ones", "AUD-5", component="padding", budget="standard")
def test_a_mask_of_ones_is_no_mask(view: View) -> None:
    """Where nothing is hidden, the mask changes nothing: causality stays."""
    padding = padding_of(view.subject)
    ids = view.random_ids(3)
    masked = view.logits(ids, **padding.mask(torch.ones(ids.shape, dtype=torch.bool), view.subject))
    _judge_positions_beside(view, ids, masked)
    view.same(
        masked,
        view.logits(ids),
        "a padding mask of ones gives the logits of no mask",
        fails="A padding mask of ones, which hides nothing, changes the logits by {measured}",
        remedy="does one of the two branches lose the causal mask, or is the padding mask added "
        "as a number?",
        component="mask",
        cause="mask-replaced",
    )


def _judge_positions_beside(view: View, ids: Tensor, masked: Tensor) -> None:
    """Beside a mask of ones positions count from 0, where no positions are given either."""
    keyword = view.subject.positions
    plain = view.logits(ids)
    if keyword is None or float((masked - plain).abs().max()) <= view.relation_bound:
        return
    room = (view.subject.longest or view.length + 1) > view.length
    counted = torch.arange(view.length, device=view.subject.device).expand(ids.shape)
    for first in (1, -1) if room else ():
        given: dict[str, Any] = {keyword: counted + first}
        try:
            moved = view.logits(ids, **given)
        except SubjectError:
            continue
        require(
            float((masked - moved).abs().max()) > view.relation_bound,
            "beside a mask of ones positions count from 0",
            fails="Beside a mask of ones, positions are counted from {first}, not from 0",
            where={"view": view.name, "first": first},
            remedy=f"They count from {first}: is 1 taken off the running sum of the mask, once?",
            component="position",
            cause="positions-from-one",
        )


@pytest.mark.parametrize("side", ["left", "right"])
@check("padding.finite", "AUD-5", component="padding", views=("sharpened",))
def test_padding_gives_no_nan_at_real_tokens(view: View, side: str) -> None:
    """Logits of real tokens are finite, whatever those of padding are."""
    padding = padding_of(view.subject)
    _require_side(view, side)
    batch = ragged(view.subject, side, _lengths(view))
    logits = view.logits(batch.ids, **padding.mask(batch.real, view.subject))
    wrong = ~torch.isfinite(logits).all(-1).cpu() & batch.real
    require(
        not bool(wrong.any()),
        f"with {side} padding the logits of real tokens are finite",
        fails=f"With padding on the {side}, {{measured}} real tokens have logits that are NaN or "
        "infinite",
        measured=float(wrong.sum()),
        at_most=0.0,
        where={"view": view.name, "side": side, **_first(wrong)},
        remedy="padding that sees no key at all is a softmax over nothing, NaN, and 0·NaN reaches "
        "real tokens in the next layer: let padding see itself, or fill in the dtype's least "
        "number once.",
        cause="empty-row",
    )


@pytest.mark.parametrize("side", ["left", "right"])
@check("padding.content", "AUD-5", component="padding", views=("sharpened",), budget="standard")
def test_what_stands_at_padding_does_not_matter(view: View, side: str) -> None:
    """Other tokens at padding, the same mask: logits of real tokens stay, finite ones."""
    _require_side(view, side)
    padding, lengths = padding_of(view.subject), _lengths(view)
    one, other = (ragged(view.subject, side, lengths, fill=fill) for fill in (7, 8))
    mask = padding.mask(one.real, view.subject)
    view.same(
        _kept(view, other, mask),
        _kept(view, one, mask),
        f"tokens behind the padding mask, on the {side}, do not change the logits",
        fails=f"Tokens behind the padding mask, on the {side}, change the logits by {{measured}}; "
        "they must not change them at all",
        bound=view.leak_bound,
        axes=("token number", "token"),
        where={"side": side},
        remedy="is the padding mask on the key axis, before softmax, in every layer?",
        cause="padding-visible",
    )


@pytest.mark.parametrize("side", ["left", "right"])
@check("padding.alone", "AUD-5", component="padding", views=("sharpened",))
def test_a_padded_sequence_gives_the_logits_of_the_sequence_alone(view: View, side: str) -> None:
    """A ragged batch against each of its rows; with positions only where it needs them."""
    _require_side(view, side)
    padding, lengths = padding_of(view.subject), _lengths(view)
    batch = ragged(view.subject, side, lengths)
    mask = padding.mask(batch.real, view.subject)
    alone = torch.cat([view.logits(text)[0] for text in batch.texts])
    found = _kept(view, batch, mask)
    keyword = view.subject.positions
    component, cause = "padding", "padding-visible"
    remedy = "is padding masked as a key, in every layer?"
    if side == "left" and far(found, alone, view.relation_bound):
        component, cause = "position", "positions-count-padding"
        remedy = (
            "are positions counted from the first real token (the running sum of the mask, less "
            "one)? Or does forward take none, so that the caller cannot say?"
        )
        if keyword is not None:  # absolute positions: then the caller has to give them
            positions = {keyword: batch.positions.to(view.subject.device)}
            found = _kept(view, batch, {**mask, **positions})
            component, cause, remedy = "padding", "padding-visible", "is padding masked as a key?"
    view.same(
        found,
        alone,
        f"a sequence padded on the {side} gives the logits of the sequence alone",
        fails=f"A sequence padded on the {side} gives logits that are off by {{measured}} from "
        "those of the sequence alone",
        axes=("token number", "token"),
        where={"side": side},
        remedy=remedy,
        component=component,
        cause=cause,
    )


@check(
    "padding.causality", "AUD-5", "ATT-4", component="mask", views=("sharpened",), budget="standard"
)
def test_a_padding_mask_does_not_replace_the_causal_mask(view: View) -> None:
    """With real padding in the batch, later tokens still change no earlier logits."""
    padding = padding_of(view.subject)
    for side in ("left", "right"):
        batch = ragged(view.subject, side, _lengths(view))
        later = torch.arange(batch.ids.shape[1]) > batch.ids.shape[1] // 2
        changed = torch.where(later & batch.real, view.subject.other_ids(batch.ids), batch.ids)
        mask = padding.mask(batch.real, view.subject)
        early = batch.real & ~later
        view.same(
            _kept(view, Ragged((), changed, early), mask),
            _kept(view, Ragged((), batch.ids, early), mask),
            f"with padding on the {side}, later tokens do not change earlier logits",
            fails=f"With padding on the {side}, later tokens change earlier logits by "
            f"{{measured}}; they must not change them at all",
            bound=view.leak_bound,
            axes=("token number", "token"),
            where={"side": side},
            remedy="are both masks applied, one and the other, where there is padding?",
            cause="padding-replaces-causality",
        )


# A row without a token is no text: batches are made without, unless somebody says otherwise.
@check(
    "padding.empty_row",
    "AUD-5",
    component="padding",
    views=("sharpened",),
    level="hazard",
    use="empty_rows",
)
def test_a_row_of_padding_alone_does_not_harm_the_others(view: View) -> None:
    """A batch filled up with an empty row: the real rows keep their logits, and they are finite."""
    padding = padding_of(view.subject)
    ids = view.random_ids(3)
    real = torch.ones(ids.shape, dtype=torch.bool)
    real[1] = False
    view.same(
        view.logits(ids, **padding.mask(real, view.subject))[[0, 2]],
        view.logits(ids)[[0, 2]],
        "a row that is all padding does not change the other rows",
        fails="A row that is all padding changes the logits of the other rows by {measured}",
        remedy="a softmax over nothing is NaN: does it spread through a mean or a router?",
        cause="empty-row",
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@check("padding.half_precision", "AUD-5", component="dtype", level="hazard", use="bfloat16")
def test_padding_gives_no_nan_in_half_precision(subject: Subject, dtype: torch.dtype) -> None:
    """Two masks that each hold the least number of the dtype overflow when they are added."""
    padding = padding_of(subject)
    view = subject.views.sharpened
    if view.obstacle:
        not_applicable(view.obstacle)
    model = view.copy().to(dtype)
    lengths = _lengths(view)
    try:
        plain = subject.run(model, subject.random_ids(2))
        if not bool(torch.isfinite(plain).all()):
            not_applicable(f"without padding the model overflows in {dtype}")
        for side in ("left", "right"):
            batch = ragged(subject, side, lengths)
            logits = subject.run(model, batch.ids, padding.mask(batch.real, subject))
            wrong = ~torch.isfinite(logits).all(-1).cpu() & batch.real
            require(
                not bool(wrong.any()),
                f"with {side} padding the logits of real tokens are finite in {dtype}",
                fails=f"With padding on the {side}, {{measured}} real tokens have logits that are "
                f"NaN or infinite in {dtype}",
                measured=float(wrong.sum()),
                at_most=0.0,
                where=_first(wrong),
                remedy="are two additive masks summed to -inf, so that a row has nothing left? "
                "Combine them as booleans, or let padding see itself.",
                cause="masks-add-to-infinity",
                use=str(dtype).removeprefix("torch."),
            )
    except SubjectError as error:
        not_applicable(f"the model does not run in {dtype}: {error}")


def _require_side(view: View, side: str) -> None:
    """Judge no side that is declared not to be meant."""
    declared = view.subject.declarations.get("padding_side", side)
    if declared != side:
        not_applicable(f"padding is declared to stand on the {declared}")


def _lengths(view: View) -> list[int]:
    """Four lengths, the longest and a very short one among them."""
    longest = view.length
    if view.subject.convention.only_length is not None or longest < 4:
        not_applicable(f"the model runs at length {longest} alone")
    return [longest, max(2, longest - 4), 2, longest - 1]


def _kept(view: View, batch: Ragged, extra: dict[str, Any]) -> Tensor:
    """Logits of real tokens, one after the other, (N, V)."""
    logits = view.logits(batch.ids, **extra)
    kept = logits[batch.real.to(logits.device)]
    if not bool(torch.isfinite(kept).all()):
        not_applicable("not judged: padding gives logits that are not finite (see padding.finite)")
    return kept


def _first(wrong: Tensor) -> dict[str, int]:
    places = wrong.nonzero()
    return dict(zip(("row", "position"), places[0].tolist(), strict=True)) if len(places) else {}
