"""AUD-7: however attention is computed, explicit, fused, compiled or exported, it is the same."""

from __future__ import annotations

import pytest
import torch

from theodolite.fixtures.judging import judge, not_applicable
from theodolite.fixtures.stream import random_ids, small_config, small_gpt
from theodolite.fixtures.views import RELATION, View
from theodolite.properties import claim


@pytest.mark.parametrize("view", ["other backend"], indirect=True)
@claim("AUD-7", check="backend.agree", component="backend")
def test_another_attention_backend_gives_the_same_logits(view: View) -> None:
    """The subject's own choice of attention (eager, sdpa, a flash flag) changes only rounding."""
    plain = view.subject.views.sharpened
    if plain.obstacle is not None:
        not_applicable(plain.obstacle)
    if plain.rows_mix:
        not_applicable("not judged: rows of a batch change each other (see batch.independence)")
    if any(call.soft_cap is not None for call in plain.insides.random.recording.calls):
        not_applicable("scores are soft-capped, which a fused operator cannot do")
    ids = view.random_ids(2)
    judge(
        view.logits(ids),
        plain.logits(ids),
        bound=plain.relation_bound,
        says="both attention backends give the same logits",
        axes=("row", "position", "token"),
        where={"view": view.name},
        remedy="are mask, scale, window, soft-cap and dropout passed on in both?",
    )


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
        bound=_far(plain(ids), torch.float64),
        says="explicit and fused attention agree",
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
            bound=_far(expected, torch.float32),
            says=f"the {name} model agrees with the plain one",
            axes=("row", "position", "token"),
            component="backend",
        )
    torch.compiler.reset()


def _far(logits: torch.Tensor, dtype: torch.dtype) -> float:
    """The bound of a relation in float32 (see `RELATION`), in the resolution of `dtype`."""
    ratio = torch.finfo(dtype).eps / torch.finfo(torch.float32).eps
    return RELATION * ratio * float(logits.detach().std())
