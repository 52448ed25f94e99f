"""AUD-10 on a subject: its loss over ragged batches, padded further, and taken in small ones."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import judge, not_applicable
from theodolite.fixtures.serving.loss import (
    COUNT,
    Fit,
    add_gradient,
    ignored_target,
    loss_of,
    plain_fit,
)
from theodolite.fixtures.serving.padding import Ragged, far, padding_of, ragged, reads_padded
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_MORE = 3
"""Tokens of padding that are added."""


_GRADIENT = 1e-3
"""Relative distance between two sums of the same float32 gradients: each is off by some 1e-5 of its
norm for a thousand terms through a dozen products. A mean of means is off by some tenths."""


@check("loss.padding", "AUD-10", "AUD-5", component="loss", views=("sharpened",), budget="standard")
def test_more_padding_does_not_change_the_loss(view: View) -> None:
    """A ragged batch, filled up further with ignored targets; under a mask where there is one."""
    fit, bound = plain_fit(view)
    index = ignored_target(view, fit, bound)
    length = view.length
    if length < _MORE + 4 or view.subject.convention.only_length is not None:
        not_applicable(f"the model takes no more than {length} tokens")
    lengths = [length - _MORE, 3, length - _MORE - 1]
    bound += 2 * view.relation_bound  # cross-entropy moves by at most twice what logits do
    for side, masked in (("right", False), ("right", True), ("left", True)):
        if masked and view.subject.padding is None:
            continue
        batch = ragged(view.subject, side, lengths)
        if masked and not reads_padded(view, batch):
            continue  # padding.alone says so
        counted = batch.real
        if side == "left":  # padding before it would have to predict a text's first token
            counted = batch.real & (batch.real.cumsum(1) > 1)
        targets = torch.where(counted, view.subject.random_ids(3, lengths[0], seed=9), index)
        extra = _told(view, batch) if masked else {}
        less, scores = loss_of(view, batch.ids, targets, **extra)
        filler = view.random_ids(3, _MORE, seed=5)
        ids, more = (
            _beside(side, what, fill)
            for what, fill in ((batch.ids, filler), (targets, torch.full_like(filler, index)))
        )
        if masked:
            real = _beside(side, batch.real, torch.zeros_like(filler, dtype=torch.bool))
            extra = _told(view, Ragged(batch.texts, ids, real))
        padded, moved = loss_of(view, ids, more, **extra)
        kept = moved[:, _MORE:] if side == "left" else moved[:, :-_MORE]
        if far(kept[counted], scores[counted], view.relation_bound):
            not_applicable("not judged: padding moves the logits (see causality, padding, batch)")
        view.same(
            padded,
            less,
            f"more padding on the {side} does not change the loss",
            fails=f"{_MORE} more tokens of padding on the {side} change the loss by {{measured}}",
            bound=bound,
            where={"padding": _MORE, "under a mask": masked},
            remedy="Is the sum divided by the targets that count, and not by B·T?",
            cause="padding-counts",
        )


@check("loss.accumulation", "AUD-10", component="loss", views=("sharpened",))
def test_ragged_micro_batches_together_give_the_loss_and_gradient_of_one_batch(view: View) -> None:
    """Each row by itself, weighted by its tokens, or by the loss where it is told their number."""
    fit, bound = plain_fit(view)
    if abs(fit.added) > bound:
        not_applicable("the loss adds a term of its own, which need not add up over rows")
    index = ignored_target(view, fit, bound)
    if view.rows_mix:
        not_applicable("not judged: rows of a batch change each other (see batch.independence)")
    ids, targets = view.random_ids(3), view.random_ids(3, seed=9)
    targets[0, 3:] = index
    targets[2, view.length // 2 :] = index
    alone = torch.cat([view.logits(row[None]) for row in ids])
    if far(alone, view.logits(ids), view.relation_bound):
        not_applicable(
            "not judged: a row has other logits alone than in a batch (see batch.independence)"
        )
    counts = [_counted(row[None], index, fit) for row in targets]
    left: dict[int, Tensor] = {}
    whole = add_gradient(view, ids, targets, 1.0, left)
    size = _length(left)
    if not size:
        not_applicable("not judged: no weight has a gradient (see gradient.every_parameter)")
    takes = _takes_count(view, ids, targets)
    shares = [1.0 if takes else count / sum(counts) for count in counts]
    extra = {COUNT: torch.tensor(sum(counts))} if takes else {}
    parts = [
        add_gradient(view, ids[row, None], targets[row, None], -share, left, **extra)
        for row, share in enumerate(shares)
    ]
    where = {"view": view.name, "tokens": counts, **({"told by": COUNT} if takes else {})}
    judge(
        sum(share * loss for share, loss in zip(shares, parts, strict=True)),
        whole,
        "the losses of micro-batches, by their tokens, add up to that of one batch",
        fails="The losses of micro-batches, weighted by their tokens, add up to {measured} more "
        "or less than that of one batch",
        bound=bound + 2 * view.relation_bound,
        where=where,
        remedy="Is each divided by all tokens of the step, and not by its own? A mean of means "
        "weighs the tokens of short rows more.",
        cause="mean-of-means",
    )
    judge(
        _length(left) / size,
        0.0,
        "gradients of micro-batches, by their tokens, add up to that of one batch",
        fails="The gradients of micro-batches, weighted by their tokens, are off by {measured} "
        "of the gradient of one batch",
        bound=_GRADIENT,
        where=where,
        remedy="Does backward depend on what else is in the batch, or on the call before?",
        component="gradient",
        cause="gradients-do-not-add",
    )


@check("loss.count", "AUD-10", component="loss", views=("sharpened",))
def test_a_loss_that_is_told_how_many_tokens_a_step_has_divides_by_them(view: View) -> None:
    """A trainer that passes the number on does not divide by the number of micro-batches itself."""
    fit, bound = plain_fit(view)
    if not _is_told(view):
        not_applicable(f"forward takes no {COUNT}")
    ids = view.random_ids(3)
    targets = view.random_ids(3, seed=9)
    plain, _ = loss_of(view, ids, targets)
    count = _counted(targets, -100, fit)
    try:
        half, _ = loss_of(view, ids, targets, **{COUNT: torch.tensor(2 * count)})
    except SubjectError as error:
        not_applicable(f"{COUNT} is refused: {error}")
    view.same(
        half - fit.added,
        (plain - fit.added) / 2,
        f"with {COUNT} twice the tokens of the batch, the loss is half",
        fails=f"With {COUNT} twice the tokens of the batch, the loss is not half: it is off by "
        f"{{measured}}",
        bound=bound + abs(fit.added) * bound,
        where={"tokens": count},
        remedy=f"forward takes **kwargs, so that a trainer hands it {COUNT} and leaves the "
        "scaling to it: pass it on to the loss, or say accepts_loss_kwargs = False. Otherwise "
        "gradients are too large by the number of micro-batches.",
        cause="count-ignored",
    )


def _told(view: View, batch: Ragged) -> dict[str, Any]:
    """What says where tokens are real: a mask, and positions where forward takes them."""
    extra = padding_of(view.subject).mask(batch.real, view.subject)
    if view.subject.positions is not None:
        extra[view.subject.positions] = batch.positions.to(view.subject.device)
    return extra


def _beside(side: str, what: Tensor, more: Tensor) -> Tensor:
    return torch.cat([more, what] if side == "left" else [what, more], dim=1)


def _length(gradient: Mapping[int, Tensor]) -> float:
    """The length of a gradient in all parameters."""
    return math.hypot(*(float(part.double().norm()) for part in gradient.values()))


def _counted(targets: Tensor, index: int, fit: Fit) -> int:
    """How many of targets (B, T) count, as the loss pairs them with logits."""
    return int(((targets[:, 1:] if fit.shift == "ids" else targets) != index).sum())


def _is_told(view: View) -> bool:
    """Whether a trainer of the library that counts tokens hands this model their number.

    It does where forward takes it by name, and where a model of that library takes anything and
    does not say that it wants none.
    """
    model = view.model
    parameters = inspect.signature(model.forward).parameters
    if COUNT in parameters:
        return True
    accepts = getattr(model, "accepts_loss_kwargs", None)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return view.subject.is_library and (open_ended if accepts is None else bool(accepts))


def _takes_count(view: View, ids: Tensor, targets: Tensor) -> bool:
    if not _is_told(view):
        return False
    try:
        one, other = (loss_of(view, ids, targets, **{COUNT: torch.tensor(n)})[0] for n in (10, 20))
    except SubjectError:
        return False
    return one != other
