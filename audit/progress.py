"""What is seen of an audit while it runs: a bar on a terminal, else a line from time to time."""

from __future__ import annotations

import time

from rich.progress import BarColumn, Progress, TextColumn

from theodolite.console import console
from theodolite.findings import Findings

_EVERY = 30.0
"""Seconds between two lines where there is no terminal."""


class Display:
    """Shows on standard error how far an audit has come; a context manager.

    Args:
        subject: What is audited.
    """

    def __init__(self, subject: str) -> None:
        self._console = console(stderr=True)
        self._what = f"auditing {subject}"
        self._said = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task(self._what, total=None)

    def __enter__(self) -> Display:
        """Begin to show."""
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away again."""
        self._bar.stop()

    def show(self, found: Findings) -> None:
        """Show what has been done, and what is being done."""
        done, planned = len(found.done), len(found.items)
        if self._console.is_terminal:
            doing = f"{self._what}: {found.stage}" if found.stage else self._what
            self._bar.update(self._task, description=doing, completed=done, total=planned or None)
        elif time.monotonic() - self._said >= _EVERY:
            self._said = time.monotonic()
            at = f", at {found.items[found.running].check}" if found.running else ""
            so_far = f"{done} of {planned} done{at}" if planned else "loading it"
            self._console.print(f"{self._what}: {so_far}", markup=False, highlight=False)
