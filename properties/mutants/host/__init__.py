"""Known-good models into which faults are put, and what can be changed in each."""

from __future__ import annotations

import importlib.util
from functools import cache

from theodolite.properties.mutants.host.by_hand import GROUPED, MIXTURE, NANO
from theodolite.properties.mutants.host.reference_host import REFERENCE
from theodolite.properties.mutants.host.seams import Change, Host, Parts

__all__ = ["REFERENCE", "Change", "Host", "Parts", "absent_hosts", "available_hosts"]


def absent_hosts() -> str | None:
    """Which hosts cannot be had here and why, in a sentence; None if all can."""
    if importlib.util.find_spec("transformers") is not None:
        return None
    return "llama, gpt2 and mixtral are left out: they need pip install 'theodolite[hf]'."


@cache
def available_hosts() -> tuple[Host, ...]:
    """Every host that can be had here: those of transformers only where that is installed."""
    own = (REFERENCE, NANO, GROUPED, MIXTURE)
    if absent_hosts() is not None:
        return own
    from theodolite.properties.mutants.host.huggingface import huggingface_hosts

    return (*own, *huggingface_hosts())
