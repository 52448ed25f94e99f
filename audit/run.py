"""Running the properties on a subject: pytest in this process, sealed off from its surroundings."""

from __future__ import annotations

import contextlib
import io
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import theodolite.properties
from theodolite.command_line import BUDGET, BUDGETS, Audit
from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.judging.result import Result
from theodolite.fixtures.oracles.strategies import without_shrinking
from theodolite.fixtures.plugin import AUDITED, PROPERTY
from theodolite.fixtures.subject.subject import Subject
from theodolite.report import Check, Report
from theodolite.selection import (
    QUICK_VIEWS,
    Selection,
    audit_checks,
    require_expected,
    selection,
)
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
    explore: bool = False,
    fail_fast: bool = False,
    time_limit: float = LIMIT,
    progress: Progress | None = None,
    named: Audit | None = None,
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
        select: Check ids, groups ("causality"), claims ("ATT-4") or chapters ("ROPE") to run;
            None for all.
        skip: The same, of what not to run.
        keyword: An expression over names of checks: "rope and not cache".
        settings: Keyword arguments for building the subject.
        as_configured: Build a class at the size of its own defaults.
        explore: Draw fresh examples instead of the same ones in every run.
        fail_fast: Stop at the first failure that is not expected; what is left is not judged.
        time_limit: Seconds that one forward may take before it counts as hanging.
        progress: Called as work goes on.
        named: How the report tells to do it again, where the subject is given loaded.

    Raises:
        SubjectError: If the subject cannot be loaded or called.
        UsageError: If an argument means nothing; says which would.
    """
    if budget not in BUDGETS:
        raise UsageError(f"no budget is called {budget!r}; there are {', '.join(BUDGETS)}")
    chosen = selection(select, skip, keyword, budget=budget)
    require_expected(expected_failures or {})
    named = named or Audit(
        subject if isinstance(subject, str) else None,
        settings or {},
        declare or {},
        as_configured=as_configured,
        time_limit=time_limit,
    )
    named = replace(named, budget=budget, explore=explore)
    loaded = Subject.load(
        subject,
        settings=settings,
        declarations=declare,
        as_configured=as_configured,
        seconds=time_limit,
    )
    collector = _Collector(loaded, chosen, named, dict(expected_failures or {}), progress)
    collector.fail_fast = fail_fast
    began = time.perf_counter()
    try:
        _run_pytest(collector, chosen)
    finally:
        loaded.restore()
    skipped = [f"left out: {', '.join(chosen.skipped)}"] if chosen.skipped else []
    return Report(
        subject=loaded.name,
        command=named.again(chosen.select or (), _names(skip), keyword),
        checks=tuple(collector.checks()),
        notes=(*loaded.notes, *skipped),
        passes=loaded.passes,
        seconds=time.perf_counter() - began,
        anatomy=_anatomy_of(loaded),
    )


def _anatomy_of(subject: Subject) -> dict[str, Any]:
    """The anatomy for the report, or why there is none; the checks on it have failed then."""
    try:
        return anatomy_of(subject).to_dict()
    except Exception as error:
        return {"unread": {"anatomy": f"it could not be measured: {error}"}}


class _Collector:
    """A pytest plugin: gives the properties their subject and gathers what they say."""

    def __init__(
        self,
        subject: Subject,
        chosen: Selection,
        named: Audit,
        expected: Mapping[str, str],
        progress: Progress | None,
    ) -> None:
        self._subject = weakref.ref(subject)
        self._chosen = chosen
        self._named = named
        self._expected = expected
        self._times = 10 if named.budget == "thorough" else 1
        self._views = {*QUICK_VIEWS, None} if named.budget == "quick" else None
        self._progress = progress
        self._planned: dict[str, int] = {}
        self._done = 0
        self._broken: dict[str, str] = {}
        self._results: dict[str, list[Result]] = {}
        self._session: pytest.Session | None = None
        self.fail_fast = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[AUDITED] = self._subject()

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        # the modules that pytest imported keep its configuration alive: let the subject go
        del config.stash[AUDITED]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = []
        for item in items:
            check = _option(item, "check")
            if check is None:
                continue
            callspec = getattr(item, "callspec", None)
            view = callspec.params.get("view") if callspec is not None else None
            if self._views is not None and view not in self._views:
                continue
            if check in self._chosen.checks:
                kept.append(item)
                self._planned[check] = self._planned.get(check, 0) + 1
        for item in kept:
            without_shrinking(item.obj, times=self._times, explore=self._named.explore)  # type: ignore[attr-defined]
        # The gates come first: what they say explains why others do not apply.
        items[:] = sorted(kept, key=lambda item: not _option(item, "gate"))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken[Path(report.nodeid).stem] = report.longreprtext.strip().splitlines()[-1]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, result in report.user_properties:
            if name == PROPERTY and isinstance(result, dict):
                self._results.setdefault(str(result["check"]), []).append(result)  # type: ignore[arg-type]
                self._stop_after(result)
        if report.when == "teardown":
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, sum(self._planned.values()))

    def _stop_after(self, result: Mapping[str, Any]) -> None:
        failed = result["outcome"] == "failed" and result["check"] not in self._expected
        if self.fail_fast and failed and self._session is not None:
            self._session.shouldfail = f"{result['check']} failed"

    def checks(self) -> list[Check]:
        """Every planned check, those without a result as errors, expected failures applied."""
        checks = [
            Check(module, (), "", "error", f"its checks cannot be loaded: {why}")
            for module, why in self._broken.items()
        ]
        return checks + [self._check(check, count) for check, count in self._planned.items()]

    def _check(self, check: str, count: int) -> Check:
        results = self._results.get(check, [])
        stopped = self._session.shouldfail if self._session is not None else False
        if len(results) < count and not stopped:
            return Check(check, (), "", "error", f"{count - len(results)} of {count} never ran")
        if not results:
            why = f"not judged: stopped when {stopped}, as --fail-fast asks"
            asked = audit_checks()[check]
            return Check(check, asked.claims, asked.component, "not_applicable", why)
        merged = Check.merge(results, reproduce=self._named.again([check]))
        return _expected(merged, self._expected.get(check))


def _names(given: str | Sequence[str] | None) -> Sequence[str]:
    return (given,) if isinstance(given, str) else given or ()


def _option(item: pytest.Item, name: str) -> Any:
    """What a check's decorator says of itself; None for a test that is no check."""
    marker = item.get_closest_marker("claim")
    return marker.kwargs.get(name) if marker else None


def _expected(check: Check, reason: str | None) -> Check:
    if reason is None:
        return check
    if check.outcome == "failed":
        return replace(
            check, outcome="expected_failure", message=f"expected: {reason}. {check.message}"
        )
    if check.outcome == "passed":
        return replace(
            check,
            outcome="failed",
            message=f"it was expected to fail ({reason}) and passed: take it off the list of "
            "expected failures",
        )
    return check


_FOLDER = Path(theodolite.properties.__file__).parent

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


def _run_pytest(collector: _Collector, chosen: Selection) -> None:
    arguments = [
        *(str(_FOLDER / file) for file in chosen.files),
        f"--rootdir={_FOLDER}",
        f"--config-file={_FOLDER / 'audit.ini'}",
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
