"""A failure as a script of a few lines that needs no Theodolite.

A *construction* is source that builds the subject, a *scene* how it is called, a *relation* the
body of a script with the cases to try it with, the smallest first. Cases are tried by executing
the very body that is written, so a script that is written shows the fault.
"""

from theodolite.properties.scripts.writing import write_scripts

__all__ = ["write_scripts"]
