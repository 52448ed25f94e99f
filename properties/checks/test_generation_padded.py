"""GEN-1 and AUD-5 together: a padded batch of prompts writes what each prompt writes alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from theodolite.fixtures.errors import SubjectError, Unknown
from theodolite.fixtures.judging.judgement import judge, not_applicable
from theodolite.fixtures.serving.finding_writer import writer_of
from theodolite.fixtures.serving.padding import padding_of, ragged, reads_padded
from theodolite.fixtures.serving.writer import Writer
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

_LENGTHS = (6, 3, 5)
_NEW = 4


@check("generation.padded", "GEN-1", "AUD-5", component="generation", views=("sharpened",))
def test_a_padded_batch_writes_what_each_prompt_writes_alone(view: View) -> None:
    """Greedy, on the declared side; where none is declared, one side has to work."""
    writer = writer_of(view.subject)
    if isinstance(writer, Unknown):
        not_applicable(writer.reason)
    if not writer.offers("mask") or not writer.rows:
        not_applicable(f"{writer.said} takes no padding mask, or one row at a time")
    if view.subject.padding is None:
        not_applicable(
            "no padding mask was found: forward takes none of shape (B, T) that hides tokens"
        )
    ways = writer.greedy(view)
    if not ways:
        not_applicable(f"{writer.said} cannot be told to take the likeliest token")
    text = view.random_ids(1, max(_LENGTHS))
    alone = writer.write(view, text, _NEW, **ways[0])[0, -_NEW:].cpu()
    if float(_below(view, text, alone).max()) > 2 * view.relation_bound:
        not_applicable("not judged: one prompt alone goes wrong (see generation.greedy)")
    declared = view.subject.declarations.get("padding_side")
    results = {
        side: _gaps(view, writer, side, ways[0])
        for side in (("left", "right") if declared is None else (str(declared),))
    }
    ran = {side: gaps for side, gaps in results.items() if isinstance(gaps, Tensor)}
    side = min(ran, key=lambda each: float(ran[each].max()), default="left")
    if side not in ran or float(ran[side].max()) > 2 * view.relation_bound:
        side = next(iter(results))  # neither side works: judge the one that is usual, or declared
    gaps = results[side]
    if isinstance(gaps, Unknown):
        not_applicable(gaps.reason)
    judge(
        gaps,
        0.0,
        f"prompts padded on the {side} write what each writes alone",
        fails=f"With prompts padded on the {side}, a token is written whose logit is {{measured}} "
        f"below that of the likeliest for the prompt alone (row {{row}}, new token {{step}})",
        bound=2 * view.relation_bound,
        axes=("row", "step"),
        where={"side": side, "method": writer.said},
        remedy="is the mask passed on to every forward, the first too, growing by a one for each "
        "new token, and are the logits taken at the last real token?",
        cause="padding-not-passed-on",
    )


def _gaps(view: View, writer: Writer, side: str, way: dict[str, Any]) -> Tensor | Unknown:
    """How far each token written in the batch is below the likeliest one of its prompt alone."""
    batch = ragged(view.subject, side, _LENGTHS)
    if not reads_padded(view, batch):
        return Unknown(
            f"not judged: with {side} padding the forward is wrong too (see padding.alone)"
        )
    mask = padding_of(view.subject).mask(batch.real, view.subject)
    try:
        written = writer.write(view, batch.ids, _NEW, mask=next(iter(mask.values())), **way)
    except SubjectError as error:
        return Unknown(str(error))
    rows = written[:, -_NEW:].cpu()
    return torch.stack([_below(view, *pair) for pair in zip(batch.texts, rows, strict=True)])


def _below(view: View, text: Tensor, new: Tensor) -> Tensor:
    """How far each of the new tokens (n,) behind text (1, T) is below the likeliest, (n,)."""
    whole = torch.cat([text, new[None]], dim=1)[:, :-1]
    logits = view.logits(whole)[0, text.shape[1] - 1 :].double().cpu()
    return logits.amax(-1) - logits.gather(-1, new[:, None])[:, 0]
