"""What a check, a claim or a cause means: one source for ``theodolite explain`` and the pages.

An `Explanation` is put together from what is written once and elsewhere: the ledger, the docstrings
and decorators of checks, the catalogue of causes, the known faults and the texts that they change.
Nothing is imported or run, and only the files that mention a name are read.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from theodolite.properties.catalogue import Cause, cause_of, causes_of, load_causes
from theodolite.properties.ledger import Claim, load_ledger, papers_of
from theodolite.properties.mutants.changes import FOLDER, read_changes
from theodolite.properties.naming import causes_named, files_naming, reasons
from theodolite.properties.source import (
    MutantSource,
    PropertySource,
    find_mutants,
    find_properties,
    find_scripts,
    properties_in,
)

Kind = Literal["check", "claim", "cause", "known fault"]

_LONGEST = 8
"""Lines of a changed text that still are an example."""

_CAUSES = 3
"""Causes whose remedies and likenesses are told in full where a check or a claim has more."""


@dataclass(frozen=True)
class Formula:
    """A claim in words and as a formula ("" where it is none), and why it must hold."""

    id: str
    statement: str
    formula: str
    why: str


@dataclass(frozen=True)
class Named:
    """A name that can be explained, and a sentence on it."""

    name: str
    says: str


@dataclass(frozen=True)
class Example:
    """A fault in a few lines, and the same lines without it.

    Attributes:
        of: The cause or the known fault.
        wrong: The lines with the fault.
        right: The lines without it.
        text: The known-good model whose text they are of, or "".
    """

    of: str
    wrong: str
    right: str
    text: str = ""


@dataclass(frozen=True)
class Explanation:
    """What there is to know of a name.

    Attributes:
        kind: What it is the name of.
        name: The name.
        component: The part that it is about, "" for a claim.
        says: It in a sentence.
        claims: The claims that it is about.
        does: What a check does.
        fails: What it means when it fails: the causes that it may have.
        examples: Faults in a few lines, with the right ones.
        remedies: What to do, for each cause.
        alike: For each cause: what may legitimately look so, and how to declare it.
        not_judged: Why a check may not apply.
        forms: Known faults that are forms of a cause.
        checks: The checks that judge a claim, or that may name a cause.
        tests: The properties of mathematics and of the reference that check a claim.
        caught: Known faults that a check must catch, or that break a claim.
        places: Files and lines where it is written.
        section: Of a claim: the article's section.
        papers: Where more stands.
    """

    kind: Kind
    name: str
    component: str
    says: str
    claims: tuple[Formula, ...] = ()
    does: str = ""
    fails: tuple[Named, ...] = ()
    examples: tuple[Example, ...] = ()
    remedies: tuple[Named, ...] = ()
    alike: tuple[Named, ...] = ()
    not_judged: tuple[str, ...] = ()
    forms: tuple[Named, ...] = ()
    checks: tuple[Named, ...] = ()
    tests: tuple[str, ...] = ()
    caught: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    section: str = ""
    papers: tuple[str, ...] = field(default=())


def explanation_of(name: str) -> Explanation | None:
    """The explanation of a check, claim, cause or known fault; None if nothing is called so."""
    claim = _ledger().get(name)
    if claim is not None:
        return _of_claim(claim)
    cause = cause_of(name)
    if cause is not None:
        of = _of_cause(cause)
        return of if name in cause.names else _of_form(of, name)
    tests = [each for each in find_properties(mentioning=f'"{name}"') if each.check == name]
    if tests:
        return _of_check(tests)
    fault = next((each for each in find_mutants(mentioning=f'"{name}"') if each.name == name), None)
    return None if fault is None else _of_fault(fault)


def explained() -> dict[Kind, list[str]]:
    """Every name that can be explained, by kind; known faults that are causes by name once."""
    causes = [name for cause in load_causes() for name in cause.names]
    checks = [each.check for each in find_properties() if each.check is not None]
    faults = [each.name for each in find_mutants() if each.name not in causes]
    return {
        "check": list(dict.fromkeys(checks)),
        "claim": list(_ledger()),
        "cause": causes,
        "known fault": faults,
    }


def _of_check(tests: Sequence[PropertySource]) -> Explanation:
    first, name = tests[0], tests[0].check or ""
    caught = [each for each in _faults(f"{name}") if name in each.caught_by]
    named = [cause for each in tests for cause in causes_named(each.place.file, _function_of(each))]
    causes = _ranked(named, caught, first.component)
    script = find_scripts().get(name)
    return Explanation(
        "check",
        name,
        first.component or "",
        first.says,
        claims=_formulas(dict.fromkeys(claim for each in tests for claim in each.claims)),
        does="\n\n".join(each.about for each in tests),
        fails=tuple(Named(cause.name, cause.says) for cause in causes),
        examples=_examples(causes[:1], [each.name for each in caught]),
        remedies=tuple(Named(cause.name, cause.remedy) for cause in causes[:_CAUSES]),
        alike=tuple(Named(cause.name, cause.alike) for cause in causes[:_CAUSES]),
        not_judged=tuple(
            dict.fromkeys(
                said for each in tests for said in reasons(each.place.file, _function_of(each))
            )
        ),
        caught=tuple(each.name for each in caught),
        places=(
            *(str(each.place) for each in tests),
            *([f"{script} (its script)"] if script is not None else []),
        ),
        papers=_papers(claim for each in tests for claim in each.claims),
    )


def _of_claim(claim: Claim) -> Explanation:
    found = find_properties(mentioning=f'"{claim.id}"')
    properties = [each for each in found if claim.id in each.claims]
    broken = [each for each in _faults(claim.id) if claim.id in each.claims]
    causes = _ranked((), broken)
    return Explanation(
        "claim",
        claim.id,
        "",
        claim.statement,
        claims=_formulas([claim.id]),
        fails=tuple(Named(cause.name, cause.says) for cause in causes),
        examples=_examples(causes[:1], [each.name for each in broken]),
        remedies=tuple(Named(cause.name, cause.remedy) for cause in causes[:_CAUSES]),
        alike=tuple(Named(cause.name, cause.alike) for cause in causes[:_CAUSES]),
        checks=_checks(each for each in properties if each.check is not None),
        tests=tuple(each.name for each in properties if each.check is None),
        caught=tuple(each.name for each in broken),
        section=claim.section,
        papers=_papers([claim.id]),
    )


def _of_cause(cause: Cause) -> Explanation:
    faults = [each for name in cause.faults for each in _faults(name) if each.name == name]
    catching = {check for each in faults for check in each.caught_by}
    files = files_naming([*cause.names, *catching])
    naming = [
        each
        for path in files
        for each in properties_in(path)
        if each.check is not None
        and (
            each.check in catching
            or set(cause.names) & set(causes_named(each.place.file, _function_of(each)))
        )
    ]
    ids = [claim for each in faults or naming for claim in each.claims]
    return Explanation(
        "cause",
        cause.name,
        cause.component,
        cause.says,
        claims=_formulas(id_ for id_, _ in Counter(ids).most_common(_CAUSES)),
        examples=_examples([cause], cause.faults),
        remedies=(Named(cause.name, cause.remedy),),
        alike=(Named(cause.name, cause.alike),),
        forms=tuple(Named(each.name, each.fault) for each in faults),
        checks=_checks(naming),
        papers=_papers(ids),
    )


def _of_form(cause: Explanation, name: str) -> Explanation:
    """The explanation of a known fault that is a form of a cause."""
    fault = next(each for each in _faults(name) if each.name == name)
    own = _example_in_a_text(name)
    return replace(
        cause,
        kind="known fault",
        name=name,
        component=fault.component or cause.component,
        says=fault.fault,
        claims=_formulas(fault.claims),
        fails=(Named(cause.name, cause.says),),
        examples=(own,) if own is not None else cause.examples[:1],
        forms=(),
        checks=tuple(each for each in cause.checks if each.name in fault.caught_by),
        papers=_papers(fault.claims),
    )


def _of_fault(fault: MutantSource) -> Explanation:
    """The explanation of a change of the reference that no audit names, or that is no fault."""
    return Explanation(
        "known fault",
        fault.name,
        fault.component,
        fault.fault,
        claims=_formulas(fault.claims),
        alike=(Named(fault.name, f"It is no fault: {fault.equivalent}."),)
        if fault.equivalent
        else (),
        papers=_papers(fault.claims),
    )


def _ranked(
    named: Sequence[str], caught: Sequence[MutantSource], component: str | None = None
) -> tuple[Cause, ...]:
    """The causes that are named, and those of known faults; the likeliest first.

    Those of the own component come first, then those that are named, then those of which the most
    known faults are forms.
    """
    forms = Counter(cause.name for each in caught for cause in causes_of([each.name]))
    own = set(causes_of(named))

    def rank(cause: Cause) -> tuple[bool, bool, int, int]:
        strange = component is not None and cause.component != component
        return strange, cause not in own, -forms[cause.name], -len(cause.faults)

    return tuple(sorted(causes_of([*named, *(each.name for each in caught)]), key=rank))


def _examples(causes: Sequence[Cause], faults: Iterable[str]) -> tuple[Example, ...]:
    """The fault of each cause in a few lines, and one as it stands in the text of a model."""
    told = [Example(cause.name, cause.wrong, cause.right) for cause in causes]
    forms = {fault for cause in causes for fault in cause.faults}
    real = (_example_in_a_text(fault) for fault in faults if fault in forms)
    return (*told, *[each for each in real if each is not None][:1])


def _example_in_a_text(fault: str) -> Example | None:
    """What a fault changes in the text of a known-good model, where that is a few lines."""
    for path in sorted(FOLDER.glob("*.faults")):
        if f"=== {fault}" not in path.read_text(encoding="utf-8"):
            continue
        change = read_changes(path).get(fault)
        if change is not None and len(change.hunks) == 1:
            old, new = (textwrap.dedent(part).rstrip() for part in change.hunks[0])
            if 0 < max(len(part.splitlines()) for part in (old, new)) <= _LONGEST and old and new:
                return Example(fault, new, old, path.stem)
    return None


def _faults(mentioning: str) -> list[MutantSource]:
    return [each for each in find_mutants(mentioning=mentioning) if each.equivalent is None]


def _checks(properties: Iterable[PropertySource]) -> tuple[Named, ...]:
    says = {each.check: each.says for each in properties if each.check is not None}
    return tuple(Named(name, said) for name, said in says.items())


def _function_of(each: PropertySource) -> str:
    return each.name.rpartition("::")[2]


def _formulas(ids: Iterable[str]) -> tuple[Formula, ...]:
    claims = [_ledger()[id_] for id_ in dict.fromkeys(ids) if id_ in _ledger()]
    return tuple(Formula(each.id, each.statement, each.formula, each.why) for each in claims)


def _papers(ids: Iterable[str]) -> tuple[str, ...]:
    chapters = dict.fromkeys(id_.partition("-")[0] for id_ in ids)
    return tuple(dict.fromkeys(paper for chapter in chapters for paper in papers_of(chapter)))


@cache
def _ledger() -> dict[str, Claim]:
    return {claim.id: claim for claim in load_ledger()}


@dataclass(frozen=True)
class Section:
    """A part of an explanation as it is shown.

    Attributes:
        title: What it is about.
        texts: Paragraphs.
        code: Lines of code, or "".
        names: Names that can be explained in turn, each with a sentence or "".
    """

    title: str
    texts: tuple[str, ...] = ()
    code: str = ""
    names: tuple[Named, ...] = ()


def sections(explanation: Explanation, *, linked: bool = False) -> Iterator[Section]:
    """An explanation in the order in which it is read, on a terminal and on a page.

    Args:
        explanation: What is shown.
        linked: Whether claims have a page of their own that stands beside.
    """
    it = explanation
    of_a_cause, claims = it.kind in ("cause", "known fault"), list(_of_the_claims(it))
    if linked:
        named = tuple(Named(claim.id, claim.statement) for claim in it.claims)
        claims = [Section("Claims", names=named)]
    article = (f"The article: {it.section}",) if it.section else ()
    parts = [
        *(claims if it.kind == "claim" else ()),
        Section("What it does", tuple(it.does.split("\n\n")) if it.does else ()),
        Section("A form of" if of_a_cause else "What it means when it fails", names=it.fails),
        *(part for example in it.examples for part in _of_the_example(example)),
        _told("What to do", it.remedies, singly=of_a_cause),
        _told("What may legitimately differ", it.alike, singly=of_a_cause),
        Section("Not judged where", it.not_judged),
        *(claims if it.kind != "claim" else ()),
        Section("Known forms", names=it.forms),
        Section("Checks that see it" if of_a_cause else "Checks", names=it.checks),
        Section("Properties of mathematics and of the reference", it.tests),
        Section(
            "Proved by the known faults" if it.kind == "check" else "Broken by the known faults",
            names=tuple(Named(name, "") for name in it.caught),
        ),
        Section("Read more", () if linked else (*article, *it.papers)),
    ]
    return (part for part in parts if part.texts or part.code or part.names)


def _told(title: str, said: tuple[Named, ...], *, singly: bool) -> Section:
    """Sentences, each with the cause that it is about, where that is not the subject itself."""
    if singly:
        return Section(title, tuple(each.says for each in said))
    return Section(title, names=said)


def _of_the_example(example: Example) -> Iterator[Section]:
    where = f", in the text of {example.text}" if example.text else ""
    yield Section(f"Wrong ({example.of}{where})", code=example.wrong)
    yield Section("Right", code=example.right)


def _of_the_claims(explanation: Explanation) -> Iterator[Section]:
    for claim in explanation.claims:
        if claim.id == explanation.name:
            if claim.formula:
                yield Section("As a formula", code=claim.formula)
            yield Section("Why it must hold", (claim.why,))
        else:
            yield Section(f"Claim {claim.id}", (claim.statement, claim.why), claim.formula)
