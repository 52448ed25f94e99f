"""Comparing two models, from Python."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

import theodolite
from theodolite.fixtures.comparing.comparison import Comparison as Comparing
from theodolite.fixtures.comparing.comparison import Outcome, Parting
from theodolite.fixtures.comparing.comparison import record as write_trace_of
from theodolite.fixtures.comparing.map_file import read_map, write_map
from theodolite.fixtures.comparing.mapping import suggestions
from theodolite.fixtures.comparing.second import Second, take_settings
from theodolite.fixtures.comparing.sizes import differences, sizes_of, sizes_of_trace
from theodolite.fixtures.comparing.trace import Trace, is_trace, read_trace
from theodolite.fixtures.errors import SubjectError, TheodoliteError, UsageError
from theodolite.fixtures.loading.argument_meanings import sized_like
from theodolite.fixtures.subject.subject import Subject

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "theodolite-comparison/1"

Given = str | nn.Module | Subject | Callable[..., Any]


class PartedError(AssertionError):
    """Raised by `Comparison.raise_for_partings`; its text is the partings, one a paragraph."""


@dataclass
class Comparison:
    """What a comparison of two models found.

    Attributes:
        a: What was taken for right.
        b: What was compared with it.
        verdict: "equal" (within rounding), "parted", or "error" (nothing could be compared).
        outcome: The map of the weights, every place compared, and where the two part.
        asked: Lines to complete for a map file, where the weights of B could not all be told.
        error: Why nothing could be compared, as a sentence; None if it could.
        command: The command that compares them again; "" for live models.
        seconds: Time spent after loading.
    """

    a: str
    b: str
    outcome: Outcome | None = None
    asked: list[str] = field(default_factory=list)
    error: str | None = None
    command: str = ""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    _comparing: Comparing | None = field(default=None, repr=False)

    @property
    def verdict(self) -> str:
        """One of "equal", "parted" and "error"."""
        if self.error is not None or self.outcome is None or self.asked:
            return "error"
        if self.outcome.partings or self.outcome.mapped.ties or self.outcome.missing:
            return "parted"
        return "equal" if self.outcome.equal else "error"

    @property
    def partings(self) -> list[Parting]:
        """Where they part, in the order in which a forward runs."""
        return [] if self.outcome is None else self.outcome.partings

    @property
    def map(self) -> str:
        """The text of a map file (`theodolite compare --map`) with all that was found."""
        return "" if self.outcome is None else write_map(self.outcome.mapped)

    def write_weights(self, file: str | Path) -> None:
        """Write A's weights as B's checkpoint, in safetensors.

        Raises:
            UsageError: If not every weight of B has its place in A.
        """
        if self._comparing is None or self.outcome is None:
            raise UsageError(f"there are no weights to write: {self.error}")
        if self.asked:
            raise UsageError(
                f"{len(self.outcome.mapped.asked)} parameters of B have no place in A yet: "
                "complete the map first"
            )
        self._comparing.write_weights(Path(file))

    def raise_for_partings(self) -> None:
        """Raise `PartedError` unless the two are equal."""
        if self.verdict != "equal":
            raise PartedError("\n\n".join(self.sentences()) or self.error or "not compared")

    def sentences(self) -> list[str]:
        """Each parting, and what else keeps the two from being equal, as a sentence."""
        if self.error is not None:
            return [self.error]
        return [says_of(each) for each in self.partings] + (
            [] if self.outcome is None else self.outcome.weights
        )

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values, ready for JSON (theodolite-comparison/1)."""
        outcome = self.outcome
        mapped = None if outcome is None else outcome.mapped
        return {
            "schema": SCHEMA,
            "version": theodolite.__version__,
            "a": self.a,
            "b": self.b,
            "command": self.command,
            "verdict": self.verdict,
            "error": self.error,
            "seconds": round(self.seconds, 2),
            "notes": [*self.notes, *([] if outcome is None else outcome.notes)],
            "weights": {
                "by": None if mapped is None else mapped.by,
                "mapped": 0 if mapped is None else len(mapped.sources),
                "of": 0 if mapped is None else mapped.of,
                "map": [] if mapped is None else [*_lines(mapped)],
                "asked": self.asked,
                "says": [] if outcome is None else outcome.weights,
            },
            "compared": []
            if outcome is None
            else [
                {
                    "role": each.place.role,
                    "layer": each.place.layer,
                    "measured": _number(each.measured),
                    "at_most": _number(each.at_most),
                }
                for each in outcome.compared
            ],
            "partings": [_parting(each) for each in self.partings],
        }

    def _repr_html_(self) -> str:
        from theodolite.comparison_terminal import to_html

        return to_html(self)

    def show(self, console: Console, *, verbose: bool = False) -> None:
        """Print it."""
        from theodolite.comparison_terminal import render

        render(self, console, verbose=verbose)


