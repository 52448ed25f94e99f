"""Token ids are names: which id a token has does not matter, and others are refused."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from theodolite.fixtures.errors import SubjectError, Unknown
from theodolite.fixtures.judging.judgement import fail, judge, not_applicable
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check

_IDS_AT_ONCE = 1024

_TABLES = 2
"""An embedding and a head. A third matrix with an axis of this size may well have it by chance."""


@check("vocabulary.relabelling", "AUD-4", component="embedding")
def test_renaming_the_tokens_renames_the_logits(subject: Subject) -> None:
    """Permute the vocabulary in every weight that has that axis: the logits are permuted."""
    view = subject.views.sharpened
    if view.obstacle:
        not_applicable(view.obstacle)
    size = subject.vocabulary
    weights = _with_axis(view.model, {size, subject.embedding_rows})
    if not weights:
        not_applicable("no weight has an axis of the vocabulary's size")
    if isinstance(weights, Unknown):
        not_applicable(weights.reason)
    names = _permutation(view.model, size)
    ids = view.random_ids(2)
    before = view.logits(ids)[..., :size]
    _rename(weights, names)
    try:
        after = view.logits(names.argsort()[ids])[..., :size]
    finally:
        _rename(weights, names.argsort())
    view.same(
        after,
        before[..., names.to(before.device)],
        "permuting the vocabulary in embedding and head permutes the logits",
        fails="Renaming the tokens in embedding and head does not merely rename the logits: they "
        "change by {measured}",
        remedy="is an id written down in the code, or a table of tokens kept outside parameters()?",
    )


@check("vocabulary.range", "GPT-7", component="vocabulary")
def test_an_id_outside_the_vocabulary_is_refused(subject: Subject) -> None:
    """The first id past the end, and -1, raise instead of reading some row of memory.

    The first is what a tokenizer of another size gives, and reads what is no row of the table: a
    fault. -1 is what no tokenizer gives; any ``weight[ids]`` takes it for the last row: a hazard.
    """
    if subject.device.type != "cpu":
        not_applicable(
            "on an accelerator an id out of range ends the process: audit on the CPU to judge this"
        )
    for outside in (subject.embedding_rows, -1):
        ids = subject.random_ids(1)
        ids[0, 0] = outside
        try:
            subject.run(subject.model, ids)
        except SubjectError:
            continue
        fail(
            f"an id outside the vocabulary ({outside}) is refused",
            fails=f"The id {outside}, which is outside the vocabulary, is read as if it were in it",
            where={"id": outside},
            remedy="are ids clamped, wrapped (%) or used as a Python index, where -1 is the last?",
            use="negative_ids" if outside < 0 else None,
        )


@check("vocabulary.finite", "GPT-7", component="embedding")
def test_every_id_gives_a_distribution(subject: Subject) -> None:
    """Logits are finite, and softmax of them sums to 1, for every id (1,024 of a larger set)."""
    view = subject.views.as_given
    if view.obstacle:
        not_applicable(view.obstacle)
    every = torch.arange(subject.vocabulary)
    if len(every) > _IDS_AT_ONCE:
        every = every[torch.linspace(0, len(every) - 1, _IDS_AT_ONCE).long()]
    rows = math.ceil(len(every) / subject.length)
    ids = every[torch.arange(rows * subject.length) % len(every)].reshape(rows, -1)
    total = torch.cat(
        [
            row.double().softmax(-1).sum(-1)[None]
            for part in subject.portions(ids)
            for row in view.logits(ids[part])
        ]
    )
    judge(
        total,
        1.0,
        "the softmax of the logits is a distribution for every id",
        fails="The softmax of the logits does not sum to 1 for some id: it is off by {measured}",
        bound=subject.vocabulary * torch.finfo(torch.float64).eps,
        axes=("row", "position"),
        remedy="is a row of the embedding NaN or never initialised?",
    )


def _with_axis(model: nn.Module, sizes: set[int]) -> list[tuple[Tensor, int]] | Unknown:
    """Every weight with an axis of one of `sizes`, and that axis; or why that is unclear."""
    found: dict[int, tuple[Tensor, int]] = {}
    for tensor in [*model.parameters(), *model.buffers()]:
        axes = [axis for axis, size in enumerate(tensor.shape) if size in sizes]
        if len(axes) > 1:
            return Unknown("the vocabulary is as large as another axis of a weight")
        if axes:
            found[tensor.data_ptr()] = (tensor, axes[0])
    if sum(tensor.ndim > 1 for tensor, _ in found.values()) > _TABLES:
        return Unknown(
            "the vocabulary is as large as another axis of some weight, or has several tables"
        )
    return list(found.values())


def _permutation(model: nn.Module, size: int) -> Tensor:
    """A permutation of the ids that leaves 0 and the padding, begin and end tokens in place."""
    config = getattr(model, "config", None)
    special = {getattr(config, f"{kind}_token_id", None) for kind in ("pad", "bos", "eos")}
    special |= {m.padding_idx for m in model.modules() if isinstance(m, nn.Embedding)}
    free = torch.tensor([i for i in range(size) if i not in special and i > 0])
    names = torch.arange(size)
    names[free] = free[torch.randperm(len(free), generator=torch.Generator().manual_seed(0))]
    return names


@torch.no_grad()
def _rename(weights: list[tuple[Tensor, int]], names: Tensor) -> None:
    for weight, axis in weights:
        order = torch.arange(weight.shape[axis])
        order[: len(names)] = names
        weight.copy_(weight.index_select(axis, order.to(weight.device)))
