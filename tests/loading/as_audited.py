"""Loading as an audit does: what was built is tried, and built otherwise where it refuses ids."""

from functools import partial

from theodolite.fixtures.loading import loader
from theodolite.fixtures.subject.assembled_forward import refusal_of

load = partial(loader.load, refuses=refusal_of)