def compare(
    a: Given,
    b: Given,
    *,
    settings_a: Mapping[str, Any] | None = None,
    settings_b: Mapping[str, Any] | None = None,
    declare: Mapping[str, Any] | None = None,
    map: str | Path | Mapping[str, str] | None = None,  # noqa: A002 - the option's name
    as_configured: bool = False,
    weights_a: str | Path | None = None,
    weights_b: str | Path | None = None,
    time_limit: float = 60.0,
) -> Comparison:
    """Find the first place where two models, given the same weights and tokens, part.

    A's weights, drawn anew so that differences show, are put into B by what each is for; both run
    on the same random tokens; what they compute is compared place by place. Neither is changed.

    Args:
        a: As for `theodolite.audit`: what is taken for right.
        b: The same: what is compared with it.
        settings_a: Keyword arguments for building A.
        settings_b: For building B; besides, `dtype` and `backend` (the attention of a Hugging Face
            model) say how it runs.
        declare: What is known of how to call both (vocabulary, longest, layout).
        map: A map file, or B's parameter → expression of A's; goes before what is found.
        as_configured: Build classes at the size of their own defaults.
        weights_a: A file with A's weights.
        weights_b: A file with B's.
        time_limit: Seconds that one forward may take.

    Returns:
        The `Comparison`.

    Raises:
        SubjectError: If one of them cannot be loaded or called.
        UsageError: If an argument means nothing; says which would.
    """
    second, settings = take_settings(settings_b or {})
    how = {"declarations": declare, "as_configured": as_configured, "seconds": time_limit}
    load = _Loading(a, b, dict(settings_a or {}), settings, how, weights_a, weights_b)
    first: Subject | Trace
    if is_trace(a):
        first = read_trace(Path(str(a)))
        other = load.second_like(first)
    else:
        first, other = load.both()
    given = read_map(Path(map)) if isinstance(map, (str, Path)) else dict(map or {})
    name = first.subject if isinstance(first, Trace) else first.name
    found = Comparison(name, other.name, notes=_notes(first, other))
    began = time.perf_counter()
    try:
        _compare(found, first, other, given, second)
    finally:
        for subject in (first, other):
            if isinstance(subject, Subject):
                subject.restore()
    found.seconds = time.perf_counter() - began
    return found


def _compare(
    found: Comparison, a: Subject | Trace, b: Subject, given: Mapping[str, str], second: Second
) -> None:
    comparing = Comparing(a, b, given=given, second=second)
    found._comparing = comparing
    mapped = comparing.mapped
    if mapped.misfits or not mapped.sources:
        sizes = differences(a, b) if isinstance(a, Subject) else []
        sizes = sizes or mapped.misfits[:4] or ["no weight of B has its role in A"]
        found.outcome = Outcome(mapped)
        found.error = (
            "the two are not of one size, so that A's weights do not fit into B: "
            f"{'; '.join(sizes)}; set the sizes of one with --a KEY=VALUE or --b KEY=VALUE"
        )
        return
    found.asked = [*suggestions(mapped, comparing.model_a, comparing.model_b)]
    found.outcome = comparing.run()
    if not found.outcome.compared:
        found.error = "; ".join(found.outcome.notes) or "nothing could be compared"


