"""A family of transformers as its configuration has it, changed in this process alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.mutants.patching import Patch

if TYPE_CHECKING:
    from theodolite.properties.mutants.registry import Mutant


@dataclass(frozen=True)
class Library:
    """The family that a fault names, with whatever its configuration says; llama for no fault."""

    name: str = "library"

    def fits(self, mutant: Mutant) -> bool:
        """Whether the fault is one of a family."""
        return mutant.host == self.name

    def put(self, mutant: Mutant, patch: Patch) -> None:
        """Change the family until `patch` is undone."""
        if mutant.apply is not None:
            mutant.apply(patch)

    def subject(self, mutant: Mutant | None = None) -> Subject:
        """The model, built afresh from its configuration.

        Raises:
            SubjectError: If the fault keeps it from being built or called.
        """
        settings = {"model": "llama"} if mutant is None else dict(mutant.settings)
        return Subject.load(
            f"hf:{settings.pop('model')}",
            settings=settings,
            declarations=None if mutant is None else mutant.declare,
        )


LIBRARY = Library()
