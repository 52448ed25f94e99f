"""Many tasks side by side, each done once: in processes of this machine, or on a Dask cluster.

A task runs in a process apart (`theodolite.runner`), here and on the cluster alike. One that is
lost with its process, or with its Dask worker, is tried again; one that is lost each time is told
as lost. Either way each task ends exactly once, and none ends the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

from theodolite.fixtures.errors import TheodoliteError, UsageError
from theodolite.runner import Lost, Runner

T = TypeVar("T")
R = TypeVar("R")

TRIES = 2
"""How often a task is tried whose process ends before it does."""


class FleetLost(TheodoliteError):
    """What places tasks was lost before all had ended (exit status 4)."""

    exit_status = 4


@dataclass(frozen=True)
class Ended(Generic[T, R]):
    """A task that has ended.

    Attributes:
        task: What was to be done.
        result: What came of it; None if it was lost.
        lost: Why there is no result, as a clause; None if there is.
        tries: How often it was begun.
    """

    task: T
    result: R | None
    lost: str | None
    tries: int


class Fleet(Protocol):
    """Where tasks are done.

    Attributes:
        elsewhere: Whether that may be another machine than this.
    """

    elsewhere: bool

    def beside(self) -> int:
        """How many tasks run beside each other one on its machine."""

    def each(self, do: Callable[[T], R], tasks: Sequence[T]) -> Iterator[Ended[T, R]]:
        """Do every task; yield each as it ends. Closing the iterator ends what runs."""


class Machine:
    """This machine.

    Args:
        jobs: How many tasks at a time.
    """

    elsewhere = False

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def beside(self) -> int:
        """All other jobs."""
        return self._jobs - 1

    def each(self, do: Callable[[T], R], tasks: Sequence[T]) -> Iterator[Ended[T, R]]:
        """Do every task in one of as many processes as there are jobs."""
        runners = [Runner() for _ in range(min(self._jobs, len(tasks)))]
        free: SimpleQueue[Runner] = SimpleQueue()
        for runner in runners:
            free.put(runner)

        def one(task: T) -> Ended[T, R]:
            runner = free.get()
            try:
                return attempt(runner, do, task)
            finally:
                free.put(runner)

        threads = ThreadPoolExecutor(max(len(runners), 1))
        try:
            for ended in as_completed([threads.submit(one, task) for task in tasks]):
                yield ended.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            for runner in runners:
                runner.end()


def attempt(runner: Runner, do: Callable[[T], R], task: T, tries: int = 1) -> Ended[T, R]:
    """Let `runner` do a task, again if its process is lost."""
    try:
        return Ended(task, runner.do(do, task), None, tries)
    except Lost as error:
        if tries == TRIES:
            return Ended(task, None, str(error), tries)
    return attempt(runner, do, task, tries + 1)


def fleet_of(jobs: int | None, dask: str | None, limit: float) -> Fleet:
    """Where tasks are done.

    Args:
        jobs: Tasks at a time on this machine; None for as many as it has cores.
        dask: The address of a Dask scheduler, or None for this machine.
        limit: Seconds that one task may take.

    Raises:
        UsageError: If both are given, or nothing answers at the address.
    """
    if dask is None:
        return Machine(jobs or os.cpu_count() or 1)
    if jobs is not None:
        raise UsageError(
            "--jobs is for this machine: a Dask cluster has as many tasks at a time as its workers "
            "have threads"
        )
    from theodolite.cluster import Cluster

    return Cluster(dask, limit)
