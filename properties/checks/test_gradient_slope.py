"""AUD-12: a gradient is the slope of what the forward computes."""

from __future__ import annotations

from theodolite.fixtures.judging.judgement import not_applicable, require
from theodolite.fixtures.relations.finite_differences import (
    damping,
    differentiate,
    slopes,
    wrong_parameters,
)
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("gradient.slope", "AUD-12", component="gradient", views=("sharpened",))
def test_backward_gives_the_slope_of_the_forward(view: View) -> None:
    """Along random directions of all weights, autograd agrees with finite differences.

    It shows a backward that was written by hand and is wrong, and a path that is cut off the graph:
    the forward is right then, and training is not. An embedding that is detached in part, to learn
    more slowly, gives one and the same part of its slope in every direction, and is let be.
    """
    try:
        found = differentiate(view)
    except RuntimeError:  # in evaluation some write a cache, over what a backward has need of
        found = differentiate(view, training=True)
    if found is None:
        not_applicable("the logits carry no gradient (inference mode, or frozen throughout)")
    clear = slopes(found)
    if len(clear) < 2:
        not_applicable(
            "small steps in the weights make the logits jump (experts, or codes, are chosen)"
        )
    wrong = [one for one in clear if not one.agrees]
    is_wrong = 2 * len(wrong) > len(clear)  # a kink beside one direction is no fault
    if is_wrong and not view.training and _is_right_in_training(view):
        view.subject.note(
            "gradients are the slopes of the forward in train mode only, not in evaluation"
        )
        not_applicable("in evaluation part of the forward is detached; in train mode none is")
    worst = max(wrong if is_wrong else clear, key=lambda one: one.off)
    where = {"view": view.name}
    if is_wrong:
        guilty = wrong_parameters(found)
        factors = [damping(found, name) for name in guilty]
        if factors and None not in factors:
            said = ", ".join(
                f"{name} ({factor:.2g})" for name, factor in zip(guilty, factors, strict=True)
            )
            view.subject.note(f"backward gives a fixed part of the slope along {said}")
            not_applicable("the stream is detached in part, by one factor in every direction")
        where["wrong"] = f"{len(guilty)} of {len(found.names)} parameters"
        where["last"] = guilty[-1] if guilty else "none by itself"
    require(
        not is_wrong,
        "gradients are the slopes of the forward",
        fails="Gradients are not the slopes of the forward: they are off by {measured} of the "
        "slope",
        measured=worst.off,
        at_most=worst.allowed,
        where=where,
        remedy="is a backward written by hand wrong, or a path cut off (no_grad, detach, .data)? "
        "Weights before the fault have a wrong gradient, those after it a right one.",
        cause="gradient-not-the-slope",
    )


def _is_right_in_training(view: View) -> bool:
    """Whether in train mode, without dropout, gradients are the slopes."""
    found = differentiate(view, training=True)
    clear = slopes(found) if found is not None else []
    return len(clear) > 1 and all(one.agrees for one in clear)
