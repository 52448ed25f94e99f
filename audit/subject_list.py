"""Many subjects as a person names them: words, patterns, and the lines of a list."""

from __future__ import annotations

import argparse
import glob
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.arguments import Parser
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.loading.folder import SUFFIXES
from theodolite.fixtures.loading.paths import is_file, is_folder
from theodolite.outputs import STANDARD_OUTPUT
from theodolite.subject_arguments import add_building_arguments, subject_of

_PATTERN = set("*?[")


@dataclass(frozen=True)
class Listed:
    """One subject of many.

    Attributes:
        words: What names it, and what only it is built with, as a command line.
        named: The subject and how to build it; see `theodolite.subject_arguments.subject_of`.
    """

    words: str
    named: dict[str, Any]


def subjects_in(
    words: Sequence[str], lists: Sequence[str], given: argparse.Namespace
) -> tuple[list[Listed], list[str]]:
    """The subjects that words and lists name, each once, in order.

    Args:
        words: Names of subjects, or patterns of files.
        lists: Files with a subject a line, ``-`` for standard input. A line may go on with options
            for building its subject (``--set``, ``--declare``, ``--weights`` ...); ``#`` begins a
            comment.
        given: What all of them are built with.

    Returns:
        The subjects, and a sentence for each that was named more than once.

    Raises:
        UsageError: If a pattern meets no file, a list cannot be read, or a line of it means
            nothing.
    """
    found = [_listed(name, [], given, "") for word in words for name in _matching(word, "SUBJECT")]
    for name in lists:
        for number, line in _lines(name):
            where = f"{name}, line {number}"
            place, *options = _split(line, where)
            found += [_listed(each, options, given, where) for each in _matching(place, where)]
    times = Counter(each.words for each in found)
    notes = [
        f"{words} was named {count} times and is audited once"
        for words, count in times.items()
        if count > 1
    ]
    return list({each.words: each for each in found}.values()), notes


def _listed(name: str, options: list[str], given: argparse.Namespace, where: str) -> Listed:
    arguments = argparse.Namespace(**vars(given))
    if options:
        parser = Parser(prog="theodolite survey", add_help=False)
        add_building_arguments(parser)
        parser.set_defaults(**vars(given))
        try:
            arguments, strange = parser.parse_known_args(options, argparse.Namespace())
            if strange:
                parser.refuse(strange)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
    arguments.subject = _normal(name)
    said = shlex.join([arguments.subject, *options]) if options else arguments.subject
    return Listed(said, subject_of(arguments))


def _normal(name: str) -> str:
    """A name with its path written in the shortest way."""
    place, colon, rest = name.rpartition(":")
    if place.endswith(SUFFIXES):
        return f"{os.path.normpath(place)}{colon}{rest}"
    return os.path.normpath(name) if name.endswith(SUFFIXES) or os.sep in name else name


def _matching(word: str, where: str) -> Iterator[str]:
    """The subjects that a word names: itself, or the files of a pattern."""
    if not word.strip():
        raise UsageError(f"{where}: a SUBJECT is empty: name one, as in my_gpt.py:GPT")
    place, colon, name = word.rpartition(":")
    if not place.endswith(SUFFIXES):
        place, colon, name = word, "", ""
    if not _PATTERN & set(place) or is_file(place) or is_folder(place):
        yield word
        return
    files = sorted(glob.glob(place, recursive=True))  # noqa: PTH207 - absolute patterns too
    if not files:
        raise UsageError(f"{where}: {word} meets no file: look at the pattern, or name a file")
    yield from (f"{file}{colon}{name}" for file in files)


def _lines(name: str) -> Iterator[tuple[int, str]]:
    """The lines of a list that name subjects, with their numbers."""
    try:
        text = sys.stdin.read() if name == STANDARD_OUTPUT else _text(Path(name))
    except UnicodeDecodeError as error:
        raise UsageError(f"--from {name} is not text in UTF-8 (at byte {error.start})") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"--from {name} cannot be read: {why}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8-sig")


def _split(line: str, where: str) -> list[str]:
    """The words of a line; a line without options is one name, blanks included."""
    if " --" not in line:
        return [line.partition(" #")[0].rstrip()]
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise UsageError(f"{where}: {error}: quote it as for a shell") from error
