"""The journal of an audit: its events as lines of JSON, each in the file as soon as it happens.

One process writes at a time, and each line is one write at the end of the file: what a process has
journalled is there whatever becomes of it, and a line that it did not finish is left out.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from theodolite.findings import Event


class Writer:
    """Writes events at the end of the journal `path`.

    A subject may close every file of its process, and its forked children may come back from a
    forward: the file is opened again where it was closed, and only this process writes.

    Args:
        path: The journal; a line at its end that was not finished is closed, to be left out.
        lasting: Whether each event is on the disk, beyond what the system buffers, when `write`
            returns.
    """

    def __init__(self, path: Path, *, lasting: bool = False) -> None:
        self._path = path
        self._lasting = lasting
        self._process = os.getpid()
        self._file = self._open()

    def write(self, event: Event) -> None:
        """Add one event."""
        if os.getpid() != self._process:
            return
        line = (json.dumps(dict(event), default=str) + "\n").encode("ascii")
        try:
            same = os.path.samestat(os.fstat(self._file), self._path.stat())
        except OSError:
            same = False
        if not same:
            self._file = self._open()
        os.write(self._file, line)
        if self._lasting:
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            os.close(self._file)

    def _open(self) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        if os.lseek(file, 0, os.SEEK_END):
            os.lseek(file, -1, os.SEEK_END)
            if os.read(file, 1) != b"\n":
                os.write(file, b"\n")
        return file


class Reader:
    """Reads the events that have come since it last read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def events(self) -> Iterator[Event]:
        """The new events, whole lines only."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                new = file.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)
