"""AUD-9: a forward leaves no trace, and a saved model is the same model."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from theodolite.fixtures.judging.judgement import judge, not_applicable, require
from theodolite.fixtures.relations.registration import (
    fingerprints,
    tied_names,
    unregistered_modules,
)
from theodolite.fixtures.source.containment import drawn_from
from theodolite.fixtures.subject.copies import sharpen
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check

_ANOTHER_SEED = 1


@check("state.untouched", "AUD-9", component="state")
def test_a_forward_changes_nothing(subject: Subject) -> None:
    """Parameters, saved buffers, ids, the random generator and training flags stay as they were."""
    model = subject.model
    ids = subject.random_ids(2).to(subject.device)
    kept_ids = ids.clone()
    state = fingerprints(model.state_dict())
    flags = [module.training for module in model.modules()]
    with subject.limits(), torch.no_grad():
        generator = torch.get_rng_state()
        with subject.telling(ids):
            subject.convention.call(model, ids)
        drew = not torch.equal(generator, torch.get_rng_state())
    after = fingerprints(model.state_dict())
    touched = [name for name, print_ in state.items() if after.get(name) != print_]
    require(
        not touched,
        "a forward changes no parameter and no saved buffer",
        fails="A forward changes what it should only read: {tensor}",
        where={"tensor": ", ".join(touched[:4])},
        remedy="is a weight or buffer modified in place (add_, copy_, /=) in forward?",
    )
    require(
        torch.equal(ids, kept_ids),
        "a forward does not modify the ids it is given",
        fails="A forward changes the ids that it is given",
        remedy="are ids changed in place (masked_fill_, idx[...] = ...)? Work on a clone.",
    )
    require(
        flags == [module.training for module in model.modules()],
        "a forward leaves the training flags alone",
        fails="A forward switches some module between train and eval mode",
        remedy="does forward call train() or eval()?",
    )
    hidden = unregistered_modules(model)
    require(
        not drew,
        "evaluation draws no random numbers",
        fails="Evaluation draws random numbers",
        where={"module": hidden[0]} if hidden else {},
        remedy="is dropout applied in eval mode, noise added, or a module kept where eval() does "
        "not reach it (a plain list)?",
        component="parameters" if hidden else "dropout",
        cause="unregistered" if hidden else "dropout-in-eval",
    )


@check("state.round_trip", "AUD-9", component="state")
def test_a_saved_and_loaded_model_is_the_same_model(subject: Subject) -> None:
    """Sharpened weights, saved and loaded into another instance, give the same logits."""
    view = subject.views.sharpened
    if view.obstacle:
        not_applicable(view.obstacle)
    ids = view.random_ids(2)
    expected = view.logits(ids)
    tied = tied_names(view.model)
    saved = copy.deepcopy(view.model.state_dict())
    sharpen(view.model, seed=1)
    try:
        _load(view.model, saved)
        logits, still = view.logits(ids), tied_names(view.model)
    finally:
        sharpen(view.model)
    judge(
        logits,
        expected,
        "after saving and loading the logits are the same",
        fails="Saving and loading the weights changes the logits by {measured}",
        axes=("row", "position", "token"),
        remedy="is a weight missing from state_dict (a plain attribute, a list of modules)?",
    )
    require(
        still == tied,
        "weights that were tied are tied after loading",
        fails="Weights that were tied are no longer tied after loading: {tied}",
        where={"tied": ", ".join("=".join(group) for group in tied)},
        remedy="tie by assigning the same Parameter, and tie again after replacing it",
        component="tying",
    )


@check("state.rebuilt", "AUD-9", component="state")
def test_weights_loaded_into_a_fresh_instance_give_the_same_logits(subject: Subject) -> None:
    """A second instance, built the same way under another seed, takes over the saved weights."""
    if subject.loaded.rebuild is None:
        not_applicable(
            "a live object cannot be built a second time: name its class or a factory to judge this"
        )
    view = subject.views.as_given
    if view.obstacle:
        not_applicable(view.obstacle)
    ids = view.random_ids(2)
    with drawn_from(_ANOTHER_SEED):
        other = subject.loaded.rebuild()
    other.eval()
    sharpen(other, seed=1)
    _load(other, view.model.state_dict())
    judge(
        subject.run(other.to(subject.device), ids),
        view.logits(ids),
        "a fresh instance with the saved weights gives the same logits",
        fails="A second instance with the same saved weights gives logits that are off by "
        "{measured}",
        bound=view.relation_bound,
        axes=("row", "position", "token"),
        remedy="does the model hold random state outside state_dict (a buffer with "
        "persistent=False, a plain tensor, modules in a list)?",
    )


def _load(model: nn.Module, saved: dict[str, Tensor]) -> None:
    missing, unexpected = model.load_state_dict(saved, strict=False)
    require(
        not missing and not unexpected,
        "a model loads the state_dict that it saved",
        fails="The model does not load the state_dict that it saved: missing {missing}; "
        "unexpected {unexpected}",
        where={"missing": ", ".join(missing[:4]), "unexpected": ", ".join(unexpected[:4])},
        remedy="do state_dict hooks rename keys one way only?",
    )
