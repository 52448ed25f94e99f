"""A relation: the body of a script, and the cases to try it with, the smallest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from string import Template

from theodolite.reproduce.bounds import BOUNDS
from theodolite.reproduce.scene import Scene

Cases = Callable[[Scene], Iterable[Mapping[str, object]]]
"""Values for the names that stand after a $ in a body; none where the relation does not apply."""

INSIDE = ("sharpened", "as given")
"""Views for what is looked at inside: sharp attention first."""


@dataclass(frozen=True)
class Relation:
    """One way to show one kind of fault.

    Attributes:
        body: What follows the model in the script: it ends in an assertion that fails as long as
            the fault is there. It may use `model`, `logits(ids, **more)` and, after a $, a name
            of `theodolite.reproduce.bounds`. Where it sets `measured` and `bound`,
            cases that are far past the bound are preferred.
        cases: What to try it with.
        gradient: Whether it differentiates.
        imports: Modules that it needs besides torch.
        views: Where to show it; () for the view in which the check failed, then others.
        fresh: Whether it changes the model, so that every case needs a new one.
    """

    body: str
    cases: Cases
    gradient: bool = False
    imports: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    fresh: bool = False

    def text(self, case: Mapping[str, object]) -> str:
        """The body with a case put in."""
        return Template(self.body.strip()).substitute({**BOUNDS, **case})


def sequences(least: int = 1, **more: object) -> Cases:
    """Cases of one sequence each, as ``$ids``."""
    return lambda scene: ({"ids": [ids], **more} for ids in scene.sequences(least))


def once(**values: object) -> Cases:
    """One case."""
    return lambda _scene: [values]


def same(left: str, right: str, says: str, *, bound: str = "$RELATION", std: str = "right") -> str:
    """Lines that ask two tensors to agree to `bound` standard deviations."""
    return f"""left, right = {left}, {right}
measured, bound = (left - right).abs().max().item(), {bound} * {std}.std().item()
assert measured <= bound, f"{says}: {{measured:.3g}} > {{bound:.3g}}\""""
