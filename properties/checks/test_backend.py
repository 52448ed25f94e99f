"""AUD-7: however attention is computed, explicit, fused, compiled or exported, it is the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import not_applicable
from theodolite.fixtures.subject.switches import dropout_of, zeroed
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check(
    "backend.agree",
    "AUD-7",
    component="backend",
    views=(
        "other backend",
        "flex attention",
    ),
)
def test_another_attention_backend_gives_the_same_logits(view: View) -> None:
    """The subject's own choice of attention (eager, sdpa, flex, a flag) changes only rounding."""
    plain = view.subject.views.sharpened
    if plain.obstacle is not None:
        not_applicable(plain.obstacle)
    if plain.rows_mix:
        not_applicable("not judged: rows of a batch change each other (see batch.independence)")
    capped = any(call.soft_cap is not None for call in plain.insides.random.recording.calls)
    if capped and view.name != "flex attention":
        not_applicable("scores are soft-capped, which a fused operator cannot do")
    ids = view.random_ids(2)
    view.same(
        view.logits(ids),
        plain.logits(ids),
        "both attention backends give the same logits",
        fails="Two attention backends give logits that differ by {measured}; they must agree",
        bound=plain.relation_bound,
        remedy="are mask, scale, window, soft-cap and dropout passed on in both?",
    )


@check("backend.modes", "AUD-7", component="backend", views=("sharpened",))
def test_train_mode_without_dropout_computes_what_eval_mode_does(view: View) -> None:
    """Some operators take another path where nothing is to be learned: it is the same function."""
    model, ids = view.model, view.random_ids(2)
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules()):
        not_applicable("in train mode BatchNorm normalises by statistics of the batch, by design")
    model.train()
    try:
        with zeroed(dropout_of(model)):
            logits, again = (
                view.subject.run(model, ids, view.extra(ids), seed=seed) for seed in (0, 1)
            )
    finally:
        model.eval()
    if not torch.equal(logits, again):
        not_applicable("in train mode it draws random numbers even without dropout")
    _judge_same(
        view,
        ids,
        logits,
        way="in train mode without dropout",
        remedy="do both paths read mask, bias and scale alike? Where it is meant, expect this "
        "failure, with the reason.",
        cause="modes-differ",
    )


@check(
    "backend.compiled",
    "AUD-7",
    component="backend",
    views=("sharpened",),
    level="hazard",
    use="compile",
    budget="thorough",
)
def test_a_compiled_model_gives_the_same_logits(view: View) -> None:
    """Through torch.compile, on other tokens than the first.

    Its graphs are run as they are captured: what a model does otherwise while it is compiled, or
    keeps of the first call, shows in them, and making machine code of them takes a minute.
    """
    compiled: Any = torch.compile(view.copy(), backend="aot_eager")
    first, ids = view.random_ids(2, seed=1), view.random_ids(2)
    view.subject.compiling = True
    try:
        view.subject.run(compiled, first, view.extra(first))
        logits = view.subject.run(compiled, ids, view.extra(ids))
    except SubjectError as error:
        not_applicable(f"it does not compile here: {_first_line(error)}")
    finally:
        view.subject.compiling = False
        torch.compiler.reset()
    _judge_same(
        view,
        ids,
        logits,
        way="compiled",
        remedy="does it ask whether it is being compiled, or keep something of the first call?",
        cause="compiled-differs",
    )


@check(
    "backend.exported",
    "AUD-7",
    component="backend",
    views=("sharpened",),
    level="hazard",
    use="export",
    budget="thorough",
)
def test_an_exported_program_gives_the_same_logits(view: View) -> None:
    """Through torch.export, on other tokens than those that it was traced with."""
    first, ids = view.random_ids(2, seed=1), view.random_ids(2)
    exported = _export(view, first)
    _judge_same(
        view,
        ids,
        view.subject.outside(lambda: exported(ids.to(view.subject.device)), ids),
        way="exported",
        remedy="is a tensor made from the values of the first tokens, and kept as a constant?",
        cause="exported-differs",
    )


def _judge_same(
    view: View, ids: Tensor, logits: Tensor, *, way: str, remedy: str, cause: str
) -> None:
    """Require of the logits (B, T, V) that another way of running gave: they are the view's own."""
    view.same(
        logits,
        view.logits(ids),
        f"{way}, the model gives the same logits",
        fails=f"{way.capitalize()}, the model gives logits that are off by {{measured}}",
        remedy=remedy,
        cause=cause,
    )


def _export(view: View, ids: Tensor) -> nn.Module:
    """The program that torch.export makes of a view, ids (B, T) to logits.

    Raises:
        NotApplicable: If it makes none; says why. That is no fault.
    """
    whole = _Logits(view)
    try:
        with view.subject.limits(), torch.no_grad():
            exported = torch.export.export(whole, (ids.to(view.subject.device),))
    except Exception as error:
        not_applicable(f"torch.export makes no program of it: {_first_line(error)}")
    return exported.module()


def _first_line(error: Exception) -> str:
    said = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {said[0][:300]}"


class _Logits(nn.Module):
    """A view as a module from ids to logits alone."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.model = view.model
        self._view = view

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, V)."""
        view = self._view
        return view.subject.convention.logits(self.model, ids, **view.extra(ids))
