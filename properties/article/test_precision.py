"""AUD-8: the reference cast to half precision keeps late positions."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from theodolite.fixtures.judging.judgement import judge
from theodolite.fixtures.judging.rounding import random_walk
from theodolite.fixtures.oracles.reference_stream import random_ids, small_config, small_gpt
from theodolite.properties import claim

LATE = 8000


"""bfloat16 resolves 32 radians here: tables that were cast down have lost every angle."""


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
        f"{dtype} keeps the logits of late positions".replace("torch.", ""),
        bound=random_walk(model, wanted, dtype),
        axes=("row", "position", "token"),
        remedy="are angles, or their cosines, computed or kept in half precision?",
        component="dtype",
    )
