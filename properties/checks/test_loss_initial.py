"""GPT-6 on a subject: an untrained model is about as good as guessing."""

from __future__ import annotations

import math

from theodolite.fixtures.judging.judgement import at_most, not_applicable
from theodolite.fixtures.judging.tolerances import INITIAL_EXCESS
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check


@check("loss.initial", "GPT-6", component="init")
def test_the_initial_loss_is_near_that_of_a_guess(subject: Subject) -> None:
    """The expected loss over uniform targets, logsumexp minus mean logit, is near ln V."""
    if not subject.fresh:
        not_applicable(
            "whether these weights are freshly initialised is not known; say so with "
            "--declare fresh=true"
        )
    view = subject.views.as_given
    if view.obstacle:
        not_applicable(view.obstacle)
    logits = view.logits(view.random_ids(8)).double()[..., : subject.vocabulary]
    loss = float((logits.logsumexp(-1) - logits.mean(-1)).mean())
    guess = math.log(subject.vocabulary)
    at_most(
        loss,
        guess + INITIAL_EXCESS,
        f"the initial loss is near ln {subject.vocabulary} = {guess:.3f}",
        fails=f"The loss of the untrained model is {{measured}}, and that of a guess ln "
        f"{subject.vocabulary} = {guess:.3f}",
        where={"logit spread": round(float(logits.std()), 3)},
        remedy="is the head, or an embedding tied to it, initialised with standard deviation 1 "
        "instead of about 1/√d?",
        cause="head-too-large",
    )
