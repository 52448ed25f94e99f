"""POS-2 on a subject: each position looks up a learned vector of its own."""

from __future__ import annotations

import torch
from torch import nn

from theodolite.fixtures.anatomy.positions import POSITIONS
from theodolite.fixtures.judging.judgement import each
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("positions.lookup", "POS-2", component="position", views=("sharpened",))
def test_each_position_looks_up_a_vector_of_its_own(view: View) -> None:
    """The rows that are read from a table of positions count up by one, from wherever.

    In one row of tokens at least: some count no padding, and a token drawn at random may be that.
    """
    inside = view.insides.random
    rows, length = inside.ids.shape
    sliced = _rows_read(view)
    if sliced:  # of several, the one that tells most: axes and buckets share rows by design
        name, read = max(sliced.items(), key=lambda one: len(one[1]))
        view.at_least(
            float(max(len(read), 2 if length == 1 else 0)),
            1.0,
            "positions read more than one row of their table",
            fails="All positions read one row of {table}",
            where={"table": name, "rows read": read},
            remedy="Is the table cut to the length of the input, table[:, :T], and not to 1?",
            cause="positions-alike",
        )
        return
    for look in each(
        inside.recording.embeddings,
        "no table whose name says position (wpe, pos_emb ...) is looked up",
    ):
        shape = tuple(look.indices.shape)
        if not POSITIONS.search(look.weight) or shape not in {
            (length,),
            (1, length),
            (rows, length),
        }:
            continue
        places = look.indices.reshape(-1, length)
        steps = places.diff(dim=-1)
        view.require(
            bool((steps == 1).all(-1).any()),
            "positions count up by one",
            fails="Positions read the rows {rows read} of {table}; these must count up by one",
            where={"table": look.weight, "rows read": places[0].tolist()},
            remedy="Every position reads the same vector: are positions 0, 1, 2 ... made at all?"
            if not steps.any()
            else "They count down: is the first token's position 0?"
            if bool((steps == -1).all())
            else "Are positions scaled, clipped or begun again inside the sequence?",
            cause="positions-alike" if not steps.any() else "positions-not-counted",
        )


def _rows_read(view: View) -> dict[str, list[int]]:
    """Of tables of positions that are sliced, (1, L, C) or (L, C): the rows that reach the logits.

    Told by the gradient of a random combination of all logits, which is 0 for the others.
    """
    ids = view.random_ids(2)
    named = {
        name: parameter
        for name, parameter in view.model.named_parameters()
        if POSITIONS.search(name)
        and parameter.requires_grad
        and parameter.ndim in (2, 3)
        and (parameter.ndim == 2 or parameter.shape[0] == 1)
        and parameter.shape[-2] >= ids.shape[1]
        and not isinstance(view.model.get_submodule(name.rpartition(".")[0]), nn.Embedding)
    }
    if not named:
        return {}
    logits = view.logits(ids, gradient=True)
    if not logits.requires_grad:
        return {}
    direction = torch.randn(logits.shape, generator=torch.Generator().manual_seed(0))
    value = (logits * direction.to(logits)).sum()
    try:
        found = torch.autograd.grad(value, list(named.values()), allow_unused=True)
    except RuntimeError:  # see gradient.every_parameter
        return {}
    return {
        name: rows
        for name, gradient in zip(named, found, strict=True)
        if gradient is not None
        and (rows := gradient.flatten(0, -2).abs().amax(-1).nonzero()[:, 0].tolist())
    }
