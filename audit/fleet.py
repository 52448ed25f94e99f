"""Many tasks side by side, each done once: in processes of this machine, or on a Dask cluster.

A task runs in a process apart (`theodolite.runner`), here and on the cluster alike. One that is
lost with its process, or with its Dask worker, is tried again; one that is lost each time is told
as lost. Either way each task ends exactly once, and none ends the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from uuid import uuid4

from theodolite.fixtures.errors import SubjectError, UsageError
from theodolite.runner import Lost, Runner

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
R = TypeVar("R")

TRIES = 2
"""How often a task is tried whose process ends before it does."""

_PATIENCE = 60.0
"""Seconds that a Dask cluster may take to answer, and to have its first worker."""

_LATE = 120.0
"""Seconds beyond its own limit after which a task on a cluster is given to another worker."""


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
    """Where tasks are done."""

    def beside(self) -> int:
        """How many tasks run beside each other one on its machine."""

    def each(self, do: Callable[[T], R], tasks: Sequence[T]) -> Iterator[Ended[T, R]]:
        """Do every task; yield each as it ends. Closing the iterator ends what runs."""


class Machine:
    """This machine.

    Args:
        jobs: How many tasks at a time.
    """

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
                return _attempt(runner, do, task)
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


def _attempt(runner: Runner, do: Callable[[T], R], task: T, tries: int = 1) -> Ended[T, R]:
    try:
        return Ended(task, runner.do(do, task), None, tries)
    except Lost as error:
        if tries == TRIES:
            return Ended(task, None, str(error), tries)
    return _attempt(runner, do, task, tries + 1)


class Cluster:
    """A Dask cluster: its scheduler places tasks, and places them again when a worker is lost.

    Args:
        address: The scheduler's: "tcp://host:8786".
        limit: Seconds that a task takes at most, by its own account.

    Raises:
        UsageError: If Dask is not installed, or nothing answers there.
    """

    def __init__(self, address: str, limit: float) -> None:
        self._address = address
        self._limit = limit
        with self._client() as client:
            try:
                client.wait_for_workers(1, timeout=_PATIENCE)
            except (TimeoutError, asyncio.TimeoutError):
                raise UsageError(
                    f"--dask {address}: the cluster has no worker; start one: dask worker {address}"
                ) from None
            threads: Counter[str] = Counter()
            for worker, number in client.nthreads().items():
                threads[worker.rpartition(":")[0]] += number
        self._beside = max(threads.values()) - 1

    def beside(self) -> int:
        """As many as the fullest machine of the cluster has threads, less one."""
        return self._beside

    def each(self, do: Callable[[T], R], tasks: Sequence[T]) -> Iterator[Ended[T, R]]:
        """Do every task on some worker.

        Raises:
            SubjectError: If the scheduler is lost; what has ended until then has been yielded.
        """
        with self._client() as client:
            yield from _Errand(client, do, tasks, self._limit + _LATE).each()

    def _client(self) -> Client:
        try:
            from distributed import Client
        except ImportError:
            raise UsageError(
                "--dask needs dask[distributed]: pip install 'theodolite[fleet]'"
            ) from None
        try:
            return Client(self._address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError, asyncio.TimeoutError) as error:
            raise UsageError(
                f"--dask {self._address}: no scheduler answers there ({error}); give the address "
                "that `dask scheduler` prints, as tcp://host:8786"
            ) from error


def fleet_of(jobs: int | None, dask: str | None, limit: float) -> Fleet:
    """Where tasks are done.

    Args:
        jobs: Tasks at a time on this machine; None for as many as it has cores.
        dask: The address of a Dask scheduler, or None for this machine.
        limit: Seconds that one task may take.
    """
    return Machine(jobs or os.cpu_count() or 1) if dask is None else Cluster(dask, limit)


class _Errand(Generic[T, R]):
    """The tasks of one call of `Cluster.each`."""

    def __init__(
        self, client: Client, do: Callable[[T], R], tasks: Sequence[T], overdue: float
    ) -> None:
        self._client = client
        self._do = do
        self._overdue = overdue
        self._topic = f"theodolite-{uuid4().hex}"
        self._left = dict(enumerate(tasks))
        self._begun = dict.fromkeys(self._left, 0)
        self._given = dict.fromkeys(self._left, 0)
        self._since: dict[int, float] = {}
        self._futures: dict[int, Future] = {}
        self._ended: SimpleQueue[tuple[int, Future]] = SimpleQueue()

    def each(self) -> Iterator[Ended[T, R]]:
        self._client.subscribe_topic(self._topic, self._note)
        try:
            for number in self._left:
                self._give(number)
            while self._left:
                with contextlib.suppress(Empty):
                    number, future = self._ended.get(timeout=1.0)
                    if self._futures.get(number) is future:
                        yield self._taken(number, future)
                for number in self._late():
                    ended = self._again(number)
                    if ended is not None:
                        yield ended
        finally:
            with contextlib.suppress(Exception):  # the scheduler may be gone
                self._client.cancel(list(self._futures.values()), force=True)
                self._client.unsubscribe_topic(self._topic)

    def _give(self, number: int) -> None:
        self._given[number] += 1
        future = self._client.submit(
            _there,
            self._do,
            self._left[number],
            (self._topic, number),
            key=f"{self._topic}-{number}-{self._given[number]}",
            pure=False,
        )
        self._futures[number] = future
        future.add_done_callback(lambda done: self._ended.put((number, done)))

    def _note(self, event: tuple[float, int]) -> None:
        self._begun[event[1]] += 1
        self._since[event[1]] = time.monotonic()

    def _taken(self, number: int, future: Future) -> Ended[T, R]:
        """The end of a task."""
        from distributed import KilledWorker

        if future.status in ("cancelled", "lost"):
            raise SubjectError(
                "the Dask scheduler was lost; what has ended is kept, and the same command goes on "
                "with the rest"
            )
        task = self._left.pop(number)
        del self._futures[number]
        others = max(self._begun[number], self._given[number]) - 1
        if future.status == "finished":
            ended: Ended[T, R] = future.result()
            return replace(ended, task=task, tries=ended.tries + others)
        error = future.exception()
        if isinstance(error, KilledWorker):
            says = "each Dask worker that worked on it was lost; they may have been out of memory"
        else:
            says = f"its Dask worker could not do it ({type(error).__name__}: {error})"
        return Ended(task, None, says, 1 + others)

    def _late(self) -> list[int]:
        now = time.monotonic()
        return [
            number for number in self._left if now - self._since.get(number, now) > self._overdue
        ]

    def _again(self, number: int) -> Ended[T, R] | None:
        """Give a task that is overdue to another worker, or give it up."""
        future = self._futures.pop(number)
        future.cancel(force=True)
        self._since.pop(number)
        if self._given[number] < TRIES:
            self._give(number)
            return None
        says = f"its Dask workers gave no answer within {self._overdue:g} s"
        return Ended(self._left.pop(number), None, says, self._given[number])


_idle: list[Runner] = []
_lock = threading.Lock()


def _there(do: Callable[[T], R], task: T, told: tuple[str, int]) -> Ended[Any, R]:
    """Do a task on a Dask worker, in a process apart, after telling that it begins."""
    from distributed import get_worker

    get_worker().log_event(told[0], told[1])
    with _lock:
        runner = _idle.pop() if _idle else Runner()
    try:
        return replace(_attempt(runner, do, task), task=None)
    finally:
        with _lock:
            _idle.append(runner)
