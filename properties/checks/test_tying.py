"""AUD-9: tied weights stay tied."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from theodolite.fixtures.judging.judgement import not_applicable, require
from theodolite.fixtures.relations.registration import tied_names
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check


@check("tying.kept", "AUD-9", component="tying")
def test_tied_weights_stay_tied(subject: Subject) -> None:
    """Weights that share memory share it in a copy and after a cast; declared ties exist."""
    tied = tied_names(subject.model)
    declared = subject.declarations.get("tied")
    if not tied and declared is None:
        not_applicable("no weights are tied")
    if declared is not None:
        require(
            bool(tied) == bool(declared),
            f"embedding and head are {'tied' if declared else 'not tied'}, as declared",
            fails=f"Embedding and head are {'not tied' if declared else 'tied'}, though the "
            "contrary is declared",
            remedy="was one of them replaced after tying (a new Parameter, a resized embedding)?",
            cause="tie-broken",
        )
    _judge_step(subject, tied)
    other = torch.bfloat16 if subject.dtype is torch.float32 else torch.float32
    for what, names in (
        ("in a copy", tied_names(subject.views.sharpened.model)),
        ("after a cast", tied_names(subject.copy().to(other))),
    ):
        require(
            names == tied,
            f"weights that are tied stay tied {what}",
            fails=f"Tied weights come apart {what}: {{tied}}",
            where={"tied": ", ".join("=".join(group) for group in tied)},
            remedy="tie by assigning one Parameter; two that share memory come apart in a cast",
            cause="tie-broken",
        )


def _judge_step(subject: Subject, tied: list[tuple[str, ...]]) -> None:
    """Adam's first step moves no number by more than its rate, unless it meets it twice."""
    model, rate = subject.copy(), 2.0**-6
    names = [name for group in tied for name in group[:1]]
    everything = dict(model.named_parameters(remove_duplicate=False))
    shared = {id(p): p for group in tied for p in map(everything.__getitem__, group)}
    learning = [p for p in shared.values() if p.requires_grad]
    ids = subject.random_ids(2)
    logits = subject.run(model, ids, gradient=True)
    if not learning or not logits.requires_grad or not names:
        return
    F.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten().to(logits.device)
    ).backward(inputs=learning)
    torch.optim.Adam(learning, lr=rate, foreach=False).step()
    with torch.no_grad():
        pairs = [(everything[name], subject.model.get_parameter(name)) for name in names]
        moves = [float((moved - before).abs().max()) for moved, before in pairs]
    require(
        tied_names(model) == tied and max(moves) <= 1.5 * rate,
        "an optimiser's step updates tied weights as one, and leaves them tied",
        fails="An optimiser's step moves tied weights by {measured}, twice as far as its rate, "
        "or takes them apart: {tied}",
        measured=max(moves),
        at_most=1.5 * rate,
        where={"tied": ", ".join("=".join(group) for group in tied)},
        remedy="tie by assigning one Parameter: two that share memory are updated twice",
        cause="tie-broken",
    )
