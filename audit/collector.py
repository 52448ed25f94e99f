"""The properties run on a subject: a pytest plugin that chooses them and tells what they say."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from theodolite.findings import Sink
from theodolite.fixtures.judging.result import Result
from theodolite.fixtures.oracles.strategies import without_shrinking
from theodolite.fixtures.plugin import AUDITED, PROPERTY
from theodolite.fixtures.subject.subject import Subject
from theodolite.selecting import matches

_QUICK = frozenset({"as given", "sharpened", None})


@dataclass(frozen=True)
class Choice:
    """Which properties run, and how.

    Attributes:
        budget: "quick", "standard" or "thorough"; see `theodolite.run.audit`.
        select: Check ids, or groups of them; None for all.
        explore: Draw fresh examples.
        done: Names of properties that have run already, in another process.
    """

    budget: str = "standard"
    select: Sequence[str] | None = None
    explore: bool = False
    done: Collection[str] = ()


class Collector:
    """Gives the properties their subject, and hands each event on as it happens."""

    def __init__(self, subject: Subject, choice: Choice, sink: Sink) -> None:
        self._subject = weakref.ref(subject)
        self._choice = choice
        self._sink = sink
        self._times = 10 if choice.budget == "thorough" else 1
        self._views = _QUICK if choice.budget == "quick" else None
        self._results: list[Result] = []
        self._passes = 0.0
        self._notes = 0

    def pytest_configure(self, config: pytest.Config) -> None:
        """Give the properties their subject."""
        config.stash[AUDITED] = self._subject()

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Let the subject go: modules that pytest imported keep its configuration alive."""
        del config.stash[AUDITED]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose what runs, the gates first: what they say explains why others do not apply."""
        planned = [(item, plan) for item in items if (plan := self._plan(item)) is not None]
        self._sink({"event": "planned", "items": [plan for _, plan in planned]})
        planned.sort(key=lambda pair: not _option(pair[0], "gate"))
        items[:] = [item for item, _ in planned if item.nodeid not in self._choice.done]
        for item in items:
            without_shrinking(item.obj, times=self._times, explore=self._choice.explore)  # type: ignore[attr-defined]

    def _plan(self, item: pytest.Item) -> dict[str, Any] | None:
        """What is planned of `item`; None if it is not to run."""
        check = _option(item, "check")
        if check is None:
            return None
        callspec = getattr(item, "callspec", None)
        view = callspec.params.get("view") if callspec is not None else None
        select = self._choice.select
        if self._views is not None and view not in self._views:
            return None
        if _option(item, "budget") == "thorough" and not self._takes_time(check):
            return None
        if select is not None and not any(matches(check, name) for name in select):
            return None
        marker = item.get_closest_marker("claim")
        return {
            "id": item.nodeid,
            "check": check,
            "claims": list(marker.args if marker else ()),
            "component": _option(item, "component") or "",
            "level": _option(item, "level") or "fault",
            "view": view,
        }

    def _takes_time(self, check: str) -> bool:
        return self._times > 1 or check in (self._choice.select or ())

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell of a module that cannot be loaded."""
        if report.failed:
            says = report.longreprtext.strip().splitlines()[-1]
            self._sink({"event": "broken", "module": Path(report.nodeid).stem, "says": says})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell that a property begins."""
        self._sink({"event": "began", "item": nodeid})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather its results, and tell that it has ended."""
        for name, result in report.user_properties:
            if name == PROPERTY and isinstance(result, dict):
                self._results.append(result)  # type: ignore[arg-type]
        if report.when == "teardown":
            self._tell_end(report.nodeid)

    def _tell_end(self, nodeid: str) -> None:
        subject = self._subject()
        passes, notes = (subject.passes, subject.notes) if subject else (self._passes, [])
        event = {
            "event": "ended",
            "item": nodeid,
            "results": self._results,
            "passes": passes - self._passes,
            "notes": notes[self._notes :],
        }
        self._results, self._passes, self._notes = [], passes, len(notes)
        self._sink(event)


def _option(item: pytest.Item, name: str) -> Any:
    """What a check's decorator says of itself; None for a test that is no check."""
    marker = item.get_closest_marker("claim")
    return marker.kwargs.get(name) if marker else None
