"""What a project says in its pyproject.toml: how it is audited, and which failures it expects.

[tool.theodolite]
subject = "my_gpt.py:GPT"
declare = { longest = 1024 }
budget = "quick"

[tool.theodolite.expected-failures]
"vocabulary.range" = "ids are clamped on purpose"

Every option of ``theodolite audit`` has a key of its name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from theodolite.arguments import Listed
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.loading.paths import is_folder
from theodolite.fixtures.loading.settings import listing, near, write_settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_EXPECTED = "expected-failures"
_PATHS = ("FILE", "DIR")
_PAIRS = "KEY=VALUE"


@dataclass(frozen=True)
class ProjectSettings:
    """The table ``[tool.theodolite]`` of the nearest pyproject.toml.

    Attributes:
        options: Its keys, but for the expected failures.
        expected_failures: Check id → reason.
        file: Where it stands; None where no project says anything.
    """

    options: dict[str, Any] = field(default_factory=dict)
    expected_failures: dict[str, str] = field(default_factory=dict)
    file: Path | None = None


def project_settings(folder: Path) -> ProjectSettings:
    """Read the nearest pyproject.toml in `folder` or above it that has ``[tool.theodolite]``.

    Raises:
        UsageError: If the file cannot be read, or the table is none.
    """
    for parent in [folder, *folder.parents]:
        file = parent / "pyproject.toml"
        if file.is_file():
            tool = _document(file).get("tool", {})
            if isinstance(tool, dict) and "theodolite" in tool:
                return _read(tool["theodolite"], file)
    return ProjectSettings()


def project_defaults(
    project: ProjectSettings, options: Iterable[argparse.Action], known: Iterable[argparse.Action]
) -> dict[str, Any]:
    """What the project's settings are as defaults of a parser.

    Args:
        project: The settings.
        options: The arguments that take them.
        known: The arguments that have a key, whether this parser has them or not.

    Raises:
        UsageError: If a key is unknown or a value is not of its kind; names the file.
    """
    if project.file is None:
        return {}
    keys = [key_of(action) for action in known]
    for key in project.options:
        if key not in keys:
            raise UsageError(
                f"{project.file}: [tool.theodolite] has no key {key!r}."
                f"{near(key, [*keys, _EXPECTED])} There are {listing([*keys, _EXPECTED])}"
            )
    return {
        action.dest: _default(action, project.options[key_of(action)], project.file)
        for action in options
        if key_of(action) in project.options
    }


def key_of(action: argparse.Action) -> str:
    """The key in pyproject.toml: an option's long name without dashes, or an argument's name."""
    return max(action.option_strings, key=len, default=action.dest).lstrip("-").removeprefix("no-")


def _document(file: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not text in UTF-8 (at byte {error.start})") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{file} is not valid TOML: {error}") from error
    return document


def _read(table: Any, file: Path) -> ProjectSettings:
    if not isinstance(table, dict):
        raise UsageError(f"{file}: tool.theodolite must be a table, [tool.theodolite]")
    expected = table.get(_EXPECTED, {})
    if not isinstance(expected, dict):
        raise UsageError(f"{file}: {_EXPECTED} must be a table, from check ids to reasons")
    for check, reason in expected.items():
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(
                f'{file}: the expected failure {check!r} needs a reason: "{check}" = "why"'
            )
    options = {key: value for key, value in table.items() if key != _EXPECTED}
    return ProjectSettings(options, expected, file)


def _default(action: argparse.Action, value: Any, file: Path) -> Any:
    key = key_of(action)

    def kind(wanted: type | tuple[type, ...], says: str) -> None:
        flag = isinstance(value, bool) and wanted is not bool
        if flag or not isinstance(value, wanted):
            raise UsageError(f"{file}: {key} is {value!r}; it must be {says}")

    if action.metavar == _PAIRS:
        kind(dict, 'a table, as in { width = 64, "config.bias" = false }')
        return write_settings(value)
    if action.nargs == 0:
        kind(bool, "true or false")
        return value
    if isinstance(action, Listed):
        kind((str, list), "a string or a list of strings")
        texts = [value] if isinstance(value, str) else value
        if not all(isinstance(text, str) for text in texts):
            raise UsageError(f"{file}: {key} is {value!r}; it must be a list of strings")
        return texts
    kind((str, int, float), "a string or a number")
    if action.dest == "subject":
        return _located_subject(value, file)
    if action.metavar in _PATHS and value != "-":
        return _located(str(value), file)
    return _typed(action.type, str(value), f"{file}: {key}")


def _typed(read: Callable[[str], Any] | Any, text: str, what: str) -> Any:
    try:
        return read(text) if callable(read) else text
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{what}: {error}") from None


def _located(path: str, file: Path) -> str:
    """A path that stands in `file`, as seen from the current folder."""
    return path if Path(path).is_absolute() else os.path.relpath(file.parent / path)


def _located_subject(value: Any, file: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{file}: subject is {value!r}; it must name one, as my_gpt.py:GPT does")
    kind, colon, rest = value.partition(":")
    if kind == "hf" and is_folder(file.parent / rest):
        return f"hf:{_located(rest, file)}"
    return f"{_located(kind, file)}{colon}{rest}" if kind.endswith(".py") else value
