"""Mutants: the reference with one known fault, to prove that a property can see it.

    @mutant("no-scale", component="scale", breaks=("SCL-5",))
    def _(patch: Patch) -> None:
        \"\"\"Scores are not divided by the root of the head width.\"\"\"
        patch.replace(attention.scale, lambda width: 1.0)

A portable mutant is written once, for a seam that many hosts have (see `host.seams`):

    @portable("no-scale", seam="scale", component="scale", breaks=("SCL-5",))
    def _(original: Callable[[Tensor], float], query: Tensor) -> float:
        \"\"\"Scores are not divided by the root of the head width.\"\"\"
        return 1.0

The docstring is the fault in one sentence. The decorators' arguments are literals: the claims table
reads them from the source, without importing torch.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from theodolite.properties.mutants.patching import Patch

if TYPE_CHECKING:
    from theodolite.properties.mutants.host import Change, Host

__all__ = ["AUDITED", "Mutant", "Patch", "hosts", "load_mutants", "mutant", "pairs", "portable"]


@dataclass(frozen=True)
class Mutant:
    """One known fault.

    Attributes:
        name: Unique, in words joined by hyphens.
        component: The part that is at fault, one of the report's component names.
        claims: The claims it breaks: a property of each must fail.
        fault: The fault in one sentence.
        source: "own", or the public thread that reports such a fault.
        apply: Makes the fault in the reference, given a `Patch`.
        equivalent: None, or why this change is no fault: then every property must still pass.
        chapter: The name of the module that defines it ("attention").
        seam: Where a portable mutant stands; None for one that is the reference's alone.
        needs: What a host must have for it to matter (see `host.Host.features`).
        change: What stands in the seam of a portable mutant.
    """

    name: str
    component: str
    claims: tuple[str, ...]
    fault: str
    source: str
    apply: Callable[[Patch], None]
    equivalent: str | None
    chapter: str
    seam: str | None = None
    needs: tuple[str, ...] = ()
    change: Change | None = None

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts that it can be put into and that can be had here."""
        return tuple(host for host in hosts() if self._fits(host))

    def _fits(self, host: Host) -> bool:
        if self.seam is None:
            return host.name == "reference"
        return self.seam in host.seams and host.features.issuperset(self.needs)

    @contextmanager
    def applied(self, host: Host | None = None) -> Iterator[None]:
        """Hold the fault in place for the length of a with block.

        Args:
            host: The host that is changed; None for the reference.

        Raises:
            LookupError: If it cannot be put into that host.
        """
        if host is not None and not self._fits(host):
            raise LookupError(f"{self.name} cannot be put into {host.name}: see Mutant.hosts")
        patch = Patch()
        try:
            if host is None or self.seam is None or self.change is None:
                self.apply(patch)
            else:
                host.wrap(self.seam, self.change, patch)
            yield
        finally:
            patch.undo()


_registered: dict[str, Mutant] = {}


def mutant(
    name: str,
    *,
    component: str,
    breaks: tuple[str, ...] = (),
    source: str = "own",
    equivalent: str | None = None,
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register the decorated function as the mutant `name`.

    Args:
        name: Unique, in words joined by hyphens.
        component: The part at fault.
        breaks: The claims whose properties must each catch it; those it touches besides are not
            named.
        source: "own", or the public thread that reports such a fault ("owner/repository#1").
        equivalent: Why the change is no fault; then `breaks` names the claims that must still hold.

    Raises:
        ValueError: If the name is taken, the fault is not described, or no claim is named.
    """

    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        _keep(name, component, breaks, source, equivalent, apply, apply)
        return apply

    return register


def portable(
    name: str,
    *,
    seam: str,
    component: str,
    breaks: tuple[str, ...] = (),
    source: str = "own",
    needs: tuple[str, ...] = (),
    equivalent: str | None = None,
) -> Callable[[Change], Change]:
    """Register the decorated function as a mutant of every host that has the seam.

    Args:
        name: Unique, in words joined by hyphens.
        seam: Where the function stands; `host.seams` says how it is called there.
        component: The part at fault.
        breaks: The claims that it breaks.
        source: "own", or the public thread that reports such a fault ("owner/repository#1").
        needs: Features without which the change does nothing, or is no fault.
        equivalent: Why the change is no fault; then `breaks` names the claims that must still hold.

    Raises:
        ValueError: If the name is taken, the fault is not described, or no claim is named.
    """

    def register(change: Change) -> Change:
        def apply(patch: Patch) -> None:
            from theodolite.properties.mutants.host import REFERENCE

            REFERENCE.wrap(seam, change, patch)

        _keep(name, component, breaks, source, equivalent, apply, change, seam, needs)
        return change

    return register


def _keep(
    name: str,
    component: str,
    breaks: tuple[str, ...],
    source: str,
    equivalent: str | None,
    apply: Callable[[Patch], None],
    written: Callable[..., object],
    seam: str | None = None,
    needs: tuple[str, ...] = (),
) -> None:
    if name in _registered:
        raise ValueError(f"two mutants are called {name!r}: give one another name")
    if not breaks:
        raise ValueError(f"mutant {name!r} names no claim: say in `breaks` which it breaks")
    fault = " ".join((written.__doc__ or "").split())
    if not fault:
        raise ValueError(f"mutant {name!r} has no docstring: describe the fault in a sentence")
    _registered[name] = Mutant(
        name=name,
        component=component,
        claims=breaks,
        fault=fault,
        source=source,
        apply=apply,
        equivalent=equivalent,
        chapter=written.__module__.rpartition(".")[2],
        seam=seam,
        needs=needs,
        change=None if seam is None else written,
    )


def load_mutants() -> list[Mutant]:
    """Every mutant, in the order of chapters and names. Imports torch."""
    for name in ("theodolite.properties.mutants", "theodolite.properties.mutants.portable"):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    return sorted(_registered.values(), key=lambda each: (each.chapter, each.name))


def hosts() -> tuple[Host, ...]:
    """The known-good models that can be had here. Imports torch, and transformers if installed."""
    from theodolite.properties.mutants.host import available_hosts

    return available_hosts()


@cache
def pairs() -> tuple[tuple[Mutant, Host], ...]:
    """Every mutant with every host that an audit can show it in: see `AUDITED`."""
    return tuple(
        (mutant, host)
        for mutant in load_mutants()
        for host in mutant.hosts
        if mutant.seam is not None or mutant.chapter in AUDITED
    )


AUDITED = ("causality", "inside", "precision", "relations", "serving", "state")
"""Chapters of the reference's own mutants that change how a whole model behaves."""
