"""AUD-7: the reference, explicit, fused, compiled and exported, is the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from theodolite.fixtures.judging.judgement import judge
from theodolite.fixtures.judging.tolerances import RELATION
from theodolite.fixtures.oracles.reference_stream import random_ids, small_config, small_gpt
from theodolite.properties import claim


@pytest.mark.parametrize("style", ["article", "gpt2"])
@claim("AUD-7")
def test_the_reference_is_the_same_explicit_and_fused(style: str) -> None:
    """`fused=True` computes what is written out, in float64 to rounding."""
    shape = small_config(style)
    ids = random_ids(shape, 2, 13, seed=0)
    plain = small_gpt(shape, 0)
    logits = small_gpt(small_config(style, fused=True), 0)(ids)
    judge(
        logits,
        plain(ids),
        "explicit and fused attention agree",
        bound=_far(plain(ids), torch.float64),
        axes=("row", "position", "token"),
        component="backend",
    )


@claim("AUD-7")
def test_the_reference_is_the_same_compiled_and_exported() -> None:
    """Traced by torch.export and by torch.compile, it gives the same logits."""
    shape = small_config()
    model = small_gpt(shape, 0, dtype=torch.float32)
    ids = random_ids(shape, 2, 13, seed=0)
    expected = model(ids)
    exported = torch.export.export(model, (ids,)).module()
    compiled = torch.compile(model, backend="eager")
    for name, other in (("exported", exported), ("compiled", compiled)):
        judge(
            other(ids),
            expected,
            f"the {name} model agrees with the plain one",
            bound=_far(expected, torch.float32),
            axes=("row", "position", "token"),
            component="backend",
        )
    torch.compiler.reset()


def _far(logits: Tensor, dtype: torch.dtype) -> float:
    """The bound of a relation in float32 (see `RELATION`), in the resolution of `dtype`."""
    ratio = torch.finfo(dtype).eps / torch.finfo(torch.float32).eps
    return RELATION * ratio * float(logits.detach().std())
