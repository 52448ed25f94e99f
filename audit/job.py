"""What a worker process is to do, as it is handed to it."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from theodolite.command_line import Audit

JOB, JOURNAL, TRACES, LAST_WORDS = "job", "journal", "traces", "stderr"
"""Files in the folder that supervisor and worker share."""


@dataclass(frozen=True)
class Job:
    """An audit, as plain values.

    Attributes:
        named: The subject and how to build it; see `theodolite.subject_arguments.subject_of`.
        expected: Check id → reason, of the failures that are expected.
        known: Check id → where from, of the failures that were there before (see
            `theodolite.baseline`).
        budget: As for `theodolite.audit`.
        select: As for `theodolite.audit`.
        skip: As for `theodolite.audit`.
        keyword: As for `theodolite.audit`.
        explore: As for `theodolite.audit`.
        fail_fast: As for `theodolite.audit`.
        strict: As for `theodolite.audit`.
        proof: As `prove` for `theodolite.audit`.
        scripts: Folder into which the failures' scripts are written, or None.
        pictures: Whether to take the numbers that a report draws.
        memory_limit: GiB that it may use; None for what `theodolite.memory_limit` derives.
        folder: Working directory of the subject.
        path: Where modules are looked for.
        beside: Audits that run beside it on its machine: they share what memory is free, and take
            one thread each.
    """

    named: Mapping[str, Any]
    expected: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
    budget: str = "standard"
    select: list[str] | None = None
    skip: list[str] | None = None
    keyword: str | None = None
    explore: bool = False
    fail_fast: bool = False
    strict: bool = False
    proof: bool = True
    scripts: str | None = None
    pictures: bool = False
    memory_limit: float | None = None
    folder: str = field(default_factory=os.getcwd)
    path: tuple[str, ...] = field(default_factory=lambda: tuple(sys.path))
    beside: int = 0

    @property
    def audit(self) -> Audit:
        """What decides its result, as reports tell it."""
        return Audit(**self.named, budget=self.budget, explore=self.explore)

    @property
    def prove(self) -> str | None:
        """The budget, where causes are to be proved by repair."""
        return self.budget if self.proof else None

    @property
    def command(self) -> str:
        """The command that does the same again."""
        return self.audit.again(self.select or (), self.skip or (), self.keyword)

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence on the checks that were asked not to be run."""
        if not self.skip:
            return ()
        from theodolite.selection import selection

        return selection(self.select, self.skip, self.keyword, budget=self.budget).notes

    def save(self, folder: Path) -> None:
        """Write the job into the folder that it is read from."""
        (folder / JOB).write_bytes(pickle.dumps(self))

    @staticmethod
    def load(folder: Path) -> Job:
        """Read the job that `save` has written into `folder`."""
        job = pickle.loads((folder / JOB).read_bytes())
        assert isinstance(job, Job)
        return job
