"""AUD-8: a model's own dtype is precise enough for it, at late positions too."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import judge, not_applicable
from theodolite.fixtures.oracles.reference_stream import random_ids, small_config, small_gpt
from theodolite.fixtures.subject.view import View
from theodolite.properties import claim

LATE = 8000
"""bfloat16 resolves 32 radians here: tables that were cast down have lost every angle."""


@claim("AUD-8", check="precision.native", component="dtype")
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
        not_applicable(f"the model does not run in float64: {str(error)[:120]}")
    if not bool(torch.isfinite(exact).all()):
        not_applicable("the model gives no finite logits in float64")
    judge(
        view.logits(ids),
        exact,
        bound=max(view.relation_bound, rounding(view.model, exact, own)),
        says="float32 gives the logits of float64",
        axes=("row", "position", "token"),
        where={"view": view.name},
        remedy="is a large number added to the scores (-1e9 as a bias on all of them), or a "
        "small difference taken of large ones?",
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@claim("AUD-8")
def test_the_reference_cast_to_half_precision_keeps_late_positions(dtype: torch.dtype) -> None:
    """Cast down, rotated by 8,000 positions and more, it stays near its own float64 run."""
    shape = dataclasses.replace(small_config(), context=None)
    exact = small_gpt(shape, 0)
    model = small_gpt(shape, 0).to(dtype)
    exact.load_state_dict(model.state_dict())  # the same, rounded, weights
    ids = random_ids(shape, 3, 16, seed=0)
    positions = torch.arange(LATE, LATE + 16)
    wanted = exact(ids, positions=positions)
    judge(
        model(ids, positions=positions),
        wanted,
        bound=rounding(model, wanted, dtype),
        says=f"{dtype} keeps the logits of late positions".replace("torch.", ""),
        axes=("row", "position", "token"),
        remedy="are angles, or their cosines, computed or kept in half precision?",
        component="dtype",
    )


def rounding(model: nn.Module, logits: Tensor, dtype: torch.dtype) -> float:
    """How far rounding may carry logits in `dtype`, six standard deviations of a random walk.

    Each product with a matrix, the nonlinearity after it and the addition to the stream round once,
    by eps/2 of the value at most; errors of that size add up like a random walk.
    """
    matrices = sum(p.ndim >= 2 for p in model.parameters())
    walk = float((3 * matrices) ** 0.5)
    return 3 * torch.finfo(dtype).eps * walk * float(logits.detach().std())
