"""What a report draws, as plain numbers: taken beside the subject, drawn wherever the report is.

Each picture is read by itself; one that cannot be had is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from theodolite.fixtures.anatomy.blocks import blocks_of, passed
from theodolite.fixtures.errors import NoMoreCalls
from theodolite.fixtures.judging.check import Check
from theodolite.fixtures.recording.attention_call import AttentionCall
from theodolite.fixtures.relations.changed_tokens import influence
from theodolite.fixtures.subject.subject import Subject

Picture = Mapping[str, Any]

_LONGEST = 48
"""Positions that are drawn at most: what is smaller than a few pixels shows nothing."""


def pictures_of(subject: Subject, failed: Sequence[Check]) -> dict[str, Picture]:
    """Numbers for every picture that can be drawn of a subject.

    Args:
        subject: The audited subject.
        failed: Its failed checks, those that tell most first: the layer and head they accuse are
            drawn.

    Returns:
        Name → plain values:
            influence: ``values`` (T, T): how much changing token s (row) moves the logits at t.
            attention: ``weights`` (T, S) of one head, its ``layer``, ``head`` and ``module``.
            stream: root mean square of the residual stream, ``names`` and ``values``.
            logits: ``spread``, their standard deviation; ``loss`` at the start, ``chance`` ln V.
    """
    drawn: dict[str, Callable[[], Picture | None]] = {
        "influence": lambda: _influence(subject),
        "attention": lambda: _attention(subject, failed),
        "stream": lambda: _stream(subject),
        "logits": lambda: _logits(subject),
    }
    found = {}
    for name, draw in drawn.items():
        try:
            picture = draw()
        except (Exception, NoMoreCalls):  # a picture is no check: what it meets is not judged
            continue
        if picture is not None:
            found[name] = picture
    return found


def _influence(subject: Subject) -> Picture:
    values = influence(subject.views.sharpened)[:_LONGEST, :_LONGEST]
    return {"values": _plain(values)}


def _attention(subject: Subject, failed: Sequence[Check]) -> Picture | None:
    inside = subject.views.sharpened.insides.random
    calls = inside.whole
    if not calls:
        return None
    call, head = _accused(calls, failed)
    weights = call.probabilities[0, head, :_LONGEST, :_LONGEST]
    place = inside.place(call)
    return {"weights": _plain(weights), "head": head, **place}


def _accused(calls: Sequence[AttentionCall], failed: Sequence[Check]) -> tuple[AttentionCall, int]:
    """The attention and the head that the first failure names; else the first of each."""
    where = next((check.where for check in failed if "layer" in check.where), {})
    layer, head = where.get("layer", 0), where.get("head", 0)
    call = calls[layer] if isinstance(layer, int) and layer < len(calls) else calls[0]
    return call, head if isinstance(head, int) and head < call.query.shape[1] else 0


def _stream(subject: Subject) -> Picture | None:
    """The size of the stream behind the embedding and behind each block, in the model as given."""
    view = subject.views.as_given
    inside = view.insides.random
    names, values = [], []
    start = inside.embedding()
    if start is not None and start.gave is not None:
        names.append("embedding")
        values.append(_size(start.gave))
    for block in blocks_of(inside):
        streams = passed(inside, block)
        if streams is not None:
            names.append(block.path)
            values.append(_size(streams[1]))
    return {"names": names, "values": values} if len(values) > 1 else None


def _logits(subject: Subject) -> Picture:
    ids = subject.random_ids(8, seed=1)
    logits = subject.views.as_given.logits(ids).double()
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    return {
        "spread": float(logits.std()),
        "loss": float(loss),
        "chance": math.log(logits.shape[-1]),
    }


def _size(stream: Tensor) -> float:
    return float(stream.double().square().mean().sqrt())


def _plain(values: Tensor) -> list[list[float]]:
    """Three digits are enough to be looked at."""
    return [[float(f"{value:.3g}") for value in row] for row in values.double().tolist()]
