"""A failure as a script of a few lines that needs no Theodolite.

A *construction* is source that builds the subject, a *scene* how it is called, a *relation* the
body of a script with the cases to try it with, the smallest first. Cases are tried by executing
the very body that is written, so a script that is written shows the fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from theodolite.fixtures.lazily import offering

if TYPE_CHECKING:
    from theodolite.properties.scripts.writing import write_scripts

__all__ = ["write_scripts"]

__getattr__ = offering(__name__, {"write_scripts": "writing"})
