"""Where commands print, and how wide."""

from __future__ import annotations

import os
import sys
import textwrap

from rich.console import Console
from rich.text import Text

WIDTH = 100
"""Columns where nothing says how many there are: a file, a pipe."""

_INDENT = "  "


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - called where a BrokenPipeError is handled: it is the command's


def console(*, stderr: bool = False) -> Console:
    """A console as wide as COLUMNS says, else as the terminal is, else `WIDTH`."""
    stream = sys.stderr if stderr else sys.stdout
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        width: int | None = int(columns)
    else:
        width = None if stream is not None and stream.isatty() else WIDTH
    return _Console(stderr=stderr, width=width, highlight=False)


def print_entry(printed: Console, name: str, text: str, *below: str) -> None:
    """Print a name with a text behind it, and what belongs to it on indented lines below.

    Lines are broken between words alone: a word that is longer than a line stays whole.
    """
    first, *others = _wrapped(f"{name}  {text}", printed.width, "")
    printed.print(Text.assemble((first[: len(name)], "bold"), first[len(name) :]), soft_wrap=True)
    others += [line for part in below for line in _wrapped(part, printed.width, _INDENT)]
    for line in others:
        printed.print(Text(line), soft_wrap=True)


def print_heading(printed: Console, text: str) -> None:
    """Print a heading behind an empty line."""
    printed.print()
    printed.print(Text(text, "bold"), soft_wrap=True)


def print_text(printed: Console, text: str) -> None:
    """Print a paragraph, indented; lines are broken between words alone."""
    for line in _wrapped(text, printed.width, _INDENT):
        printed.print(Text(line), soft_wrap=True)


def print_code(printed: Console, code: str) -> None:
    """Print lines of code as they are, indented twice."""
    for line in code.splitlines():
        printed.print(Text(f"{2 * _INDENT}{line}", "cyan"), soft_wrap=True)


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=_INDENT + indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
