"""The files that commands write: refused before the work begins if they cannot be written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.loading.paths import is_file

STANDARD_OUTPUT = "-"


def require_files(
    files: Mapping[str, str | Path | None], *, kept: tuple[Path, str] | None = None
) -> None:
    """Refuse files that cannot be written, or that two options name.

    Args:
        files: The option that names each, None for one that is not wanted; ``-`` is standard
            output.
        kept: A file that is read and must not be written, and what it is.

    Raises:
        UsageError: If one cannot be written; says why and what to give instead.
    """
    taken: dict[Path | str, str] = {}
    for option, name in files.items():
        if name is None:
            continue
        place = name if name == STANDARD_OUTPUT else _resolved(option, name)
        if place in taken:
            raise UsageError(
                f"{taken[place]} and {option} would both write {name}: give one another file"
            )
        taken[place] = option
        if isinstance(place, Path):
            if kept is not None and is_file(kept[0]) and place == kept[0].resolve():
                raise UsageError(f"{option} {name} is {kept[1]} itself: give another file")
            _require_file(f"{option} {name}", place)


def write_json(document: Mapping[str, Any], target: str) -> None:
    """Write `document` to the file `target`, or to standard output where it is ``-``."""
    write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", target)


def write_text(text: str, target: str | Path, *, mode: Literal["w", "a"] = "w") -> None:
    """Write `text` to the file `target`, or to standard output where it is ``-``.

    Args:
        text: The text.
        target: Where it goes.
        mode: "w" to write the file anew, "a" to write behind what it holds.

    Raises:
        UsageError: If it cannot be written.
    """
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    try:
        with Path(target).open(mode, encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from error


def _resolved(option: str, name: str | Path) -> Path:
    if not str(name):
        raise UsageError(f"{option} is empty: give a file to write to")
    try:
        return Path(name).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{option} {str(name)!r} is no path: {error}") from error


def _require_file(what: str, file: Path) -> None:
    try:
        if file.is_dir():
            raise UsageError(f"{what} is a folder: give a file to write to")
        if not file.parent.is_dir():
            raise UsageError(
                f"{what} cannot be written: give a file in a folder that exists, as {file.parent} "
                "does not"
            )
        if file.exists() and not file.is_file():  # a pipe, say: opening it would be heard
            if not os.access(file, os.W_OK):
                raise UsageError(f"{what} cannot be written: permission denied")
            return
        there = file.exists()
        with file.open("ab"):
            pass
        if not there:
            file.unlink()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{what} cannot be written: {why}; give another file") from error
