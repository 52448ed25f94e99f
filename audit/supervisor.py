"""An audit in worker processes, watched: whatever a subject does, the results so far remain.

A worker audits and journals; this process, which never imports torch, watches its time and its
memory. When a worker ends before its work is done, the property that was running is an error that
says how, and another worker goes on behind it. Where one cause ends two workers in one group of
checks, the rest of that group is not judged; where it ends workers in three groups, the fault is
no matter of what is asked, and nothing further is judged.

This contains accidents. It is no sandbox: a subject that means harm can do what its user can.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from theodolite.findings import Event, Findings
from theodolite.fixtures.judging.wording import clean
from theodolite.job import JOURNAL, LAST_WORDS, TRACES, Job
from theodolite.journal import Reader, Writer
from theodolite.memory_limit import allowed, free_memory, resident
from theodolite.process_endings import Ending, ending_of, of_memory
from theodolite.processes import end, start

if TYPE_CHECKING:
    from theodolite.report import Report

_TICK = 0.05
"""Seconds between two looks at a worker."""

_IN_ONE_GROUP = 2
_GROUPS = 3

Show = Callable[[Findings], None]
"""Called twenty times a second with what has been found so far."""


class Supervisor:
    """Runs a job in worker processes until it is done, or cannot be.

    A context manager: the first worker starts when it is entered, and none is left when it is left.

    Args:
        job: What to do.
        limit: Seconds that the audit may take as a whole.

    Attributes:
        findings: What was found so far.
        cut_short: Why the audit ended before its time, as a clause; None if it did not.
        interrupted: The signal that ended it, if one did.
    """

    def __init__(self, job: Job, limit: float) -> None:
        self.findings = Findings(job.audit, job.known)
        self.cut_short: str | None = None
        self.interrupted: int | None = None
        self._job = job
        self._limit = limit
        self._began = time.monotonic()
        self._free = free_memory(job.beside)
        self._deaths: list[tuple[str, str]] = []
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Supervisor:
        """Start the first worker."""
        self._open.enter_context(self._noting_signals())
        folder = tempfile.TemporaryDirectory(prefix="theodolite-", ignore_cleanup_errors=True)
        self._folder = Path(self._open.enter_context(folder))
        self._job.save(self._folder)
        self._reader = Reader(self._folder / JOURNAL)
        self._worker = self._start()
        self._open.callback(lambda: end(self._worker))
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs."""
        self._open.close()

    @property
    def seconds(self) -> float:
        """Time since it was entered."""
        return time.monotonic() - self._began

    def run(self, show: Show = lambda _: None) -> None:
        """Watch workers, one after another, until the audit is done or cannot go on."""
        while self._goes_on(self._watch(show)):
            self._worker = self._start()

    def report(self) -> Report:
        """What was found, as a report: nothing is missing from it for how the audit ended."""
        from theodolite.report import Report

        found, job, cut_short = self.findings, self._job, self.cut_short
        error = None
        if found.refusal is not None:
            error = found.refusal.says
        elif not found.items:
            error = cut_short or "nothing was judged"
        return Report(
            subject=found.subject or clean(job.named["subject"]),
            checks=found.checks(job.expected),
            notes=(*found.notes, *job.left_out),
            command=job.command,
            passes=found.passes,
            seconds=self.seconds,
            error=error,
            anatomy=found.anatomy,
            strict=job.strict,
            cut_short=None if cut_short is None else f"{cut_short[0].upper()}{cut_short[1:]}.",
            told=found.causes,
            advice=found.advice,
            pictures=found.pictures,
        )

    # -- watching --------------------------------------------------------------------------------

    def _start(self) -> subprocess.Popen[bytes]:
        self.findings.stopped = None
        (self._folder / TRACES).write_bytes(b"")
        with (self._folder / LAST_WORDS).open("wb") as last_words:
            return start(
                "theodolite.worker",
                str(self._folder),
                folder=self._folder,
                stdout=subprocess.DEVNULL,
                stderr=last_words,
            )

    def _watch(self, show: Show) -> Ending | None:
        """Run the worker until it ends or must be ended; how, or None if it did its work."""
        try:
            while True:
                status = self._wait()
                self._read()
                show(self.findings)
                if self.findings.finished or self.findings.refusal is not None:
                    return None
                if status is not None:
                    return ending_of(status, self._folder, self.findings.stopped)
                if (ending := self._too_much()) is not None:
                    return ending
        finally:
            end(self._worker)
            self._read()

    def _wait(self) -> int | None:
        try:
            return self._worker.wait(_TICK)
        except subprocess.TimeoutExpired:
            return None

    def _read(self) -> None:
        for event in self._reader.events():
            self.findings.take(event)

    def _too_much(self) -> Ending | None:
        """Why the worker has to be ended now, if it has to."""
        if self.interrupted is not None:
            name = signal.Signals(self.interrupted).name
            self.cut_short = f"the audit was interrupted ({name})"
            return Ending("interrupt", "was interrupted")
        if self.seconds > self._limit:
            self.cut_short = (
                f"the audit's time of {self._limit:g} s was over; give it more with "
                "--audit-limit SECONDS"
            )
            return Ending("audit limit", "had no time left")
        weights = self.findings.weights if self.findings.subject is not None else None
        most = allowed(self._job.memory_limit, weights, self._free)
        held = resident(self._worker.pid)
        if most is not None and held is not None and held > most:
            return of_memory(held, most)
        return None

    # -- going on --------------------------------------------------------------------------------

    def _goes_on(self, ending: Ending | None) -> bool:
        """Take a worker's end in; whether another one is to go on."""
        found = self.findings
        if found.refusal is not None and found.items:  # it could be loaded before
            self._leave(f"the subject could not be loaded again: {found.refusal.says}")
            found.refusal = None
        elif self.cut_short is not None:
            self._leave(self.cut_short)
        elif ending is not None and found.stage:
            self._end_stage(ending)
        elif ending is not None and found.items:
            return self._count(ending)
        elif ending is not None:
            self._refuse(ending)
        return False

    def _count(self, ending: Ending) -> bool:
        """Note what a worker's end has cost; whether another one is to go on."""
        found, running = self.findings, self.findings.running
        if running is None:
            self._leave(f"the audit's process {ending.says}")
            return False
        group = found.items[running].group
        says = f"The audit's process {ending.says}."
        self._add({"event": "lost", "item": running, "says": says})
        self._deaths.append((ending.cause, group))
        groups = Counter(where for cause, where in self._deaths if cause == ending.cause)
        if len(groups) >= _GROUPS:
            met = f"in {len(groups)} groups of checks the audit's process"
            self._leave(f"{met} {ending.says}")
            return False
        if groups[group] >= _IN_ONE_GROUP:
            met = f"twice in the checks of {group} the audit's process"
            self._leave(f"{met} {ending.says}", group)
        return True

    def _leave(self, says: str, group: str | None = None) -> None:
        """Judge nothing further, or nothing further of one group."""
        for item in self.findings.left:
            if group in (None, self.findings.items[item].group):
                self._add({"event": "unjudged", "item": item, "says": says})

    def _refuse(self, ending: Ending) -> None:
        """A worker ended before anything was planned."""
        when = "while it was being loaded" if self.findings.subject is None else "before its checks"
        says = f"the audit's process {ending.says}; that was {when}"
        self._add({"event": "refused", "says": says, "status": 3, "traceback": ""})

    def _end_stage(self, ending: Ending) -> None:
        """A worker ended when all was judged: what it was at is missing, and said."""
        found = self.findings
        if found.stage == "anatomy":
            found.anatomy = {"unread": {"anatomy": f"the audit's process {ending.says}"}}
        if self._job.scripts is not None:
            found.notes.append(f"no scripts were written: the audit's process {ending.says}")

    def _add(self, event: Event) -> None:
        """Add an event to the journal, from which the next worker goes on."""
        writer = Writer(self._folder / JOURNAL)
        writer.write(event)
        writer.close()
        self._read()

    @contextlib.contextmanager
    def _noting_signals(self) -> Iterator[None]:
        """Note Ctrl-C and SIGTERM instead of ending: there is a report to be written."""

        def note(number: int, _frame: FrameType | None) -> None:
            self.interrupted = number

        before: dict[signal.Signals, Any] = {}
        with contextlib.suppress(ValueError):  # only the main thread may
            for each in (signal.SIGINT, signal.SIGTERM):
                before[each] = signal.signal(each, note)
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
