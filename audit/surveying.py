"""A survey: many subjects, each audited in workers of its own, each reported exactly once."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import theodolite
from theodolite.command_line import BUDGET
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.loading.settings import write_settings
from theodolite.fleet import Ended, Fleet, fleet_of
from theodolite.job import Job
from theodolite.judging_arguments import AUDIT_LIMIT, job_of, require_judgeable
from theodolite.subject_arguments import LIMIT
from theodolite.subject_digest import digest_of
from theodolite.subject_list import Listed, subjects_in
from theodolite.supervisor import Supervisor
from theodolite.survey_folder import SurveyFolder

if TYPE_CHECKING:
    from theodolite.report import Report

SCHEMA = "theodolite-survey/1"
OUT = "survey"
VERDICTS = ("fail", "error", "incomplete", "pass")
"""Of a subject, and of a survey: the first that any subject has."""

_INDEX_EVERY = 30.0
"""Seconds between two writings of the index while audits run."""

_UNJUDGED = ("error", "incomplete")
_SHOWN = 3

Line = Mapping[str, Any]
Told = Callable[[Line, int, int], None]
"""Called as subjects end: the line of one, how many have ended, how many there are."""


class SurveyFailure(AssertionError):
    """Raised by `Survey.raise_for_failures`; its text is a line for each subject."""


@dataclass(frozen=True)
class Survey:
    """What a survey found.

    Attributes:
        lines: For each subject that was audited, in their order: {"subject", "verdict", "says",
            "report", "page", "seconds", "tries", "passes", "summary", "failed", "causes",
            "command", "digest", ...}, as in its line of survey.jsonl.
        left: The subjects that are still to be audited, where the survey was interrupted.
        notes: What is to be said of the survey as a whole.
        out: The folder of lines, reports and index; "report" and "page" of a line are
            relative to it.
    """

    lines: tuple[Line, ...]
    left: tuple[str, ...]
    notes: tuple[str, ...]
    out: Path

    @property
    def verdicts(self) -> dict[str, int]:
        """How many subjects have which verdict."""
        count = Counter(line["verdict"] for line in self.lines)
        return {verdict: count[verdict] for verdict in VERDICTS}

    @property
    def verdict(self) -> str:
        """The gravest verdict of any subject: "fail", "error", "incomplete" or "pass"."""
        if self.left and not self.verdicts["fail"]:
            return "incomplete"
        return next((verdict for verdict in VERDICTS if self.verdicts[verdict]), "incomplete")

    @property
    def causes(self) -> list[tuple[str, int]]:
        """The likeliest cause of each failing subject, and of how many it is, most first."""
        first = [line["causes"][0] for line in self.lines if line["causes"]]
        known = {each["cause"]: each["says"] for each in reversed(first)}
        known[None] = "unlike any known fault"
        named = (f"{each['component']}: {known[each['cause']]}" for each in first)
        return Counter(named).most_common()

    def to_dict(self) -> dict[str, Any]:
        """The survey as plain values, ready for JSON (schema "theodolite-survey/1")."""
        return {
            "schema": SCHEMA,
            "version": theodolite.__version__,
            "verdict": self.verdict,
            "verdicts": self.verdicts,
            "subjects": [dict(line) for line in self.lines],
            "left": list(self.left),
            "notes": list(self.notes),
        }

    def raise_for_failures(self) -> None:
        """Do nothing if every subject passed.

        Raises:
            SurveyFailure: If one did not.
        """
        if self.verdict != "pass":
            bad = [line for line in self.lines if line["verdict"] != "pass"]
            told = [f"{line['subject']}: {line['verdict']}: {line['says']}" for line in bad]
            raise SurveyFailure("\n".join([*told, *(f"{name}: not audited" for name in self.left)]))

    def _repr_html_(self) -> str:
        from theodolite.survey_table import to_html

        return to_html(self)


def survey(
    subjects: str | Sequence[str],
    *,
    out: str | Path = OUT,
    jobs: int | None = None,
    dask: str | None = None,
    retry: bool = False,
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
    time_limit: float = LIMIT,
    audit_limit: float = AUDIT_LIMIT,
    memory_limit: float | None = None,
    told: Told = lambda *_: None,
) -> Survey:
    """Audit many subjects, each in worker processes of its own, several at a time.

    What ends is in `out` at once; called again, it goes on with what is missing there.

    Args:
        subjects: Names as for `theodolite.audit`, or patterns of files ("submissions/*/model.py");
            live modules cannot be sent to other processes.
        out: The folder of lines, reports and index.
        jobs: Audits at a time; None for as many as this machine has cores.
        dask: The address of a Dask scheduler, to audit on its workers instead.
        retry: Audit again, too, what could not be judged before.
        declare: As for `theodolite.audit`, as is all that follows.
        expected_failures: Check id → reason.
        budget: What each audit may cost.
        select: What to run.
        skip: What not to run.
        keyword: An expression over names of checks.
        settings: Keyword arguments for building each subject.
        as_configured: Build classes at the size of their own defaults.
        weights: A file with weights.
        explore: Draw fresh examples.
        fail_fast: Stop each audit at its first failure.
        strict: Fail for hazards too.
        prove: Prove causes by mending them in a copy.
        time_limit: Seconds that one forward may take.
        audit_limit: Seconds that one audit may take.
        memory_limit: GiB that one audit may use; None for its share of what is free.
        told: Called as subjects end.

    Returns:
        The `Survey`.

    Raises:
        UsageError: If an argument means nothing, or `out` cannot be written.
    """
    given = argparse.Namespace(
        settings=write_settings(settings or {}),
        declare=write_settings(declare or {}),
        as_configured=as_configured,
        weights=None if weights is None else str(weights),
        time_limit=time_limit,
        budget=budget,
        select=[select] if isinstance(select, str) else select and [*select],
        skip=[skip] if isinstance(skip, str) else skip and [*skip],
        keyword=keyword,
        explore=explore,
        fail_fast=fail_fast,
        strict=strict,
        proof=prove,
        audit_limit=audit_limit,
        memory_limit=memory_limit,
        expected_failures=dict(expected_failures or {}),
    )
    words = [subjects] if isinstance(subjects, str) else subjects
    plan = Plan.of(words, [], given)
    with SurveyFolder(Path(out)) as folder:
        plan.carry_out(folder, fleet_of(jobs, dask, audit_limit), retry=retry, told=told)
        return plan.survey(folder)


@dataclass(frozen=True)
class _Order:
    """An audit to be made."""

    listed: Listed
    job: Job
    limit: float
    digest: str | None
    elsewhere: bool = False

    @property
    def asked(self) -> str:
        """A digest of what decides its result beside the subject's files."""
        job = self.job
        decisive = [job.command, job.strict, job.fail_fast, job.proof, sorted(job.expected.items())]
        return sha256(json.dumps([decisive, _versions()]).encode()).hexdigest()

    @property
    def limits(self) -> list[float | None]:
        """What it may use; of no account where it ended within them."""
        return [self.limit, self.job.memory_limit]


