"""Faults: known-good models with one known fault each, to prove that a check can see it.

Each is registered once, with the claims it breaks, the checks that must catch it and the part that
they must name, and is put into every host that has a place for it:

    @mutant("weights-by-plain-sum", "ATT-2", component="softmax")
    def _(patch: Patch) -> None:                      # a change of the reference alone

    @scale("no-scale", "SCL-5", "inside.scale")
    def _(own: Scale) -> float:                       # a seam of many hosts: see `places`

    # a change of a host's text: see `hosts.text`
    source("cache-ignored", "GEN-4", "cache.steps", component="cache", says="...")

    # a sound host of which something false is said
    declared("soft-cap-declared", "STAB-3", "declared.soft_cap", declare={"soft_cap": 30.0}, ...)

    @library("cap-dropped", "STAB-3", "declared.soft_cap", model="gemma2", component="scale")
    def _(patch: Patch) -> None:                      # a change of one family of transformers

First come the fault's name, the claims and the checks. Arguments are literals: the claims table
reads them from the source, without importing torch. Lists of names are one string, separated by
spaces. Whatever its kind, a fault can also be put into a host whose text has a change by its name.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from theodolite.properties.mutants.patching import Patch

if TYPE_CHECKING:
    from theodolite.properties.mutants.hosts import AnyHost, Change

__all__ = ["Mutant", "Patch", "left_out", "load_hosts", "load_mutants", "mutant", "pairs"]


@dataclass(frozen=True)
class Mutant:
    """One known fault.

    Attributes:
        name: Unique, in words joined by hyphens.
        component: The part that is at fault, one of the report's component names.
        claims: The claims it breaks: a property of each must fail.
        fault: The fault in one sentence.
        caught_by: The checks that must catch it: one of them at least in each host, and each of
            them in some host. Of a change of the reference alone that no audit can see: none.
        source: "own", or the public thread that reports such a fault.
        equivalent: None, or why this change is no fault: then every property must still pass.
        chapter: The name of the module that defines it ("attention").
        seam: Where it stands: "reference", "source", "declared", "library", or one of `places`.
        needs: What a host must have for it to matter (see `hosts.Host.features`).
        change: What stands in the seam.
        apply: Makes the fault in the reference, or in a family of the library, given a `Patch`.
        host: The only host that it can be put into, if there is but one.
        settings: What the host is built with beside its own.
        declare: What is declared of the host beside its own.
        budget: The audit that can see it.
        also: Components to which a report may lay it instead.
        often: The hosts in which every run of the tests tries it.
    """

    name: str
    component: str
    claims: tuple[str, ...]
    fault: str
    caught_by: tuple[str, ...]
    source: str
    equivalent: str | None
    chapter: str
    seam: str
    needs: tuple[str, ...] = ()
    change: Change | None = None
    apply: Callable[[Patch], None] | None = None
    host: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    declare: Mapping[str, Any] = field(default_factory=dict)
    budget: str = "standard"
    also: tuple[str, ...] = ()
    often: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[AnyHost, ...]:
        """The hosts that it can be put into and that can be had here."""
        return tuple(host for host in load_hosts() if host.fits(self))

    @contextmanager
    def applied(self, host: AnyHost | None = None) -> Iterator[None]:
        """Hold the fault in place for the length of a with block.

        In a host whose text is changed nothing is held: `host.subject(mutant)` has the fault.

        Args:
            host: The host that is changed; None for the reference.

        Raises:
            LookupError: If it cannot be put into that host.
        """
        from theodolite.properties.mutants.hosts import REFERENCE

        host = REFERENCE if host is None else host
        if not host.fits(self):
            raise LookupError(f"{self.name} cannot be put into {host.name}: see Mutant.hosts")
        patch = Patch()
        try:
            host.put(self, patch)
            yield
        finally:
            patch.undo()


_registered: dict[str, Mutant] = {}


def mutant(
    name: str,
    breaks: str,
    caught_by: str = "",
    *,
    component: str,
    source: str = "own",
    equivalent: str | None = None,
    often: str = "",
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register the decorated function as a change of the reference alone.

    Args:
        name: Unique, in words joined by hyphens.
        breaks: The claims whose properties must each catch it; those it touches besides are not
            named.
        caught_by: The checks that must catch it in an audit; none where no audit can see it.
        component: The part at fault.
        source: "own", or the public thread that reports such a fault ("owner/repository#1").
        equivalent: Why the change is no fault; then `breaks` names the claims that must still hold.
        often: "reference", where every run of the tests audits it.

    Raises:
        ValueError: If the name is taken, the fault is not described, or no claim is named.
    """

    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        keep(
            name,
            apply.__doc__,
            apply.__module__,
            seam="reference",
            host="reference",
            component=component,
            breaks=breaks,
            caught_by=caught_by,
            source=source,
            equivalent=equivalent,
            often=often,
            apply=apply,
        )
        return apply

    return register


