"""Theodolite: point it at a Transformer and read off whether it is one.

import theodolite
report = theodolite.audit("my_gpt.py:GPT")      # or a live nn.Module
report.raise_for_failures()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from theodolite.fixtures.lazily import offering

if TYPE_CHECKING:
    from theodolite.comparison import Comparison, compare
    from theodolite.fixtures.anatomy.measure import Anatomy
    from theodolite.inspection import inspect
    from theodolite.report import Check, Report
    from theodolite.run import audit
    from theodolite.surveying import Survey, survey

__version__ = "0.1.0"
__all__ = [
    "Anatomy", "Check", "Comparison", "Report", "Survey", "audit", "compare", "inspect", "survey",
]  # fmt: skip

__getattr__ = offering(
    __name__,
    {
        "audit": "run",
        "compare": "comparison",
        "Comparison": "comparison",
        "inspect": "inspection",
        "Report": "report",
        "Check": "report",
        "survey": "surveying",
        "Survey": "surveying",
        "Anatomy": "fixtures.anatomy.measure",
    },
)
