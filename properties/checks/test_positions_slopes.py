"""POS-4 on a subject: a bias by distance has slopes of one series, another for each head."""

from __future__ import annotations

import math
from itertools import pairwise

from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.judging.judgement import each, require
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check

_STEP = 1e-2
"""Of the logarithm of a slope: a slope is read to 1e-4 of its size (see `read_slopes`)."""


@check("positions.slopes", "POS-4", component="position")
def test_the_slopes_of_heads_are_of_one_series_and_none_is_there_twice(subject: Subject) -> None:
    """ALiBi's slopes are powers of one number; heads whose number is no power of 2 skip some.

    Slopes that are learned are what training made of them.
    """
    layers = anatomy_of(subject).attention
    for index, layer in each(enumerate(layers), "no layer has a bias that grows with distance"):
        slopes = layer.slopes
        if layer.positions != "alibi" or slopes is None or len(slopes) < 3 or min(slopes) <= 0:
            continue
        if _is_learned(subject, slopes):
            continue
        where = {"layer": index, "module": layer.module}
        told = ", ".join(f"{slope:.3g}" for slope in slopes)
        logs = sorted(math.log(slope) for slope in slopes)
        gaps = [b - a for a, b in pairwise(logs)]
        require(
            min(gaps) > _STEP,
            "each head has a slope of its own",
            fails=f"Two heads have the same slope: {told}",
            where=where,
            remedy="Are slopes made for all heads, and not anew for each part of them (a rank, a "
            "group)?",
            cause="slopes-twice",
        )
        least = min(gaps)
        require(
            all(abs(gap / least - round(gap / least)) <= _STEP for gap in gaps),
            "the slopes of all heads are of one geometric series",
            fails=f"The slopes of the heads are of no one geometric series: {told}",
            where=where,
            remedy="2 ** (-8 * i / heads) for head i from 1 on.",
            cause="slopes-no-series",
        )


def _is_learned(subject: Subject, slopes: tuple[float, ...]) -> bool:
    """Whether a parameter that learns has as many numbers as there are slopes, and these."""
    view = subject.views.sharpened
    return any(
        parameter.requires_grad and parameter.numel() == len(slopes)
        for parameter in view.model.parameters()
    )
