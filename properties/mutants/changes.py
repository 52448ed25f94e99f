"""Changes of a text: a fault as lines that are replaced. Imports no torch.

In the folder `hosts/texts`, beside each model, stands what its faults change:

    === cache-ignored {"settings": {"config.flash": true}}
    -        if past is not None:
    +        if False:
                 k = torch.cat([past[0], k], dim=2)

A fault's name, then as JSON, where they are needed, `settings` to build the model with, `declare`
of it, `cause` that the audit is to find, `model` (another class of the file) and `often` (tried by
every run of the tests); then lines as a unified diff has them, hunks parted by `@@`. What is
replaced must stand in the text just once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "hosts" / "texts"


@dataclass(frozen=True)
class Change:
    """How a fault changes a text.

    Attributes:
        hunks: (old, new) pairs of whole lines.
        settings: What the model is built with.
        declare: What is declared of it.
        cause: The cause that an audit is to find, or None.
        model: The class of the file, or None for the host's own.
        often: Whether every run of the tests tries it.
    """

    hunks: tuple[tuple[str, str], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    declare: Mapping[str, Any] = field(default_factory=dict)
    cause: str | None = None
    model: str | None = None
    often: bool = False

    def applied_to(self, text: str) -> str:
        """The text with the fault in it.

        Raises:
            LookupError: If what is to be replaced does not stand in it just once.
        """
        for old, new in self.hunks:
            times = f"\n{text}".count(f"\n{old}")
            if times != 1:
                raise LookupError(f"stands there {times} times, where it should once:\n{old}")
            text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
        return text


def read_changes(path: Path) -> dict[str, Change]:
    """Fault's name → change, of a file as described above."""
    found = {}
    for part in re.split(r"(?m)^=== ", path.read_text(encoding="utf-8"))[1:]:
        heading, _, body = part.partition("\n")
        name, _, options = heading.partition(" ")
        hunks = tuple(_hunk(each) for each in body.split("@@\n") if each.strip())
        found[name] = Change(hunks, **json.loads(options or "{}"))
    return found


def _hunk(text: str) -> tuple[str, str]:
    lines = [line or " " for line in text.strip("\n").splitlines()]
    old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] != sign) for sign in "+-")
    return old, new
