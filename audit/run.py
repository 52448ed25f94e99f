"""Running the properties on a subject: pytest in this process, sealed off from its surroundings."""

from __future__ import annotations

import contextlib
import io
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import theodolite.properties
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.plugin import AUDITED, PROPERTY
from theodolite.fixtures.judging.result import Result
from theodolite.fixtures.oracles.strategies import without_shrinking
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.source import find_properties
from theodolite.report import Check, Report

BUDGETS = ("quick", "standard", "thorough")
Progress = Callable[[int, int], None]
"""Called as work goes on: properties done, properties planned."""

_QUICK = frozenset({"as given", "sharpened", None})


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
    if budget not in BUDGETS:
        raise UsageError(f"no budget is called {budget!r}; there are {', '.join(BUDGETS)}")
    loaded = Subject.load(
        subject,
        settings=settings,
        declarations=declare,
        as_configured=as_configured,
        seconds=time_limit,
    )
    wanted = [select] if isinstance(select, str) else select
    collector = _Collector(loaded, wanted, budget, progress, explore=explore)
    began = time.perf_counter()
    try:
        _run_pytest(collector, wanted)
    finally:
        loaded.restore()
    checks = collector.checks(dict(expected_failures or {}))
    return Report(
        subject=loaded.name,
        checks=tuple(checks),
        notes=tuple(loaded.notes),
        passes=loaded.passes,
        seconds=time.perf_counter() - began,
        anatomy=_anatomy_of(loaded),
    )


def _anatomy_of(subject: Subject) -> dict[str, Any]:
    """The anatomy for the report, or why there is none; the checks on it have failed then."""
    try:
        return subject.anatomy.to_dict()
    except Exception as error:
        return {"unread": {"anatomy": f"it could not be measured: {error}"}}


class _Collector:
    """A pytest plugin: gives the properties their subject and gathers what they say."""

    def __init__(
        self,
        subject: Subject,
        select: Sequence[str] | None,
        budget: str,
        progress: Progress | None,
        *,
        explore: bool,
    ) -> None:
        self._subject = weakref.ref(subject)
        self._name = subject.name
        self._times = 10 if budget == "thorough" else 1
        self._explore = explore
        self._select = select
        self._views = _QUICK if budget == "quick" else None
        self._progress = progress
        self._planned: dict[str, int] = {}
        self._done = 0
        self._broken: dict[str, str] = {}
        self._results: dict[str, list[Result]] = {}

    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[AUDITED] = self._subject()

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        # the modules that pytest imported keep its configuration alive: let the subject go
        del config.stash[AUDITED]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = []
        for item in items:
            marker = item.get_closest_marker("claim")
            check = marker.kwargs.get("check") if marker else None
            if check is None:
                continue
            callspec = getattr(item, "callspec", None)
            view = callspec.params.get("view") if callspec is not None else None
            if self._views is not None and view not in self._views:
                continue
            if item.get_closest_marker("slow") and not self._takes_time(check):
                continue
            if self._select is None or any(_matches(check, name) for name in self._select):
                kept.append(item)
                self._planned[check] = self._planned.get(check, 0) + 1
        for item in kept:
            without_shrinking(item.obj, times=self._times, explore=self._explore)  # type: ignore[attr-defined]
        # The gates come first: what they say explains why others do not apply.
        items[:] = sorted(kept, key=lambda item: "test_gates" not in item.nodeid)

    def _takes_time(self, check: str) -> bool:
        return self._times > 1 or check in (self._select or ())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken[Path(report.nodeid).stem] = report.longreprtext.strip().splitlines()[-1]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, result in report.user_properties:
            if name == PROPERTY and isinstance(result, dict):
                self._results.setdefault(str(result["check"]), []).append(result)  # type: ignore[arg-type]
        if report.when == "teardown":
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, sum(self._planned.values()))

    def checks(self, expected: dict[str, str]) -> list[Check]:
        """Every planned check, those without a result as errors, expected failures applied."""
        for names, what in (
            (expected, "expected failures name"),
            (self._select or (), "select names"),
        ):
            strange = [name for name in names if not _files_of(name)]
            if strange:
                raise UsageError(
                    f"{what} {strange[0]!r}, which is no check; there are: "
                    + ", ".join(sorted(_homes()))
                )
        checks = [
            Check(module, (), "", "error", f"its checks cannot be loaded: {why}")
            for module, why in self._broken.items()
        ]
        for check, count in self._planned.items():
            results = self._results.get(check, [])
            if len(results) < count:
                checks.append(
                    Check(check, (), "", "error", f"{count - len(results)} of {count} never ran")
                )
                continue
            reproduce = f"theodolite audit {self._name} --select {check}"
            checks.append(_expected(Check.merge(results, reproduce=reproduce), expected.get(check)))
        return checks


def _matches(check: str, name: str) -> bool:
    return check == name or check.startswith(name + ".")


@cache
def _homes() -> dict[str, set[str]]:
    """The files in which the properties of each check stand."""
    homes: dict[str, set[str]] = {}
    for each in find_properties(_FOLDER):
        if each.check is not None:
            homes.setdefault(each.check, set()).add(each.name.partition("::")[0])
    return homes


def _files_of(name: str) -> set[str]:
    """The files of the checks that `name` selects; none for a name that means nothing."""
    return {file for check, files in _homes().items() if _matches(check, name) for file in files}


def _expected(check: Check, reason: str | None) -> Check:
    if reason is None:
        return check
    from dataclasses import replace

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


def _run_pytest(collector: _Collector, select: Sequence[str] | None) -> None:
    chosen = sorted({file for name in select or () for file in _files_of(name)})
    if select is not None and not chosen:
        return  # the names mean nothing: there is nothing to run
    arguments = [
        *(str(_FOLDER / file) for file in chosen or [""]),
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
