"""AUD-5 and AUD-6 together: a padded batch, decoded with the subject's own cache."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.fixtures.errors import SubjectError, Unknown
from theodolite.fixtures.judging.judgement import not_applicable
from theodolite.fixtures.serving.decoder import Declared
from theodolite.fixtures.serving.driver import Driver, driver_of, placed
from theodolite.fixtures.serving.padding import (
    Padding,
    Ragged,
    far,
    padding_of,
    ragged,
    reads_padded,
)
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_SINGLY = 3
"""Tokens that are read one by one, behind a prompt of the rest."""

_COVERS = ("everything", "new tokens", "the prompt")
"""What the mask of a step may cover: attention needs everything, a recurrent layer less."""


@check("padding.cache", "AUD-5", "AUD-6", component="padding", views=("sharpened",))
def test_a_padded_batch_decodes_with_a_cache_as_without(view: View) -> None:
    """Left padding, a prompt, then single tokens, the mask growing along where it is needed."""
    padding, driver = padding_of(view.subject), driver_of(view)
    if isinstance(driver.decoder, Declared):
        not_applicable("a declared step takes no padding mask")
    longest = view.length
    if longest < _SINGLY + 4:
        not_applicable(f"the model takes no more than {longest} tokens")
    batch = ragged(view.subject, "left", [longest, longest - 4, _SINGLY + 2, longest - 1])
    wanted = _alone(view, batch)
    found = [_decoded(driver, padding, batch, covers) for covers in _COVERS]
    ran = [logits for logits in found if isinstance(logits, Tensor)]
    refused = [each.reason for each in found if isinstance(each, Unknown)]
    if not ran:
        not_applicable(f"a padding mask is refused while decoding: {refused[0]}")
    best = next((logits for logits in ran if not far(logits, wanted, view.relation_bound)), ran[0])
    if far(best, wanted, view.relation_bound):
        if _decodes_wrongly(driver, batch):
            not_applicable("not judged: without padding the cache is wrong too (see cache)")
        if not reads_padded(view, batch):
            not_applicable("not judged: the forward is wrong under padding (see padding.alone)")
    view.same(
        best,
        wanted,
        "a left-padded batch decodes with a cache as each sequence alone",
        fails="Decoding a left-padded batch with a cache gives logits that are off by {measured} "
        "from those of each sequence alone",
        axes=("row", "token number", "token"),
        where={"last tokens": _SINGLY},
        remedy="does the mask cover cached keys too, and do positions count real tokens?",
        cause="padded-cache",
    )


def _decodes_wrongly(driver: Driver, batch: Ragged) -> bool:
    """Whether the longest sequence alone is read wrongly, in the same steps or as a chunk."""
    text = batch.texts[0]
    prompt, wanted = text.shape[1] - _SINGLY, driver.view.logits(text)
    for pieces in ([prompt] + [1] * _SINGLY, [prompt, _SINGLY]):
        try:
            found, due = placed(driver.read_in(text, pieces), wanted)
        except SubjectError:
            continue  # chunks are refused
        if far(found, due, driver.view.relation_bound):
            return True
    return False


def _alone(view: View, batch: Ragged) -> Tensor:
    """The last logits of each sequence by itself, (B, n, V)."""
    return torch.stack([view.logits(text)[0, -_SINGLY:] for text in batch.texts])


def _decoded(driver: Driver, padding: Padding, batch: Ragged, covers: str) -> Tensor | Unknown:
    """The last logits of a batch read token by token, (B, n, V), or why that is refused."""
    subject, length = driver.view.subject, batch.ids.shape[1]
    explicit = subject.positions if _needs_positions(driver.view, padding, batch) else None
    reader, found = driver.begin(len(batch.ids)), []
    begin = 0
    for end in range(length - _SINGLY, length + 1):
        masked = {
            "everything": slice(0, end),
            "new tokens": slice(begin, end),
            "the prompt": slice(0, end if begin == 0 else 0),
        }[covers]
        extra = padding.mask(batch.real[:, masked], subject) if masked.stop else {}
        if explicit is not None:
            extra[explicit] = batch.positions[:, begin:end].to(subject.device)
        try:
            logits = reader.read(batch.ids[:, begin:end], **extra)
        except SubjectError as error:
            return Unknown(str(error))
        if begin:
            found.append(logits)
        begin = end
    return torch.cat(found, dim=1)


def _needs_positions(view: View, padding: Padding, batch: Ragged) -> bool:
    """Whether left padding moves a sequence, so that the caller has to say where tokens stand."""
    if view.subject.positions is None:
        return False
    found = view.logits(batch.ids, **padding.mask(batch.real, view.subject))
    last = view.logits(batch.texts[2])
    return far(found[2, -last.shape[1] :], last[0], view.relation_bound)
