"""A process that does one task after another: ``python -m theodolite.runner``.

What a task does to its process ends neither the one that asked nor the tasks behind it. The process
ends when the one that asks does.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from theodolite.job import LAST_WORDS
from theodolite.process_endings import ending_of
from theodolite.processes import end, end_group, start

T = TypeVar("T")
R = TypeVar("R")


class Lost(Exception):
    """A task came to nothing; the text says why, as a clause."""


class Runner:
    """A process of this machine that does tasks, one at a time; started when the first one comes.

    `do` may be called from one thread at a time, and `end` from any.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._over = False
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="theodolite-", ignore_cleanup_errors=True)

    def do(self, task: Callable[[T], R], argument: T) -> R:
        """``task(argument)``, done there. What ends the process costs this task alone.

        Args:
            task: A function of a module.
            argument: What can be pickled, as must be what the function returns.

        Raises:
            Lost: If the process ended, or the task raised something.
        """
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(pickle.dumps((task, argument)))
            process.stdin.flush()
            done, result = pickle.load(process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self._process = None
            end(process)
            says = ending_of(process.returncode, Path(self._folder.name), None).says
            raise Lost(f"the process that worked on it {says}") from None
        if not done:
            raise Lost(f"Theodolite failed, not the model: please report this.\n{result}")
        return cast("R", result)

    def end(self) -> None:
        """End the process, whatever it does; `do` raises `Lost` from then on."""
        with self._lock:
            self._over = True
        if self._process is not None:
            end(self._process)
        self._folder.cleanup()

    def _running(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._over:
                raise Lost("the work was ended")
            if self._process is None:
                self._process = self._started(Path(self._folder.name))
            return self._process

    @staticmethod
    def _started(folder: Path) -> subprocess.Popen[bytes]:
        with (folder / LAST_WORDS).open("wb") as last_words:
            return start(
                "theodolite.runner", folder=folder, stdout=subprocess.PIPE, stderr=last_words
            )


def main() -> None:
    """Do what standard input asks, and answer on standard output, until it ends."""
    tasks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)  # what a task reads and prints is none of the conversation
    os.dup2(nowhere, 1)
    asked: SimpleQueue[tuple[Callable[[Any], Any], Any]] = SimpleQueue()

    def listen() -> None:
        try:
            while True:
                asked.put(pickle.load(tasks))
        except EOFError:  # the one that asks has ended, or needs no more
            end_group()
        except BaseException:
            traceback.print_exc()
            end_group()

    threading.Thread(target=listen, daemon=True).start()
    while True:
        answers.write(_answer(*asked.get()))
        answers.flush()


def _answer(task: Callable[[Any], Any], argument: Any) -> bytes:
    try:
        return pickle.dumps((True, task(argument)))
    except Exception:
        return pickle.dumps((False, traceback.format_exc()))


if __name__ == "__main__":
    main()
    sys.exit()
