"""GPT-5 and AUD-10 on a subject: its loss is the cross-entropy of its own logits, shifted once."""

from __future__ import annotations

import torch

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import at_most, judge, not_applicable, require
from theodolite.fixtures.serving.loss import (
    FACTOR,
    cross_entropy,
    due_pairing,
    fit_of,
    loss_of,
    plain_fit,
)
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("loss.own_logits", "GPT-5", "AUD-10", component="loss", views=("sharpened",))
def test_the_loss_is_the_cross_entropy_of_the_own_logits_shifted_once(view: View) -> None:
    """Random targets, four times, so that what the targets do not change does not count."""
    fit, bound = fit_of(view)
    if fit.rest <= bound and fit.is_mean and fit.factor < 1 - FACTOR:
        not_applicable(
            f"the loss smooths its labels: {1 - fit.factor:.3g} of each target is spread out"
        )
    at_most(
        fit.rest,
        bound,
        "the loss follows the cross-entropy of the model's own logits",
        fails="The loss is off by {measured} from the cross-entropy of the model's own logits, "
        "in whatever direction targets are shifted",
        remedy="does it take the logits of the same call, over the vocabulary axis, with targets "
        "flattened alike?",
        cause="loss-of-something-else",
    )
    require(
        fit.shift in ("ids", "next"),
        "targets are shifted once",
        fails=f"The loss shifts its targets wrongly: {fit.shift}",
        where={"shift": fit.shift},
        remedy="is there a shift both in forward and in the loss it calls? Then token t + 2 is "
        "trained.",
        cause="shifted-twice",
    )
    judge(
        fit.factor,
        1.0,
        "the loss is the mean over tokens",
        fails=f"The loss is {fit.factor:.4g} times the mean over the tokens",
        bound=max(FACTOR, bound),
        where={"tokens": view.random_ids(3).numel()},
        remedy='is it a sum (reduction="sum"), or divided by something else than the tokens?',
        cause="loss-not-a-mean",
    )
    keyword = view.subject.targets
    due = due_pairing(view.subject)
    require(
        due is None or due == fit.shift,
        f"{keyword}= are {'shifted by the loss' if due == 'ids' else 'taken as they are'}",
        fails=f"{keyword}= are taken as they are, and the loss should shift them"
        if due == "ids"
        else f"{keyword}= are shifted by the loss, and should be taken as they are",
        where={"found": fit.shift},
        remedy="the logits at t are held against the token at t, which the model can see: shift "
        "logits and targets by one"
        if due == "ids"
        else "the targets come shifted already: do not shift them again",
        cause="not-shifted" if due == "ids" else "shifted-twice",
    )
    said = "shifts them itself" if fit.shift == "ids" else "takes them shifted already"
    view.subject.note(f"the loss takes targets as {keyword}= and {said}")
    if abs(fit.added) > bound:
        view.subject.note(f"the loss adds {fit.added:.3g} beside the cross-entropy")


@check("loss.ignored", "GPT-5", "AUD-10", component="loss", views=("sharpened",))
def test_ignored_targets_do_not_count_and_the_mean_is_over_tokens(view: View) -> None:
    """Rows with 1, all and half of their targets: each token counts alike, ignored ones never."""
    fit, bound = plain_fit(view)
    declared = view.subject.declarations.get("ignore_index")
    ids, targets = view.random_ids(3), view.random_ids(3, seed=9)
    length = ids.shape[1]
    refusals = []
    for index in (-100, -1) if declared is None else (int(declared),):
        counted = torch.ones(ids.shape, dtype=torch.bool)
        counted[0, 2:] = False
        counted[2, length // 2 :] = False
        spoilt = torch.where(counted, targets + (targets == index).long(), index)
        try:
            loss, logits = loss_of(view, ids, spoilt)
        except SubjectError as error:
            refusals.append(str(error))
            continue
        exact = cross_entropy(logits, spoilt, fit.shift, ignore_index=index)
        judge(
            loss,
            fit.added + fit.factor * exact,
            f"targets {index} do not count, and every other token counts alike",
            fails=f"With some targets {index}, the loss is off by {{measured}} from the mean over "
            "the tokens that count",
            bound=bound,
            where={"ignored": int((~counted).sum()), "of": counted.numel()},
            remedy="is ignore_index passed to the loss, and is the mean taken over all tokens that "
            "count, instead of over rows first?",
            cause="ignored-targets-count",
        )
        view.subject.note(f"targets {index} do not count in the loss")
        return
    require(
        declared is None,
        f"the declared ignore_index {declared} is accepted",
        fails=f"The declared ignore_index {declared} is refused: {'; '.join(refusals)}",
        remedy="pass ignore_index to the cross-entropy",
        cause="ignored-targets-count",
    )
    not_applicable(
        "no target that is ignored was found (-100 and -1 are refused); declare ignore_index=N"
    )
