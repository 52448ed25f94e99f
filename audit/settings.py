"""What a project says in its pyproject.toml about auditing: declarations and expected failures.

[tool.theodolite]
subject = "my_gpt.py:GPT"
declare = { longest = 1024 }

[tool.theodolite.expected-failures]
"vocabulary.range" = "ids are clamped on purpose"
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from theodolite.fixtures.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS = {"subject", "declare", "expected-failures"}


@dataclass(frozen=True)
class ProjectSettings:
    """The table ``[tool.theodolite]`` of the nearest pyproject.toml."""

    subject: str | None = None
    declare: dict[str, Any] = field(default_factory=dict)
    expected_failures: dict[str, str] = field(default_factory=dict)


def project_settings(folder: Path) -> ProjectSettings:
    """Read the nearest pyproject.toml in `folder` or above it that has ``[tool.theodolite]``.

    Raises:
        UsageError: If the file is not TOML or the table has a key that means nothing.
    """
    for parent in [folder, *folder.parents]:
        file = parent / "pyproject.toml"
        if not file.is_file():
            continue
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{file} is not valid TOML: {error}") from error
        if "theodolite" in table:
            return _read(table["theodolite"], file)
    return ProjectSettings()


def _read(table: dict[str, Any], file: Path) -> ProjectSettings:
    strange = sorted(set(table) - _KEYS)
    if strange:
        raise UsageError(
            f"{file}: [tool.theodolite] has no key {strange[0]!r}; there are "
            + ", ".join(sorted(_KEYS))
        )
    return ProjectSettings(
        subject=table.get("subject"),
        declare=dict(table.get("declare", {})),
        expected_failures=dict(table.get("expected-failures", {})),
    )
