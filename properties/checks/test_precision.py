"""AUD-8: a model's own dtype is precise enough for it, at late positions too."""

from __future__ import annotations

import torch

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import not_applicable
from theodolite.fixtures.judging.rounding import random_walk
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("precision.native", "AUD-8", component="dtype")
def test_its_own_dtype_gives_what_a_finer_one_gives(view: View) -> None:
    """The same weights in float64 move the logits of a float32 model by rounding alone.

    It shows what float32 suffers from: a large bias that swallows the scores, a sum that overflows,
    a difference of large numbers. Half precision is judged by `precision.half`.
    """
    own = next((p.dtype for p in view.model.parameters() if p.is_floating_point()), torch.float32)
    if own != torch.float32:
        other = "there is no finer dtype" if own == torch.float64 else "see precision.half"
        not_applicable(f"the model computes in {own}: {other}")
    ids = view.random_ids(2)
    try:
        exact = view.subject.run(view.copy().double(), ids, view.extra(ids))
    except (SubjectError, RuntimeError) as error:
        not_applicable(f"the model does not run in float64: {error}")
    if not bool(torch.isfinite(exact).all()):
        not_applicable("the model gives no finite logits in float64")
    view.same(
        view.logits(ids),
        exact,
        "float32 gives the logits of float64",
        fails="In float32 the logits are off by {measured} from those in float64, more than "
        "rounding explains",
        bound=max(view.relation_bound, random_walk(view.model, exact, own)),
        remedy="is a large number added to the scores (-1e9 as a bias on all of them), or a "
        "small difference taken of large ones?",
    )
