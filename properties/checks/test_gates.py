"""What must hold before anything else can be judged."""

from __future__ import annotations

import torch

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import judge, not_applicable, require
from theodolite.fixtures.relations.blame import Guilty, accuse, first_not_finite
from theodolite.fixtures.relations.registration import unregistered_modules
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import claim

_LARGEST_SANE_WEIGHT = 1e6
"""No initialisation in use gives weights beyond a few hundred; memory that nobody initialised shows
1e30 as readily as 1e-30."""


_DROPOUT = (
    "is dropout applied in eval mode (F.dropout without training=self.training, or dropout_p "
    "passed to scaled_dot_product_attention unconditionally)?"
)
_UNREGISTERED = (
    "modules in a plain list or dict are not registered: eval() does not reach them, nor does an "
    "optimiser; use nn.ModuleList or nn.ModuleDict"
)


@claim("AUD-11", check="shape.runs", component="shape")
def test_it_runs_on_batches_and_odd_lengths(subject: Subject) -> None:
    """Ids (B, T) give logits (B, T, V), for B = 1, 2, 3 and odd T."""
    if subject.convention.only_length is not None:
        require(
            condition=False,
            says="the model runs at every length",
            where={"works": subject.convention.only_length},
            remedy="are positions, masks or buffers cut to the length of the input ([:T])?",
        )
    widths = set()
    for batch, length in ((1, 5), (2, subject.length), (3, 7)):
        length = min(length, subject.longest or length)  # noqa: PLW2901
        try:
            logits = subject.run(subject.model, subject.random_ids(batch, length))
        except SubjectError as error:
            require(
                condition=False,
                says=f"the model runs on ids of shape ({batch}, {length}): {error}",
                where={"batch": batch, "length": length},
                remedy="is a size written down that should be read from the input?",
            )
        widths.add(logits.shape[-1])
    require(len(widths) == 1, f"the logits are as wide for every input (widths {sorted(widths)})")


@claim("GPT-7", check="logits.finite", component="shape")
def test_logits_are_finite(subject: Subject) -> None:
    """No logit of random tokens is NaN or infinite."""
    ids = subject.random_ids(2)
    logits = subject.run(subject.model, ids)
    wrong = (~torch.isfinite(logits)).nonzero().tolist()
    guilty = Guilty("", "shape")
    if wrong:
        view = subject.views.as_given
        guilty = accuse(view, ids, first_not_finite(view, ids), otherwise="shape")
    require(
        len(wrong) == 0,
        "logits are finite",
        measured=float(len(wrong)),
        where=dict(zip(("row", "position", "token"), wrong[0], strict=True), **guilty.where)
        if wrong
        else {},
        component=guilty.component,
        cause=guilty.cause,
        remedy="is a row fully masked, a division by zero, or a weight uninitialised?",
    )


@claim("AUD-9", check="parameters.sane", component="init")
def test_parameters_are_initialised(subject: Subject) -> None:
    """Every parameter and buffer is finite and of sane size: memory was initialised."""
    named = [*subject.model.named_parameters(), *subject.model.named_buffers()]
    weights = dict(subject.model.named_parameters())
    for name, tensor in named:
        if not tensor.is_floating_point() or tensor.is_meta:
            continue
        nan = bool(torch.isnan(tensor).any())
        largest = float(tensor.detach().abs().max()) if tensor.numel() and not nan else 0.0
        insane = name in weights and not largest <= _LARGEST_SANE_WEIGHT
        require(
            not (nan or insane),
            "every parameter is initialised",
            measured=largest,
            bound=_LARGEST_SANE_WEIGHT,
            where={"parameter": name},
            remedy="is it made by torch.empty and never filled?",
        )


@claim("GPT-8", check="state.repeat", component="dropout")
def test_evaluation_is_the_same_every_time(subject: Subject) -> None:
    """In eval mode the same ids give the same logits, whatever the random generator's state."""
    if not hasattr(subject.model, "eval"):
        not_applicable("the model has no eval mode")
    ids = subject.random_ids(2)
    first = subject.run(subject.model, ids)
    again = subject.run(subject.model, ids)
    if not bool(torch.isfinite(first).all()):
        not_applicable("the logits are not finite")
    judge(
        again,
        first,
        bound=0.0,
        says="a second call gives the logits of the first",
        axes=("row", "position", "token"),
        remedy="does forward keep state from one call to the next (a cache that is not reset)?",
        component="state",
        cause="state-between-calls",
    )
    hidden = unregistered_modules(subject.model)
    judge(
        subject.run(subject.model, ids, seed=1),
        first,
        bound=0.0,
        says="evaluation does not depend on the random generator",
        axes=("row", "position", "token"),
        where={"module": hidden[0]} if hidden else {},
        remedy=_UNREGISTERED if hidden else _DROPOUT,
        component="parameters" if hidden else None,
        cause="unregistered" if hidden else "dropout-in-eval",
    )
