"""The process in which the command line audits a subject: ``python -m theodolite.worker FOLDER``.

It journals each event as it happens, so that nothing is lost whatever the subject does to it, and
ends without waiting for threads that the subject has left. It is started by
`theodolite.supervisor`, and ends when that one does.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from theodolite.findings import Event, Findings
from theodolite.job import JOURNAL, TRACES, Job
from theodolite.journal import Reader, Writer
from theodolite.memory_limit import allowed, free_memory, restrict
from theodolite.processes import end_group

if TYPE_CHECKING:
    from theodolite.fixtures.subject.subject import Subject


def main(folder: Path) -> None:
    """Do the job that stands in `folder`, and end the process."""
    _end_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # sent by nobody but the subject
    job = Job.load(folder)
    sys.path[:] = job.path
    os.chdir(job.folder)
    with (folder / TRACES).open("w", encoding="utf-8") as traces:
        faulthandler.enable(traces, all_threads=False)
        _Worker(job, folder).work(traces)
        os._exit(0)


def _end_with_parent() -> None:
    """End this process when the supervisor, which holds the other end of standard input, does."""
    pipe = os.dup(0)

    def wait() -> None:
        with contextlib.suppress(OSError):
            if os.read(pipe, 1) == b"":
                end_group()

    threading.Thread(target=wait, daemon=True).start()


class _Worker:
    def __init__(self, job: Job, folder: Path) -> None:
        self._job = job
        self._findings = Findings(job.audit, job.known)
        for event in Reader(folder / JOURNAL).events():
            self._findings.take(event)
        self._journal = Writer(folder / JOURNAL)
        self._free = free_memory(job.beside)

    def work(self, traces: TextIO) -> None:
        from theodolite.fixtures.judging.wording import words_of
        from theodolite.fixtures.source.limits import ending_process
        from theodolite.fixtures.source.stray_exceptions import alone

        with alone(), ending_process(traces):
            with self._refusing():
                subject = self._load()
            if self._findings.refusal is not None:
                return
            try:
                self._audit(subject)
            except BaseException as error:
                self._tell({"event": "stopped", "says": words_of(error)})

    def _tell(self, event: Event) -> None:
        self._findings.take(event)
        self._journal.write(event)

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Journal why the subject cannot be loaded."""
        from theodolite.fixtures.errors import SubjectError, TheodoliteError
        from theodolite.fixtures.judging.wording import text_of, words_of

        try:
            yield
        except TheodoliteError as error:
            says, status = text_of(error), error.exit_status
        except BaseException as error:
            says = f"the subject could not be loaded: {words_of(error)}"
            status = SubjectError.exit_status
        else:
            return
        trace = traceback.format_exc()
        self._tell({"event": "refused", "says": says, "status": status, "traceback": trace})

    def _load(self) -> Subject:
        import torch  # what it takes is none of the subject's

        if self._job.beside:
            torch.set_num_threads(1)
        self._restrict(None)
        from theodolite.fixtures.subject.subject import Subject
        from theodolite.run import loaded_event

        named = dict(self._job.named)
        subject = Subject.load(
            named.pop("subject"),
            declarations=named.pop("declare"),
            seconds=named.pop("time_limit"),
            **named,
        )
        self._tell(loaded_event(subject))
        self._restrict(self._findings.weights)
        return subject

    def _restrict(self, weights: int | None) -> None:
        most = allowed(self._job.memory_limit, weights, self._free)
        if most is not None:
            restrict(most)

    def _audit(self, subject: Subject) -> None:
        from theodolite.collector import Choice
        from theodolite.run import anatomy_for, answer_event, pictures_event, run_properties

        job = self._job
        choice = Choice.of(
            job.select,
            job.skip,
            job.keyword,
            budget=job.budget,
            explore=job.explore,
            fail_fast=job.fail_fast,
            expected={*job.expected, *job.known},
            done=self._findings.done,
        )
        run_properties(subject, choice, self._tell)
        if self._findings.left:
            return  # the run was ended: the supervisor says by what
        self._tell({"event": "stage", "name": "anatomy"})
        self._tell({"event": "anatomy", "anatomy": anatomy_for(subject), "notes": subject.notes})
        self._tell({"event": "stage", "name": "answer"})
        checks = self._findings.checks(job.expected)
        self._tell(answer_event(subject, checks, strict=job.strict, prove=job.prove))
        if job.pictures:
            self._tell({"event": "stage", "name": "pictures"})
            self._tell(pictures_event(subject, checks))
        if job.scripts is not None:
            self._tell({"event": "stage", "name": "scripts"})
            self._write_scripts(subject, job.scripts)
        self._tell({"event": "finished"})

    def _write_scripts(self, subject: Subject, folder: str) -> None:
        from theodolite.properties.scripts import write_scripts
        from theodolite.report import Report

        checks = self._findings.checks(self._job.expected)
        before = Report(subject.name, checks, tuple(self._findings.notes))
        report = write_scripts(subject, before, Path(folder))
        scripts = {
            check.id: {"script": check.script, "no_script": check.no_script}
            for check in report.checks
            if check.script or check.no_script
        }
        self._tell({"event": "scripts", "scripts": scripts})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
