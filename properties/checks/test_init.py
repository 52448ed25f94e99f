"""AUD-9 on a subject: how it is made, twice, and how it changes between evaluation and training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from theodolite.fixtures.judging.judgement import not_applicable, require
from theodolite.fixtures.relations.registration import fingerprints
from theodolite.fixtures.source.unfilled_memory import left_unfilled
from theodolite.fixtures.subject.copies import copy_of
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check


@check("init.reproducible", "AUD-9", component="init")
def test_two_constructions_under_one_seed_are_equal(subject: Subject) -> None:
    """Parameters and buffers alike, and none is left as the memory happens to be."""
    rebuild = subject.loaded.rebuild
    if rebuild is None:
        not_applicable(
            "a live object cannot be built a second time: name its class or a factory to judge this"
        )
    left = left_unfilled(subject.loaded.model)
    require(
        not left,
        "every parameter and buffer is filled when the model is made",
        fails="Some memory is never filled when the model is made: {tensor}",
        where={"tensor": ", ".join(left[:4])},
        remedy="is it made by torch.empty, and left as the memory was?",
        cause="uninitialised",
    )
    first, second = _prints(rebuild()), _prints(rebuild())  # one model at a time
    for name, contents in first.items():
        require(
            second.get(name) == contents,
            "two constructions under one seed are equal",
            fails="Two models made under one seed differ in {tensor}",
            where={"tensor": name},
            remedy="is something drawn from another generator than torch's (numpy, random), or "
            "kept between constructions?",
            cause="not-reproducible",
        )


def _prints(model: nn.Module) -> dict[str, str]:
    """Of every parameter and buffer."""
    return fingerprints(dict([*model.named_parameters(), *model.named_buffers()]))


@check("init.train_and_eval", "AUD-9", component="dropout")
def test_training_mode_comes_back_after_evaluation(subject: Subject) -> None:
    """eval() reaches every module and train() too; dropout that acted before acts again."""
    rebuild = subject.loaded.rebuild  # as it is before anything called eval()
    model = rebuild() if rebuild is not None else copy_of(subject.loaded.model)
    model = model.to(subject.device)
    for mode, switch in (("eval", False), ("train", True)):
        model.train(switch)
        wrong = [name for name, module in model.named_modules() if module.training is not switch]
        require(
            not wrong,
            f"{mode}() reaches every module",
            fails=f"{mode}() does not reach every module: {{module}}",
            where={"module": ", ".join(wrong[:3])},
            remedy="does a module override train(), or set self.training itself?",
            cause="mode-not-passed-on",
        )
    if subject.views.as_given.obstacle:
        not_applicable(subject.views.as_given.obstacle)
    ids = subject.random_ids(2)
    before = _noisy(subject, model, ids)
    model.eval()
    still = _noisy(subject, model, ids)
    model.train()
    require(
        not still,
        "evaluation after training draws nothing",
        fails="Evaluation draws random numbers after training: its logits change with the seed",
        remedy="is dropout applied whatever the mode?",
        cause="dropout-in-eval",
    )
    require(
        _noisy(subject, model, ids) == before,
        "dropout acts in training after evaluation as before it",
        fails="Dropout that acted in training no longer acts after an evaluation",
        remedy="does eval() set a rate to 0, or replace a module, for good?",
        cause="dropout-lost",
    )


def _noisy(subject: Subject, model: nn.Module, ids: Tensor) -> bool:
    return not torch.equal(subject.run(model, ids, seed=0), subject.run(model, ids, seed=1))
