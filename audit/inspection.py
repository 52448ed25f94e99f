"""Reading a model's anatomy, from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from theodolite.fixtures.anatomy.measure import Anatomy, anatomy_of
from theodolite.fixtures.subject.subject import Subject


def inspect(
    subject: str | nn.Module | Subject | Callable[..., Any],
    *,
    declare: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    as_configured: bool = False,
    weights: str | Path | None = None,
    time_limit: float = 60.0,
) -> Anatomy:
    """Measure what a model is made of. Nothing is judged; the model is not changed.

    Args:
        subject: As for `theodolite.audit`.
        declare: What is known of how to call it (vocabulary, longest, layout).
        settings: Keyword arguments for building it.
        as_configured: Build a class at the size of its own defaults.
        weights: A file with the weights to take, for a subject from code.
        time_limit: Seconds that one forward may take.

    Returns:
        The `Anatomy`: what could not be read is None in it, and its `unread` says why.

    Raises:
        SubjectError: If the subject cannot be loaded or called.
        UsageError: If an argument means nothing; says which would.
    """
    loaded = Subject.load(
        subject,
        settings=settings,
        declarations=declare,
        as_configured=as_configured,
        weights=weights,
        seconds=time_limit,
    )
    try:
        return anatomy_of(loaded)
    finally:
        loaded.restore()