class Plan:
    """The audits that a survey consists of.

    Args:
        orders: One for each subject.
        notes: What is to be said of the list of subjects.
    """

    def __init__(self, orders: Sequence[_Order], notes: Iterable[str]) -> None:
        self._orders = orders
        self._notes = [*notes]

    @classmethod
    def of(cls, words: Sequence[str], lists: Sequence[str], given: argparse.Namespace) -> Plan:
        """The audits of the subjects that words and lists name (see `theodolite.subject_list`).

        Raises:
            UsageError: If a word, a line or an argument means nothing, or no subject is named.
        """
        require_judgeable(given)
        listed, notes = subjects_in(words, lists, given)
        if not listed:
            raise UsageError("name a SUBJECT, or a list of them with --from LIST.txt")
        orders = [
            _Order(
                each,
                job_of(given, each.named),
                given.audit_limit,
                digest_of(each.named["subject"], each.named["weights"]),
            )
            for each in listed
        ]
        return cls(orders, notes)

    def carry_out(self, folder: SurveyFolder, fleet: Fleet, *, retry: bool, told: Told) -> None:
        """Make the audits that `folder` does not have, and add each to it as it ends.

        Its index is written anew from time to time, and however this ends.
        """
        left = self._left(folder, retry=retry)
        beside = min(fleet.beside(), len(left) - 1)
        orders = [
            replace(each, job=replace(each.job, beside=beside), elsewhere=fleet.elsewhere)
            for each in left
        ]
        done = len(self._orders) - len(left)
        self._write_index(folder)
        written = time.monotonic()
        try:
            for ended in fleet.each(_audit, orders):
                done += 1
                told(_add(folder, ended), done, len(self._orders))
                if time.monotonic() - written > _INDEX_EVERY:
                    self._write_index(folder)
                    written = time.monotonic()
        finally:
            self._write_index(folder)

    def _write_index(self, folder: SurveyFolder) -> None:
        from theodolite.survey_page import page

        folder.write_index(page(self.survey(folder)))

    def survey(self, folder: SurveyFolder) -> Survey:
        """What `folder` has of it."""
        lines = folder.lines()
        names = [order.listed.words for order in self._orders]
        current = {
            order.listed.words: lines[order.listed.words]
            for order in self._orders
            if order.listed.words in lines
            and _stale(order, lines[order.listed.words], folder, retry=False) is None
        }
        return Survey(
            tuple(current[name] for name in names if name in current),
            tuple(name for name in names if name not in current),
            tuple(self._notes),
            folder.path,
        )

    def _left(self, folder: SurveyFolder, *, retry: bool) -> list[_Order]:
        """What is to be audited; why, where it had been audited before, becomes a note."""
        lines = folder.lines()
        left: list[_Order] = []
        anew: dict[str, list[str]] = {}
        for order in self._orders:
            line = lines.get(order.listed.words)
            why = None if line is None else _stale(order, line, folder, retry=retry)
            if line is None or why is not None:
                left.append(order)
            if why is not None:
                anew.setdefault(why, []).append(order.listed.words)
        kept = len(self._orders) - len(left)
        if kept:
            self._notes.append(f"{kept} of {len(self._orders)} had been audited before")
        for why, names in anew.items():
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            self._notes.append(f"audited anew, as {why}: {', '.join(names[:_SHOWN])}{more}")
        return left


