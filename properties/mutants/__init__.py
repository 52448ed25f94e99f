"""Known-good models with one known fault each: proof that the properties can see.

One module a chapter for faults of the reference; `portable` holds those that are written once for
several hosts. `load_mutants` gives them all, `hosts` the models, `pairs` what can be put into what.
"""

from theodolite.properties.mutants.host import Host
from theodolite.properties.mutants.patching import Patch
from theodolite.properties.mutants.registry import (
    Mutant,
    hosts,
    load_mutants,
    mutant,
    pairs,
    portable,
)

__all__ = ["Host", "Mutant", "Patch", "hosts", "load_mutants", "mutant", "pairs", "portable"]
