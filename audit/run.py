"""Running the properties on a subject: pytest in this process, sealed off from its surroundings."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from torch import nn

from theodolite.collector import Choice, Collector
from theodolite.findings import Event, Findings, Sink
from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.errors import NoMoreCalls
from theodolite.fixtures.judging.wording import text_of
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.source import PROPERTIES
from theodolite.report import Report
from theodolite.selecting import files_of, require_budget, require_checks

Progress = Callable[[int, int], None]
"""Called as work goes on: properties done, properties planned."""


def audit(
    subject: str | nn.Module | Subject | Callable[..., Any],
    *,
    declare: Mapping[str, Any] | None = None,
    expected_failures: Mapping[str, str] | None = None,
    budget: str = "standard",
    select: str | Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    as_configured: bool = False,
    explore: bool = False,
    time_limit: float = 60.0,
    progress: Progress | None = None,
) -> Report:
    """Hold a model to every claim that applies to it.

    Args:
        subject: A live module (ids (B, T) to logits (B, T, V)), a class or factory of one, a
            `Subject`, or a string: "reference", "FILE.py:NAME", "package.module:NAME", "hf:NAME",
            "hf:DIRECTORY". A live module is copied, never changed.
        declare: What is known of it; see `theodolite.fixtures.subject.declarations.DECLARABLE`.
        expected_failures: Check id → reason. Strict: one that passes fails the audit.
        budget: "quick" (the subject as given and sharpened), "standard" (every view), or
            "thorough" (every view, ten times as many drawn examples, and what takes
            long: compiling and exporting).
        select: Check ids, or prefixes of them, to run; None for all.
        settings: Keyword arguments for building the subject.
        as_configured: Build a class at the size of its own defaults.
        explore: Draw fresh examples instead of the same ones in every run.
        time_limit: Seconds that one forward may take before it counts as hanging.
        progress: Called as work goes on.

    Raises:
        SubjectError: If the subject cannot be loaded or called.
        UsageError: If an argument means nothing; says which would.
    """
    wanted = [select] if isinstance(select, str) else select
    expected = dict(expected_failures or {})
    require_budget(budget)
    require_checks(expected, "expected failures name")
    require_checks(wanted or (), "select names")
    loaded = Subject.load(
        subject,
        settings=settings,
        declarations=declare,
        as_configured=as_configured,
        seconds=time_limit,
    )
    findings = Findings()
    findings.take(loaded_event(loaded))
    choice = Choice(budget, wanted, explore)
    began = time.perf_counter()
    try:
        run_properties(loaded, choice, _telling(findings, progress))
    finally:
        loaded.restore()
    return Report(
        subject=loaded.name,
        checks=findings.checks(expected),
        notes=tuple(loaded.notes),
        passes=loaded.passes,
        seconds=time.perf_counter() - began,
        anatomy=anatomy_for(loaded),
    )


def _telling(findings: Findings, progress: Progress | None) -> Sink:
    def take(event: Event) -> None:
        findings.take(event)
        if progress is not None and event["event"] == "ended":
            progress(len(findings.done), len(findings.items))

    return take


def loaded_event(subject: Subject) -> Event:
    """The event that `subject` is loaded."""
    weights = sum(p.numel() * p.element_size() for p in subject.model.parameters())
    return {
        "event": "subject",
        "name": subject.name,
        "weights": weights,
        "notes": list(subject.notes),
    }


def anatomy_for(subject: Subject) -> dict[str, Any]:
    """The anatomy for the report, or why there is none; the checks on it have failed then."""
    try:
        return anatomy_of(subject).to_dict()
    except (Exception, NoMoreCalls) as error:
        return {"unread": {"anatomy": f"it could not be measured: {text_of(error)}"}}


_NEEDLESS = (
    "cacheprovider",
    "doctest",
    "faulthandler",
    "junitxml",
    "logging",
    "terminal",
    "threadexception",
    "unittest",
    "unraisableexception",
)
"""Plugins of pytest's own that an audit pays for at every property and makes no use of."""


def run_properties(subject: Subject, choice: Choice, sink: Sink) -> None:
    """Run the chosen properties on `subject`; `sink` is told of each event as it happens.

    Raises:
        KeyboardInterrupt: If somebody interrupts it, or something that a subject left behind.
    """
    collector = Collector(subject, choice, sink)
    chosen = sorted({file for name in choice.select or () for file in files_of(name)})
    arguments = [
        *(str(PROPERTIES / file) for file in chosen or ["checks"]),
        f"--rootdir={PROPERTIES}",
        f"--config-file={PROPERTIES / 'audit.ini'}",
        "--noconftest",
        "--continue-on-collection-errors",
        "--disable-plugin-autoload",
        "-ptheodolite.fixtures.plugin",
        *(f"-pno:{name}" for name in _NEEDLESS),
        "--capture=sys",
    ]
    with _sealed(), contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main(arguments, plugins=[collector])
    if status == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if status in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
        raise RuntimeError("pytest could not run the properties; is the installation complete?")


@contextlib.contextmanager
def _sealed() -> Iterator[None]:
    """Hide the surrounding pytest's settings, and put the environment back afterwards."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PYTEST_")}
    try:
        yield
    finally:
        os.environ.update(kept)
