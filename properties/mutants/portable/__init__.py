"""Mutants that are written once, at a seam, and put into every host that has it."""