@dataclass
class _Loading:
    a: Given
    b: Given
    settings_a: dict[str, Any]
    settings_b: dict[str, Any]
    how: Mapping[str, Any]
    weights_a: str | Path | None
    weights_b: str | Path | None

    def both(self) -> tuple[Subject, Subject]:
        """Both subjects; one of them built with the other's sizes where those differ."""
        a, b = self._named("A", self._first), self._named("B", self._second)
        if not differences(a, b):
            return a, b
        for again, by in ((self._second, a), (self._first, b)):
            try:
                with sized_like(sizes_of(by)):
                    other = again()
            except SubjectError:
                continue
            pair = (a, other) if by is a else (other, b)
            if not differences(*pair):
                return pair
        return a, b

    def _named(self, name: str, load: Callable[[], Subject]) -> Subject:
        """A subject; what keeps it from being loaded says which of the two it is."""
        try:
            return load()
        except TheodoliteError as error:
            raise type(error)(f"{name}: {error}") from error

    def second_like(self, trace: Trace) -> Subject:
        """The second subject, with the sizes of a trace where it can have them."""
        with sized_like(sizes_of_trace(trace)):
            return self._second()

    def _first(self) -> Subject:
        return Subject.load(self.a, settings=self.settings_a, weights=self.weights_a, **self.how)

    def _second(self) -> Subject:
        return Subject.load(self.b, settings=self.settings_b, weights=self.weights_b, **self.how)


def says_of(parting: Parting) -> str:
    """A parting as a sentence."""
    place = str(parting.place)
    more = "" if not parting.also else f", and likewise at {_others(parting)}"
    relation = f": {parting.relation}" if parting.relation else ""
    return (
        f"They part at the {place}{more}{relation}. The largest difference is "
        f"{parting.measured:.3g}; rounding explains {parting.at_most:.2g}."
    )


def _others(parting: Parting) -> str:
    shown = [f"the {place}" for place in parting.also[:2]]
    rest = len(parting.also) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _parting(parting: Parting) -> dict[str, Any]:
    return {
        "role": parting.place.role,
        "layer": parting.place.layer,
        "rank": None,
        "component": parting.component,
        "relation": parting.relation,
        "measured": _number(parting.measured),
        "at_most": _number(parting.at_most),
        "also": [{"role": p.role, "layer": p.layer} for p in parting.also],
        "source_a": None if parting.source_a is None else parting.source_a.to_dict(),
        "source_b": None if parting.source_b is None else parting.source_b.to_dict(),
        "says": says_of(parting),
    }


def _lines(mapped: Any) -> Any:
    for path, source in mapped.sources.items():
        yield {
            "b": path,
            "a": source.names[0] if len(source.names) == 1 else source.names,
            "how": source.how,
            "expression": source.expression,
        }


def _number(value: float) -> float | None:
    """A number that JSON has; None for infinity."""
    return value if math.isfinite(value) else None


def _notes(a: Subject | Trace, b: Subject) -> list[str]:
    of_a = a.notes if isinstance(a, Subject) else []
    return [f"{side}: {note}" for side, notes in (("A", of_a), ("B", b.notes)) for note in notes]


def record(
    a: Given,
    file: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    declare: Mapping[str, Any] | None = None,
    as_configured: bool = False,
    weights: str | Path | None = None,
    time_limit: float = 60.0,
) -> None:
    """Keep what `compare` needs of A in a file of safetensors, to be named as A later or elsewhere.

    Args:
        a: As for `theodolite.compare`.
        file: The file to write.
        settings: Keyword arguments for building A.
        declare: What is known of how to call it.
        as_configured: Build a class at the size of its own defaults.
        weights: A file with its weights.
        time_limit: Seconds that one forward may take.

    Raises:
        SubjectError: If A cannot be loaded or called.
        UsageError: If the file cannot be written.
    """
    subject = Subject.load(
        a,
        settings=settings,
        declarations=declare,
        as_configured=as_configured,
        weights=weights,
        seconds=time_limit,
    )
    try:
        write_trace_of(subject, Path(file))
    finally:
        subject.restore()
