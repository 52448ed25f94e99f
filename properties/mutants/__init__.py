"""The reference with one known fault each: proof that the properties can see.

One module a chapter; `load_mutants` gives them all.
"""

from theodolite.properties.mutants.registry import Mutant, Patch, load_mutants, mutant

__all__ = ["Mutant", "Patch", "load_mutants", "mutant"]
