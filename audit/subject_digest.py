"""Whether the files that a subject is read from are as they were."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from theodolite.fixtures.loading.folder import SUFFIXES
from theodolite.fixtures.loading.paths import is_file, is_folder
from theodolite.fixtures.source.import_paths import folder_offering

_READ_WHOLE = 2**26
"""Bytes of a file up to which its content is digested; of larger ones, size and time of change."""


def digest_of(subject: str, weights: str | Path | None) -> str | None:
    """A digest of the files that a subject is read from; None where it is named by no file.

    These are its own file and what that imports from the folders above it, the files of a folder,
    and the weights.
    """
    files = [*_files_of(subject), *_weights(weights)]
    if not files:
        return None
    together = hashlib.sha256()
    for file in files:
        together.update(f"{file.name}\0{_content(file)}\0".encode())
    return together.hexdigest()


def _files_of(subject: str) -> list[Path]:
    name = subject.removeprefix("hf:")
    place = name.rpartition(":")[0] if not name.endswith(SUFFIXES) else name
    if place.endswith(SUFFIXES):
        return _with_imports(Path(place)) if is_file(place) else []
    if is_folder(name):
        return sorted(file for file in Path(name).rglob("*") if file.is_file())
    return []


def _weights(file: str | Path | None) -> Iterable[Path]:
    return [Path(file)] if file is not None and is_file(file) else []


def _with_imports(file: Path) -> list[Path]:
    """A file, and what it imports that lies in the folders above it, directly or not."""
    files: list[Path] = []
    left = [file.absolute()]
    while left:
        here = left.pop()
        if here not in files:
            files.append(here)
            left += _imports(here)
    return sorted(files)


def _imports(file: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(file.read_bytes()) if file.suffix == ".py" else ast.Module([], [])
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(file, 0, alias.name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield from _modules(file, node.level, f"{node.module or ''}.{alias.name}")


def _modules(file: Path, level: int, name: str) -> Iterator[Path]:
    """The files that an import of ``name`` in `file` runs, as far as they lie above it."""
    parts = [part for part in name.split(".") if part]
    folder = file.parents[level - 1] if 0 < level <= len(file.parents) else None
    if level == 0:
        folder = folder_offering(parts[0], file)
    for part in parts if folder is not None else ():
        assert folder is not None
        for found in (folder / f"{part}.py", folder / part / "__init__.py"):
            if found.is_file():
                yield found
        folder /= part


def _content(file: Path) -> str:
    try:
        state = file.stat()
        if state.st_size > _READ_WHOLE:
            return f"{state.st_size} {state.st_mtime_ns}"
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        return type(error).__name__
