"""The properties run on a subject: a pytest plugin that chooses them and tells what they say."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from theodolite.command_line import BUDGET, BUDGETS
from theodolite.findings import Sink
from theodolite.fixtures.oracles.strategies import without_shrinking
from theodolite.fixtures.plugin import AUDITED, PROPERTY
from theodolite.fixtures.subject.subject import Subject
from theodolite.memory_limit import tidy_up
from theodolite.selection import Selection, pays_for, selection


@dataclass(frozen=True)
class Choice:
    """Which properties run, and how.

    Attributes:
        chosen: The checks that were asked for; None for all that the budget pays for.
        budget: "quick", "standard" or "thorough"; see `theodolite.run.audit`.
        explore: Draw fresh examples.
        fail_fast: Stop at the first failure.
        expected: Checks whose failure is expected, and stops nothing.
        done: Names of properties that have run already, in another process.
    """

    chosen: Selection | None = None
    budget: str = BUDGET
    explore: bool = False
    fail_fast: bool = False
    expected: Collection[str] = ()
    done: Collection[str] = ()

    @classmethod
    def of(
        cls,
        select: Sequence[str] | None,
        skip: Sequence[str] | None,
        keyword: str | None,
        *,
        budget: str,
        **how: Any,
    ) -> Choice:
        """The choice of what is selected and not skipped; see `theodolite.selection`.

        Raises:
            UsageError: If a name or an expression means nothing, or no check is left.
        """
        everything = select is None and not skip and keyword is None
        chosen = None if everything else selection(select, skip, keyword, budget=budget)
        return cls(chosen, budget, **how)


class Collector:
    """Gives the properties their subject, and hands each event on as it happens."""

    def __init__(self, subject: Subject, choice: Choice, sink: Sink) -> None:
        self._subject = weakref.ref(subject)
        self._choice = choice
        self._sink = sink
        self._times = 10 if choice.budget == "thorough" else 1
        self._results: list[dict[str, Any]] = []
        self._passes = 0.0
        self._weights = sum(p.nbytes for p in subject.model.parameters())
        self._notes = 0
        self._left: dict[str, None] = {}
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep what can be asked to stop."""
        self._session = session

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
        self._left = dict.fromkeys(item.nodeid for item in items)
        for item in items:
            without_shrinking(item.obj, times=self._times, explore=self._choice.explore)  # type: ignore[attr-defined]

    def _plan(self, item: pytest.Item) -> dict[str, Any] | None:
        """What is planned of `item`; None if it is not to run."""
        check = _option(item, "check")
        if check is None:
            return None
        callspec = getattr(item, "callspec", None)
        view = callspec.params.get("view") if callspec is not None else None
        chosen = self._choice.chosen
        least = _option(item, "budget") if chosen is None else BUDGETS[0]
        if not pays_for(self._choice.budget, least, view):
            return None
        if chosen is not None and check not in chosen.checks:
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
                self._results.append(result)
        if report.when == "teardown":
            self._tell_end(report.nodeid)

    def _tell_end(self, nodeid: str) -> None:
        subject = self._subject()
        passes, notes = (subject.passes, subject.notes) if subject else (self._passes, [])
        tidy_up(self._weights)
        event = {
            "event": "ended",
            "item": nodeid,
            "results": self._results,
            "passes": passes - self._passes,
            "notes": notes[self._notes :],
        }
        faults = (r for r in self._results if (r["outcome"], r["level"]) == ("failed", "fault"))
        failed = [str(r["id"]) for r in faults]
        self._results, self._passes, self._notes = [], passes, len(notes)
        self._left.pop(nodeid, None)
        self._sink(event)
        for check in failed:
            if check not in self._choice.expected:
                self._stop_after(check)

    def _stop_after(self, check: str) -> None:
        """Judge nothing further, if that is asked for."""
        if not self._choice.fail_fast or self._session is None:
            return
        self._session.shouldfail = f"{check} failed"
        for nodeid in self._left:
            says = f"it stopped when {check} failed, as --fail-fast asks"
            self._sink({"event": "unjudged", "item": nodeid, "says": says})
        self._left = {}


def _option(item: pytest.Item, name: str) -> Any:
    """What a check's decorator says of itself; None for a test that is no check."""
    marker = item.get_closest_marker("claim")
    return marker.kwargs.get(name) if marker else None
