"""Theodolite: point it at a Transformer and read off whether it is one.

import theodolite
report = theodolite.audit("my_gpt.py:GPT")      # or a live nn.Module
report.raise_for_failures()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from theodolite.fixtures.anatomy.measure import Anatomy
    from theodolite.inspection import inspect
    from theodolite.report import Check, Report
    from theodolite.run import audit

__version__ = "0.1.0"
__all__ = ["Anatomy", "Check", "Report", "audit", "inspect"]

_HOMES = {
    "audit": "run",
    "inspect": "inspection",
    "Report": "report",
    "Check": "report",
    "Anatomy": "fixtures.anatomy",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: loading the package must stay light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'theodolite' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"theodolite.{_HOMES[name]}"), name)
