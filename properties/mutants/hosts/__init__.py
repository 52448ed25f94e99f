"""Known-good models into which faults are put, and what can be changed in each."""

from __future__ import annotations

import importlib.util
from functools import cache

from theodolite.properties.mutants.hosts.by_hand import GROUPED, MIXTURE, NANO
from theodolite.properties.mutants.hosts.reference_host import REFERENCE
from theodolite.properties.mutants.hosts.seams import AnyHost, Change, Host, Parts
from theodolite.properties.mutants.hosts.text import LIBRARY_TEXTS, WRITTEN, LibraryText, TextHost

__all__ = [
    "REFERENCE",
    "AnyHost",
    "Change",
    "Host",
    "LibraryText",
    "Parts",
    "TextHost",
    "absent_hosts",
    "available_hosts",
]


def absent_hosts() -> str | None:
    """Which hosts cannot be had here and why, in a sentence; None if all can."""
    if importlib.util.find_spec("transformers") is not None:
        return None
    return "Models of transformers are left out: they need pip install 'theodolite[hf]'."


@cache
def available_hosts() -> tuple[AnyHost, ...]:
    """Every host that can be had here: those of transformers only where that is installed."""
    own: tuple[AnyHost, ...] = (REFERENCE, NANO, GROUPED, MIXTURE, *WRITTEN)
    if absent_hosts() is not None:
        return own
    from theodolite.properties.mutants.hosts.huggingface import huggingface_hosts
    from theodolite.properties.mutants.hosts.library import LIBRARY

    return (*own, *huggingface_hosts(), LIBRARY, *LIBRARY_TEXTS)
