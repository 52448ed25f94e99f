"""Known-good models with one known fault each: proof that the checks can see.

One module a chapter; `places` has the seams that many hosts have, `hosts` the models;
`load_mutants` gives all faults, `pairs` what can be put into what.
"""

from theodolite.properties.mutants.patching import Patch
from theodolite.properties.mutants.registry import (
    Mutant,
    left_out,
    load_hosts,
    load_mutants,
    mutant,
    pairs,
)

__all__ = ["Mutant", "Patch", "left_out", "load_hosts", "load_mutants", "mutant", "pairs"]
