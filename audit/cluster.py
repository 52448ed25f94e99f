"""Tasks on a Dask cluster: its scheduler places them, and again when their workers are lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import uuid4

from theodolite.fixtures.errors import UsageError
from theodolite.fleet import TRIES, Ended, FleetLost, attempt
from theodolite.runner import Runner

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE = 60.0
"""Seconds that a Dask cluster may take to answer, and to have its first worker."""

_LATE = 120.0
"""Seconds beyond its own limit after which a task on a cluster is given to another worker."""

_ADDRESS = "give the address that `dask scheduler` prints, as tcp://host:8786"


class Cluster:
    """The workers of a Dask scheduler.

    Args:
        address: The scheduler's: "tcp://host:8786".
        limit: Seconds that a task takes at most, by its own account, each time that it is tried.

    Raises:
        UsageError: If Dask is not installed, or nothing answers there.
    """

    elsewhere = True

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
            FleetLost: If the scheduler is lost; what has ended until then has been yielded.
        """
        with _silent(), self._client() as client:
            yield from _Errand(client, do, tasks, TRIES * self._limit + _LATE).each()

    def _client(self) -> Client:
        try:
            from distributed import Client
        except ImportError:
            raise UsageError(
                "--dask needs dask[distributed]: pip install 'theodolite[fleet]'"
            ) from None
        if not re.search(r"\w:\d+$", self._address):
            raise UsageError(f"--dask {self._address} is no address: {_ADDRESS}")
        try:
            return Client(self._address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError, asyncio.TimeoutError) as error:
            raise UsageError(
                f"--dask {self._address}: no scheduler answers there ({error}); {_ADDRESS}"
            ) from error


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep Dask's log, tracebacks and all, off standard error: what is lost is said."""
    import distributed  # gives each of its loggers a level of its own

    names = [name for name in logging.root.manager.loggerDict if _is_within(name, distributed)]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _is_within(name: str, package: ModuleType) -> bool:
    return name.partition(".")[0] == package.__name__


class _Errand(Generic[T, R]):
    """The tasks of one call of `Cluster.each`.

    Dask gives up on a task when several workers were lost that had it, be it waiting behind one
    that ended them. Such a task is suspect, and is given once more when nothing else is left.
    """

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
        self._suspects: deque[int] = deque()
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
                        yield from self._taken(number, future)
                for number in self._late():
                    yield from self._again(number)
                if self._suspects and not self._futures:
                    self._give(self._suspects.popleft())
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

    def _taken(self, number: int, future: Future) -> Iterator[Ended[T, R]]:
        """The end of a task; nothing where it is to be tried again."""
        from distributed import KilledWorker

        if future.status in ("cancelled", "lost"):
            raise FleetLost(
                "the Dask scheduler was lost; what has ended is kept, and the same command goes on "
                "with the rest"
            )
        del self._futures[number]
        others = max(self._begun[number], self._given[number]) - 1
        if future.status == "finished":
            ended: Ended[None, R] = future.result()
            tries = ended.tries + others
            yield Ended(self._left.pop(number), ended.result, ended.lost, tries)
            return
        error = future.exception()
        if isinstance(error, KilledWorker):
            if self._given[number] < TRIES:  # it may have been another task of that worker
                self._since.pop(number, None)
                self._suspects.append(number)
                return
            says = "the Dask workers that it was given to were lost, when it was alone too"
        else:
            says = f"its Dask worker could not do it ({type(error).__name__}: {error})"
        yield Ended(self._left.pop(number), None, says, 1 + others)

    def _late(self) -> list[int]:
        now = time.monotonic()
        return [
            number for number in self._futures if now - self._since.get(number, now) > self._overdue
        ]

    def _again(self, number: int) -> Iterator[Ended[T, R]]:
        """Give a task that is overdue to another worker, or give it up."""
        self._futures.pop(number).cancel(force=True)
        self._since.pop(number)
        if self._given[number] < TRIES:
            self._give(number)
        else:
            says = f"its Dask workers gave no answer within {self._overdue:g} s"
            yield Ended(self._left.pop(number), None, says, self._given[number])


_idle: list[Runner] = []
_lock = threading.Lock()


def _there(do: Callable[[T], R], task: T, told: tuple[str, int]) -> Ended[None, R]:
    """Do a task on a Dask worker, in a process apart, after telling that it begins."""
    from distributed import get_worker

    get_worker().log_event(told[0], told[1])
    with _lock:
        runner = _idle.pop() if _idle else Runner()
    try:
        ended = attempt(runner, do, task)
    finally:
        with _lock:
            _idle.append(runner)
    return Ended(None, ended.result, ended.lost, ended.tries)