def source(
    name: str,
    breaks: str,
    caught_by: str = "",
    *,
    component: str,
    says: str,
    source: str = "own",
    equivalent: str | None = None,
    budget: str = "standard",
) -> None:
    """Register a fault that stands in the text of hosts alone (see `hosts.texts`).

    Args:
        name: Its name, there too.
        breaks: The claims that it breaks.
        caught_by: The checks that must catch it.
        component: The part at fault.
        says: The fault in one sentence.
        source: "own", or the public thread that reports such a fault ("owner/repository#1").
        equivalent: Why the change is no fault; then `breaks` names the claims that must still hold.
        budget: The audit that can see it.

    Raises:
        ValueError: As `mutant`.
    """
    keep(
        name,
        says,
        _caller(),
        seam="source",
        component=component,
        breaks=breaks,
        caught_by=caught_by,
        source=source,
        equivalent=equivalent,
        budget=budget,
    )


def declared(
    name: str,
    breaks: str,
    caught_by: str,
    *,
    component: str,
    says: str,
    declare: Mapping[str, Any],
    host: str = "reference",
) -> None:
    """Register a false declaration of a sound host.

    Args:
        name: Unique, in words joined by hyphens.
        breaks: The claims that it breaks.
        caught_by: The checks that must catch it.
        component: The part that is spoken of.
        says: What is declared, in one sentence.
        declare: What is declared, beside what the host itself declares.
        host: The host of which it is false.

    Raises:
        ValueError: As `mutant`.
    """
    keep(
        name,
        says,
        _caller(),
        seam="declared",
        component=component,
        breaks=breaks,
        caught_by=caught_by,
        declare=declare,
        host=host,
    )


def library(
    name: str,
    breaks: str,
    caught_by: str,
    *,
    model: str,
    component: str,
    settings: Mapping[str, Any] | None = None,
    source: str = "own",
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Register the decorated function as a change of one family of transformers.

    Args:
        name: Unique, in words joined by hyphens.
        breaks: The claims that it breaks.
        caught_by: The checks that must catch it.
        model: The library's name of the family.
        component: The part at fault.
        settings: What the model is built with.
        source: "own", or the public thread that reports such a fault ("owner/repository#1").

    Raises:
        ValueError: As `mutant`.
    """

    def register(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
        keep(
            name,
            apply.__doc__,
            apply.__module__,
            seam="library",
            host="library",
            component=component,
            breaks=breaks,
            caught_by=caught_by,
            source=source,
            apply=apply,
            settings={"model": model, **(settings or {})},
        )
        return apply

    return register


def keep(
    name: str,
    says: str | None,
    module: str,
    *,
    breaks: str,
    caught_by: str,
    needs: str = "",
    source: str = "own",
    equivalent: str | None = None,
    also: str = "",
    often: str = "",
    **rest: Any,
) -> None:
    """Register a fault: what all of its kinds have in common.

    Raises:
        ValueError: If the name is taken, the fault is not described, or no claim is named.
    """
    if name in _registered:
        raise ValueError(f"two mutants are called {name!r}: give one another name")
    if not breaks:
        raise ValueError(f"mutant {name!r} names no claim: say in `breaks` which it breaks")
    fault = " ".join((says or "").split())
    if not fault:
        raise ValueError(f"mutant {name!r} has no docstring: describe the fault in a sentence")
    _registered[name] = Mutant(
        name=name,
        claims=tuple(breaks.split()),
        fault=fault,
        caught_by=tuple(caught_by.split()),
        source=source,
        equivalent=equivalent,
        chapter=module.rpartition(".")[2],
        needs=tuple(needs.split()),
        also=tuple(also.split()),
        often=tuple(often.split()),
        **rest,
    )


def _caller() -> str:
    """The module that registers a fault without a function."""
    name: str = sys._getframe(2).f_globals["__name__"]
    return name


def load_mutants() -> list[Mutant]:
    """Every mutant, in the order of chapters and names. Imports torch."""
    package = importlib.import_module("theodolite.properties.mutants")
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    return sorted(_registered.values(), key=lambda each: (each.chapter, each.name))


def load_hosts() -> tuple[AnyHost, ...]:
    """The known-good models that can be had here. Imports torch, and transformers if installed."""
    from theodolite.properties.mutants.hosts import available_hosts

    return available_hosts()


@cache
def pairs() -> tuple[tuple[Mutant, AnyHost], ...]:
    """Every mutant with every host that an audit can show it in: the trials of the kill matrix."""
    return tuple(
        (mutant, host)
        for mutant in load_mutants()
        for host in mutant.hosts
        if mutant.caught_by or (mutant.equivalent and mutant.seam != "reference")
        if obstacle(mutant, host) is None
    )


def left_out() -> list[str]:
    """What is not tried here and why, in sentences: absent hosts, and texts that are others."""
    from theodolite.properties.mutants.hosts import absent_hosts

    places = ((mutant, host) for mutant in load_mutants() for host in mutant.hosts)
    found = [absent_hosts(), *(obstacle(mutant, host) for mutant, host in places)]
    return [sentence for sentence in found if sentence is not None]


def obstacle(mutant: Mutant, host: AnyHost) -> str | None:
    """Why the fault cannot be put into the host here though it fits: its text is another one."""
    from theodolite.properties.mutants.hosts import TextHost

    return host.obstacle(mutant.name) if isinstance(host, TextHost) else None
