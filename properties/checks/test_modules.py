"""AUD-12 and GPT-3 on a subject: whatever was built takes part."""

from __future__ import annotations

from torch import nn

from theodolite.fixtures.anatomy.norm import is_norm
from theodolite.fixtures.judging.judgement import none_of, not_applicable
from theodolite.fixtures.relations.idle_parameters import idle_parameters
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("modules.executed", "AUD-12", "GPT-3", component="parameters", views=("sharpened",))
def test_every_module_that_was_built_is_used(view: View) -> None:
    """No parameter is left unread by every kind of forward: evaluation, training, decoding."""
    if view.obstacle:
        not_applicable(view.obstacle)
    if not any(True for _ in view.model.parameters()):
        not_applicable("the model has no parameters")
    unread = idle_parameters(view).unread
    holders = [view.model.get_submodule(name.rpartition(".")[0]) for name in unread]
    norms = bool(holders) and all(map(is_norm, holders))
    none_of(
        unread,
        "every module that was built is used",
        fails="Built and never used: {never read}",
        where={"never read": ", ".join(_shortened(view.model, unread)[:4]), "view": view.name},
        remedy="Is the module never called, another called in its place, or does a loop end one "
        "layer early?",
        component="norm" if norms else None,
        cause="norm-unused" if norms else "never-called",
    )


def _shortened(model: nn.Module, names: list[str]) -> list[str]:
    """The names, those of a module of which nothing is read as the module's."""
    idle, found = set(names), []
    for name in names:
        shown, path = name, name.rpartition(".")[0]
        while path and all(
            f"{path}.{inner}" in idle for inner, _ in model.get_submodule(path).named_parameters()
        ):
            shown, path = path, path.rpartition(".")[0]
        if shown not in found:
            found.append(shown)
    return found
