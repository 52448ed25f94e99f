"""The causes of failures: what is wrong, what to do, and what may legitimately look so.

A judgement that can tell names a cause, and a diagnosis names a known fault; each of them is an
entry of `causes/*.toml`, or a form of one. Reading them needs no torch.

    [[cause]]
    name = "mask-after-softmax"     as judgements name it; `also`: other names of the same
    component = "softmax"
    says = "..."                    what is wrong, one plain sentence
    remedy = "..."                  what to do
    wrong, right                    the fault in a few lines of code, and the same lines mended
    alike = "..."                   what may legitimately look so, and how to declare it
    faults = "..."                  the known faults that are forms of it
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CAUSES = Path(__file__).parent / "causes"


@dataclass(frozen=True)
class Cause:
    """What may be wrong with a model.

    Attributes:
        name: As judgements name it, in words joined by hyphens.
        also: Other names that judgements give it.
        component: The part at fault.
        says: What is wrong, one sentence.
        remedy: What to do.
        wrong: The fault in a few lines of code.
        right: The same lines without it.
        alike: What may legitimately look so, and how to declare it.
        faults: Names of the known faults that are forms of it.
    """

    name: str
    also: tuple[str, ...]
    component: str
    says: str
    remedy: str
    wrong: str
    right: str
    alike: str
    faults: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What judgements call it."""
        return (self.name, *self.also)


@cache
def load_causes() -> tuple[Cause, ...]:
    """Every cause, in the order of the files."""
    return tuple(
        _cause(entry)
        for path in sorted(CAUSES.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["cause"]
    )


def cause_of(name: str) -> Cause | None:
    """The cause that a judgement or a diagnosis names; a known fault's is the one it is a form of.

    Args:
        name: A cause, or a known fault; where both are called so, the cause is meant.
    """
    return _by_name().get(name)


@cache
def _by_name() -> Mapping[str, Cause]:
    forms = {fault: cause for cause in load_causes() for fault in cause.faults}
    return forms | {name: cause for cause in load_causes() for name in cause.names}


def causes_of(names: Iterable[str]) -> tuple[Cause, ...]:
    """The causes of several names, each once, in the order of the names."""
    found = (cause_of(name) for name in names)
    return tuple(dict.fromkeys(cause for cause in found if cause is not None))


def _cause(entry: Mapping[str, str]) -> Cause:
    return Cause(
        name=entry["name"],
        also=tuple(entry.get("also", "").split()),
        component=entry["component"],
        says=entry["says"],
        remedy=entry["remedy"],
        wrong=entry["wrong"].rstrip(),
        right=entry["right"].rstrip(),
        alike=entry["alike"],
        faults=tuple(entry.get("faults", "").split()),
    )