def _stale(order: _Order, line: Line, folder: SurveyFolder, *, retry: bool) -> str | None:
    """Why a line no longer tells what an audit would find, as a clause; None if it does."""
    unjudged = line["verdict"] in _UNJUDGED
    if line["digest"] != order.digest:
        return "their files have changed"
    if line["asked"] != order.asked:
        return "they had been asked otherwise, or by other versions"
    if not folder.has_report(line):
        return "their reports are gone"
    if unjudged and line["limits"] != order.limits:
        return "they could not be judged, and their limits have changed"
    if unjudged and retry:
        return "they could not be judged"
    return None


@dataclass(frozen=True)
class _Told:
    """A report as it is kept: as plain values, and as a page."""

    document: dict[str, Any]
    page: str

    @classmethod
    def of(cls, report: Report) -> _Told:
        from theodolite.formats import html

        return cls(report.to_dict(), html.write(report))

    @classmethod
    def unaudited(cls, order: _Order, why: str) -> _Told:
        from theodolite.report import Report

        return cls.of(Report(order.listed.words, error=why, command=order.job.command))


def _audit(order: _Order) -> _Told:
    """Audit a subject as ``theodolite audit`` does."""
    job = order.job
    if order.elsewhere:
        job = replace(job, path=tuple(sys.path))
    if not Path(job.folder).is_dir():
        why = f"the Dask worker's machine has no folder {job.folder}: it must see the same files"
        return _Told.unaudited(order, why)
    with Supervisor(job, order.limit) as supervisor:
        supervisor.run()
    if supervisor.interrupted is not None:
        sys.exit(1)  # this is no result
    return _Told.of(supervisor.report())


def _add(folder: SurveyFolder, ended: Ended[_Order, _Told]) -> dict[str, Any]:
    order, told = ended.task, ended.result
    if told is None:
        told = _Told.unaudited(order, f"it could not be audited: {ended.lost}")
    report = told.document
    line = {
        "subject": order.listed.words,
        "verdict": report["verdict"],
        "says": _says(report),
        "seconds": report["cost"]["seconds"],
        "passes": report["cost"]["passes"],
        "tries": ended.tries,
        "summary": report["summary"],
        "failed": [
            {"check": check["id"], "component": check["component"], "says": check["message"]}
            for check in report["checks"]
            if check["outcome"] in ("failed", "error")
            and (check["outcome"] == "error" or check["level"] == "fault" or order.job.strict)
        ],
        "causes": [
            {name: cause[name] for name in ("component", "cause", "says", "source")}
            for cause in report["diagnosis"]
        ],
        "command": order.job.command,
        "version": theodolite.__version__,
        "digest": order.digest,
        "asked": order.asked,
        "limits": order.limits,
    }
    return folder.add(line, report, told.page)


def _says(report: Mapping[str, Any]) -> str:
    """A report in a sentence."""
    if report["verdict"] == "fail":
        causes = report["diagnosis"]
        if not causes:  # what was expected to fail, and passed
            failed = next(check for check in report["checks"] if check["outcome"] == "failed")
            return f"{failed['id']}: {failed['message']}"
        source = causes[0]["source"]
        line = f", {Path(source['file']).name}:{source['line']}" if source else ""
        more = f", 1 of {len(causes)}" if len(causes) > 1 else ""
        return f"{causes[0]['component']}{line}{more}: {causes[0]['says']}"
    said: str = report.get("error") or report.get("incomplete") or ""
    hazards = report["summary"]["hazards"]
    return said or (f"{hazards} hazard{'s' * (hazards > 1)}" if hazards else "")


def _versions() -> list[str]:
    return [theodolite.__version__, *map(_version, ("torch", "transformers"))]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
