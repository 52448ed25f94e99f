"""POS-2 on a subject: every row of a table of positions is read by its own position, and learns."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.anatomy.positions import POSITIONS
from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import each, not_applicable
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_LONGEST = 1024
"""Positions that are looked at, at most: one forward and backward of so many tokens."""


@check("positions.rows", "POS-2", component="position", views=("sharpened",))
def test_every_position_reads_a_row_of_its_own_that_learns(view: View) -> None:
    """As many rows of a table of positions get a gradient as a text has tokens.

    Told by the gradient of a random combination of all logits, over the longest text: a row that
    padding_idx freezes, one that stands for several positions and a table cut to its first row all
    show as rows that are missing.
    """
    if view.subject.convention.only_length is not None:
        not_applicable("the model takes one length alone")
    tables = dict(_tables(view))
    if not tables:
        not_applicable("no table of positions as wide as the stream is looked up")
    ids = _longest_text(view, min(table.shape[-2] for table in tables.values()))
    length = ids.shape[1]
    for name, learnt in each(
        _rows_learnt(view, ids, tables), "no gradient reaches the table of positions"
    ):
        module = view.model.get_submodule(name.rpartition(".")[0])
        frozen = getattr(module, "padding_idx", None) if learnt == length - 1 else None
        view.exactly(
            float(learnt),
            float(length),
            f"each of {length} positions reads a row of its own, and teaches it",
            fails=f"{length} positions teach {learnt} rows of their table, {name}",
            where={"table": name},
            remedy=f"Row {frozen} never learns: padding_idx is for tokens, not for positions."
            if frozen is not None
            else "Is the table cut to the length of the input, table[:, :T], and are positions "
            "neither clipped nor the same for all?",
            cause="positions-alike"
            if learnt == 1
            else "row-frozen"
            if frozen is not None
            else "rows-shared",
        )


def _tables(view: View) -> Iterator[tuple[str, Tensor]]:
    """Tables of positions as wide as the stream: looked up alike in all rows, or called so."""
    inside = view.insides.random
    length = inside.ids.shape[1]
    looked = {
        look.weight
        for look in inside.recording.embeddings
        if tuple(look.indices.shape) in {(length,), (1, length), tuple(inside.ids.shape)}
        and not torch.equal(look.indices.expand_as(inside.ids), inside.ids)
        and bool((look.indices.reshape(-1, length).diff(dim=0) == 0).all())
    }
    width = anatomy_of(view.subject).width
    multiplied = {product.weight for product in inside.products}
    for name, table in view.model.named_parameters():
        owner = view.model.get_submodule(name.rpartition(".")[0])
        sliced = POSITIONS.search(name) and not isinstance(owner, nn.Embedding)
        flat = table.ndim == 2 or (table.ndim == 3 and len(table) == 1)
        if not flat or not table.requires_grad or name in multiplied:
            continue
        if table.shape[-1] == width and table.shape[-2] >= length and (name in looked or sliced):
            yield name, table


def _longest_text(view: View, rows: int) -> Tensor:
    """Ids (1, T), as many as the model and its table take, up to `_LONGEST`."""
    longest = min(view.subject.longest or rows, rows, _LONGEST)
    ids = view.random_ids(1, longest)
    try:
        view.logits(ids)
    except SubjectError:
        return view.random_ids(1)
    return ids


def _rows_learnt(view: View, ids: Tensor, tables: dict[str, Tensor]) -> Iterator[tuple[str, int]]:
    """How many rows of each table get a gradient."""
    logits = view.logits(ids, gradient=True)
    if not logits.requires_grad:
        return
    direction = torch.randn(logits.shape, generator=torch.Generator().manual_seed(0))
    try:
        found = torch.autograd.grad(
            (logits * direction.to(logits)).sum(), list(tables.values()), allow_unused=True
        )
    except RuntimeError:  # see gradient.every_parameter
        return
    for name, gradient in zip(tables, found, strict=True):
        if gradient is not None:
            rows = gradient.reshape(-1, gradient.shape[-1]).abs().amax(-1)
            yield name, int((rows > 0).sum())
