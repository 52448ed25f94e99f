"""Faults that show only inside a running model: outputs stay causal, finite and plausible."""

from __future__ import annotations

from typing import Any

from theodolite.properties.mutants.registry import Patch, mutant
from theodolite.reference.model import GPT


@mutant("second-block-runs-first", component="residual", breaks=("GPT-1",))
def _(patch: Patch) -> None:
    """Blocks run from the last to the first."""
    original = GPT.forward

    def forward(self: GPT, *arguments: Any, **options: Any) -> Any:
        blocks = self.blocks
        self._modules["blocks"] = type(blocks)(reversed(list(blocks)))
        try:
            return original(self, *arguments, **options)
        finally:
            self._modules["blocks"] = blocks

    patch.method(GPT, "forward", forward)
