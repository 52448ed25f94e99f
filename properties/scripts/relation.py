"""A relation: the body of a script, and the cases to try it with, the smallest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from string import Template

from theodolite.properties.scripts.bounds import BOUNDS
from theodolite.properties.scripts.scene import Scene

Case = Mapping[str, object]
"""Values for names that stand after a $ in a body."""

Cases = Callable[[Scene], Iterable[Case]]
"""What to try, the smallest first; nothing where the relation does not apply."""


@dataclass(frozen=True)
class Relation:
    """One way to show one kind of fault.

    Attributes:
        body: What follows the model in the script: it ends in an assertion that fails as long as
            the fault is there. It may use `model`, `logits(ids, **more)` and, after a $, a name
            of `theodolite.properties.scripts.bounds`. Where it sets `measured` and `bound`,
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

    def text(self, case: Case) -> str:
        """The body with a case put in."""
        return Template(self.body.strip()).substitute({**BOUNDS, **case})


def sequences(least: int = 1) -> Cases:
    """Cases of one sequence each, as ``$ids``."""
    return lambda scene: ({"ids": [ids]} for ids in scene.sequences(least))


def once(_scene: Scene) -> Iterable[Case]:
    """One case, with nothing to fill in."""
    return [{}]


def of_cause(*causes: str) -> Callable[[Cases], Cases]:
    """Cases only where the check found one of these causes."""
    return lambda cases: lambda scene: cases(scene) if scene.check.cause in causes else ()


def same(left: str, right: str, says: str, *, bound: str = "$RELATION") -> str:
    """Lines that ask two tensors to agree to `bound` standard deviations."""
    return f"""left, right = {left}, {right}
measured, bound = (left - right).abs().max().item(), {bound} * right.std().item()
assert measured <= bound, f"{says}: {{measured:.3g}} > {{bound:.3g}}\""""
