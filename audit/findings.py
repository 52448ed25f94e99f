"""What an audit has found so far, put together from its events in the order of their coming.

An audit in this process hands its events over as they happen; one in a worker process journals
them (see `theodolite.journal`). Either way a report is made of the same events:

    subject    the subject is loaded: its name, what was chosen for it, bytes of its weights
    planned    the properties that will run, each in its view
    broken     a module of properties that could not be loaded
    began      a property begins
    ended      it has ended, with its results
    lost       it ended its process (written by the supervisor)
    unjudged   it will not run, and why (written by the supervisor)
    stage      what comes after the last property: "anatomy", "answer", "pictures",
               "scripts"
    anatomy, answer, pictures, scripts, finished
    stopped    something that the subject left behind ended the run, not its process
    refused    the subject could not be loaded, or the command means nothing
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from theodolite.causes import Cause
from theodolite.command_line import Audit
from theodolite.report import Check
from theodolite.verdict import PREVENTED

Event = Mapping[str, Any]
Sink = Callable[[Event], None]


@dataclass(frozen=True)
class Item:
    """A planned property in one view."""

    check: str
    claims: Sequence[str]
    component: str
    level: str
    view: str | None

    @property
    def group(self) -> str:
        """The group of its check: what stands before the point in its id."""
        return self.check.partition(".")[0]


@dataclass(frozen=True)
class Refusal:
    """Why there is nothing to judge: a sentence, and the exit status that goes with it."""

    says: str
    status: int
    traceback: str = ""


class Findings:
    """The state of an audit after the events that it has taken.

    Args:
        audit: How a report tells to run one of its checks again.
        known: Check id → where its failure is known from: it is told, and no fault of this audit.
    """

    def __init__(self, audit: Audit, known: Mapping[str, str] | None = None) -> None:
        self._audit = audit
        self._known = known or {}
        self.subject: str | None = None
        self.weights = 0
        self.notes: list[str] = []
        self.passes = 0.0
        self.items: dict[str, Item] = {}
        self.running: str | None = None
        self.stage = ""
        self.anatomy: dict[str, Any] = {}
        self.scripts: dict[str, dict[str, Any]] = {}
        self.pictures: dict[str, Any] = {}
        self.causes: tuple[Cause, ...] | None = None
        self._sources: dict[str, dict[str, Any]] = {}
        self.advice: tuple[Mapping[str, Any], ...] = ()
        self.refusal: Refusal | None = None
        self.finished = False
        self.stopped: str | None = None
        self._broken: dict[str, str] = {}
        self._results: dict[str, list[dict[str, Any]]] = {}

    def take(self, event: Event) -> None:
        """Add one event."""
        getattr(self, f"_take_{event['event']}")(event)

    @property
    def left(self) -> list[str]:
        """The properties that are planned and have not ended."""
        return [item for item in self.items if item not in self._results]

    @property
    def done(self) -> frozenset[str]:
        """The properties that have ended, one way or another."""
        return frozenset(self._results)

    def checks(self, expected: Mapping[str, str]) -> tuple[Check, ...]:
        """Every planned check, those without a result as errors, expected failures applied."""
        broken = [
            Check(module, (), "", "error", f"its checks cannot be loaded: {why}")
            for module, why in self._broken.items()
        ]
        homes: dict[str, list[str]] = {}
        for name, item in self.items.items():
            homes.setdefault(item.check, []).append(name)
        merged = [
            _expected(self._check(check, names), expected.get(check), self._known.get(check))
            for check, names in homes.items()
        ]
        return (*broken, *merged)

    def _check(self, check: str, names: list[str]) -> Check:
        results = [result for name in names for result in self._results.get(name, [])]
        missing = sum(not self._results.get(name) for name in names)
        if missing:
            says = f"{missing} of {len(names)} never ran"
            return Check(check, (), self.items[names[0]].component, "error", says)
        merged = Check.merge(results, reproduce=self._audit.again([check]))
        written = self.scripts.get(check, {})
        return replace(
            merged,
            script=written.get("script", ""),
            no_script=written.get("no_script", ""),
            source=self._sources.get(check, merged.source),
        )

    def _take_subject(self, event: Event) -> None:
        self.subject, self.weights = event["name"], event["weights"]
        self._note(event["notes"])

    def _take_planned(self, event: Event) -> None:
        for each in event["items"]:
            values = {name: value for name, value in each.items() if name != "id"}
            self.items.setdefault(each["id"], Item(**values))

    def _take_broken(self, event: Event) -> None:
        self._broken[event["module"]] = event["says"]

    def _take_began(self, event: Event) -> None:
        self.running = event["item"]

    def _take_ended(self, event: Event) -> None:
        self._results[event["item"]] = list(event["results"])
        self.running = None
        self.passes += event["passes"]
        self._note(event["notes"])

    def _take_lost(self, event: Event) -> None:
        self._results[event["item"]] = [self._unmeasured(event["item"], "error", event["says"])]
        self.running = None

    def _take_unjudged(self, event: Event) -> None:
        says = f"{PREVENTED}{event['says']}"
        self._results[event["item"]] = [self._unmeasured(event["item"], "not_applicable", says)]

    def _take_stage(self, event: Event) -> None:
        self.stage = event["name"]

    def _take_anatomy(self, event: Event) -> None:
        self.anatomy = dict(event["anatomy"])
        self._note(event["notes"])

    def _take_answer(self, event: Event) -> None:
        self.causes = tuple(map(Cause.from_dict, event["causes"]))
        self._sources = dict(event["sources"])
        self.advice = tuple(event["advice"])

    def _take_pictures(self, event: Event) -> None:
        self.pictures = dict(event["pictures"])

    def _take_scripts(self, event: Event) -> None:
        self.scripts = dict(event["scripts"])

    def _take_refused(self, event: Event) -> None:
        self.refusal = Refusal(event["says"], event["status"], event["traceback"])

    def _take_stopped(self, event: Event) -> None:
        self.stopped = event["says"]

    def _take_finished(self, _event: Event) -> None:
        self.finished = True

    def _note(self, sentences: list[str]) -> None:
        self.notes.extend(said for said in sentences if said not in self.notes)

    def _unmeasured(self, name: str, outcome: str, says: str) -> dict[str, Any]:
        item = self.items[name]
        claims = tuple(item.claims)
        return asdict(
            Check(
                item.check,
                claims,
                item.component,
                outcome,
                says,
                view=item.view,
                level=item.level,
            )
        )


def _expected(check: Check, reason: str | None, known: str | None) -> Check:
    if reason is None:
        if check.outcome != "failed" or known is None:
            return check
        return replace(check, outcome="expected_failure", message=f"{known}: {check.message}")
    if check.outcome == "failed":
        says = f"expected: {reason}. {check.message}"
        return replace(check, outcome="expected_failure", message=says)
    if check.outcome == "passed":
        says = (
            f"it was expected to fail ({reason}) and passed: take it off the list of "
            "expected failures"
        )
        return replace(check, outcome="failed", level="fault", message=says)
    return check
