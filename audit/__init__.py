"""Theodolite: point it at a Transformer and read off whether it is one."""

__version__ = "0.1.0"
