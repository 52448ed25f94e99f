"""Running the properties on a subject: pytest in this process, sealed off from its surroundings."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from theodolite.answer import answer
from theodolite.collector import Choice, Collector
from theodolite.command_line import BUDGET, Audit
from theodolite.findings import Event, Findings, Sink
from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.errors import NoMoreCalls
from theodolite.fixtures.judging.wording import text_of
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.source import PROPERTIES
from theodolite.report import Check, Report
from theodolite.selection import require_budget, require_expected
from theodolite.subject_arguments import LIMIT

Progress = Callable[[int, int], None]
"""Called as work goes on: properties done, properties planned."""


def audit(
    subject: str | nn.Module | Subject | Callable[..., Any],
    *,
    declare: Mapping[str, Any] | None = None,
    expected_failures: Mapping[str, str] | None = None,
    budget: str = BUDGET,
    select: str | Sequence[str] | None = None,
    skip: str | Sequence[str] | None = None,
    keyword: str | None = None,
    settings: Mapping[str, Any] | None = None,
    as_configured: bool = False,
    weights: str | Path | None = None,
    explore: bool = False,
    fail_fast: bool = False,
    strict: bool = False,
    prove: bool = True,
    pictures: bool = False,
    time_limit: float = LIMIT,
    progress: Progress | None = None,
) -> Report:
    """Hold a model to every claim that applies to it.

    Args:
        subject: A live module (ids (B, T) to logits (B, T, V)), a class or factory of one, a
            `Subject`, or a string: "reference", "FILE.py:NAME", "package.module:NAME", "hf:NAME",
            "hf:DIRECTORY". A live module is copied, never changed.
        declare: What is known of it; see `theodolite.fixtures.subject.declarations.DECLARABLE`.
        expected_failures: Check id → reason. Strict: one that passes fails the audit.
        budget: "quick" (the subject as given and sharpened, without what costs much and sees
            little that nothing else sees: a quarter of the forward passes), "standard" (every
            view), or "thorough" (every view, ten times as many drawn examples, and what takes
            long: compiling and exporting).
        select: Check ids, groups ("causality"), claims ("ATT-4") or chapters ("ROPE") to run;
            None for all.
        skip: The same, of what not to run.
        keyword: An expression over names of checks: "rope and not cache".
        settings: Keyword arguments for building the subject.
        as_configured: Build a class at the size of its own defaults.
        weights: A file with the weights to take, for a subject from code.
        explore: Draw fresh examples instead of the same ones in every run.
        fail_fast: Stop at the first failure that is not expected; what is left is not judged.
        strict: Fail for hazards too: what goes wrong in a use alone that nobody has declared.
        prove: Mend what is said to be wrong in a copy, and judge again what failed.
        pictures: Take the numbers that `Report.plot` draws: a few forward passes more.
        time_limit: Seconds that one forward may take before it counts as hanging.
        progress: Called as work goes on.

    Raises:
        SubjectError: If the subject cannot be loaded or called.
        UsageError: If an argument means nothing; says which would.
    """
    select, skip = ([given] if isinstance(given, str) else given for given in (select, skip))
    expected = dict(expected_failures or {})
    require_budget(budget)
    require_expected(expected)
    choice = Choice.of(
        select,
        skip,
        keyword,
        budget=budget,
        explore=explore,
        fail_fast=fail_fast,
        expected=expected,
    )
    named = Audit(
        subject if isinstance(subject, str) else None,
        settings or {},
        declare or {},
        as_configured=as_configured,
        weights=weights,
        time_limit=time_limit,
        budget=budget,
        explore=explore,
    )
    loaded = Subject.load(
        subject,
        settings=settings,
        declarations=declare,
        as_configured=as_configured,
        weights=weights,
        seconds=time_limit,
    )
    findings = Findings(named)
    findings.take(loaded_event(loaded))
    began = time.perf_counter()
    try:
        run_properties(loaded, choice, _telling(findings, progress))
        anatomy = anatomy_for(loaded)
        findings.take(
            answer_event(
                loaded,
                findings.checks(expected),
                strict=strict,
                prove=budget if prove else None,
            )
        )
        if pictures:
            findings.take(pictures_event(loaded, findings.checks(expected)))
    finally:
        loaded.restore()
    return Report(
        subject=loaded.name,
        command=named.again(select or (), skip or (), keyword),
        checks=findings.checks(expected),
        notes=(*loaded.notes, *(choice.chosen.notes if choice.chosen else ())),
        passes=loaded.passes,
        seconds=time.perf_counter() - began,
        anatomy=anatomy,
        strict=strict,
        told=findings.causes,
        advice=findings.advice,
        pictures=findings.pictures,
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


def answer_event(
    subject: Subject, checks: Sequence[Check], *, strict: bool, prove: str | None
) -> Event:
    """The event that the failures among `checks` are explained."""
    told = answer(subject, checks, strict=strict, prove=prove)
    causes = [cause.to_dict() for cause in told.causes]
    return {
        "event": "answer",
        "causes": causes,
        "sources": dict(told.sources),
        "advice": [*told.advice],
    }


def pictures_event(subject: Subject, checks: Sequence[Check]) -> Event:
    """The event that what a report draws was taken, failures in the order of `checks` first."""
    from theodolite.pictures import pictures_of

    failed = [check for check in checks if check.outcome == "failed"]
    return {"event": "pictures", "pictures": pictures_of(subject, failed)}


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
    files = ["checks"] if choice.chosen is None else choice.chosen.files
    arguments = [
        *(str(PROPERTIES / file) for file in files),
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
