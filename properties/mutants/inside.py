"""Faults that show only inside a running model: outputs stay causal, finite and plausible."""

from __future__ import annotations

from theodolite.properties.mutants.gpt import with_blocks
from theodolite.properties.mutants.registry import Patch, mutant


@mutant("second-block-runs-first", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Blocks run from the last to the first."""
    with_blocks(patch, lambda blocks: blocks[::-1])
