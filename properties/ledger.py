"""The claims ledger joined with the properties that check it and the mutants that prove them.

docs/claims.md is made of it (`tox -e docs`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

from theodolite.properties.source import (
    PROPERTIES,
    MutantSource,
    PropertySource,
    find_mutants,
    find_properties,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STATES = ("checked", "statistical", "not_demonstrated")

SCOPES = {
    "M": "mathematics",
    "C": "component",
    "S": "whole subject",
    "R": "the reference or its training",
}


@dataclass(frozen=True)
class Claim:
    """One statement of the ledger.

    Attributes:
        id: Stable, e.g. "ROPE-1".
        chapter: The id's first part.
        scope: Letters of `SCOPES`.
        section: The article's section in English, or "beyond the article".
        statement: What is claimed, in one line.
        formula: The same as a formula, or "".
        why: Why it must hold: what would go wrong in a model otherwise, in one or two sentences.
        figures: Numbers that the article prints for it.
        state: One of `STATES`.
        reason: Of a statistical claim its bound and the chance of a false alarm; of one that is
            not demonstrated, why not and what was tried; else empty.
    """

    id: str
    chapter: str
    scope: str
    section: str
    statement: str
    formula: str
    why: str
    figures: tuple[str, ...]
    state: str
    reason: str


def load_ledger() -> list[Claim]:
    """Every claim, in the ledger's order."""
    document = _document()
    return [_claim(entry, document["sections"]) for entry in document["claim"]]


def chapter_titles() -> dict[str, str]:
    """Chapter id → title, in the ledger's order."""
    titles: dict[str, str] = _document()["chapters"]
    return titles


def papers_of(chapter: str) -> list[str]:
    """Where more stands on what a chapter claims."""
    papers: list[str] = _document().get("papers", {}).get(chapter, [])
    return papers


def claims_table() -> dict[str, list[dict[str, Any]]]:
    """The ledger as ``theodolite claims --json`` gives it. Imports neither torch nor a property.

    Returns:
        ``{"claims": [{"id", "chapter", "statement", "why", "state", "reason", "properties",
        "mutants"}]}`` where properties are "test_file.py::test_name" and mutants are names. A
        mutant that is equivalent to correct code proves nothing and is left out.
    """
    properties, mutants = find_properties(), find_mutants()
    return {
        "claims": [
            {
                "id": each.id,
                "chapter": each.chapter,
                "statement": each.statement,
                "why": each.why,
                "state": each.state,
                "reason": each.reason,
                "properties": _properties_of(each, properties),
                "mutants": _mutants_of(each, mutants),
            }
            for each in load_ledger()
        ]
    }


def render_markdown() -> str:
    """docs/claims.md: the ledger, a table for each chapter."""
    properties, mutants = find_properties(), find_mutants()
    ledger = load_ledger()
    counts = {state: sum(each.state == state for each in ledger) for state in STATES}
    lines = [
        "# The claims ledger",
        "",
        "Generated: change `properties/ledger.toml`, then run `tox -e docs`.",
        "",
        f"{len(ledger)} claims: {counts['checked']} checked, {counts['statistical']} statistical, "
        f"{counts['not_demonstrated']} not demonstrated. "
        "Scope: " + ", ".join(f"{letter} {meaning}" for letter, meaning in SCOPES.items()) + ".",
    ]
    for chapter, title in chapter_titles().items():
        lines += [
            "",
            f"## {chapter}: {title}",
            "",
            "| id | scope | claim | checked by | proved by |",
        ]
        lines.append("|---|---|---|---|---|")
        for each in ledger:
            if each.chapter == chapter:
                cells = [
                    f'<a id="{each.id}"></a>{each.id}',
                    each.scope,
                    _prose(each),
                    _listed(_properties_of(each, properties)),
                    _listed(_mutants_of(each, mutants)),
                ]
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@cache
def _document() -> dict[str, Any]:
    text = (PROPERTIES / "ledger.toml").read_text(encoding="utf-8")
    document: dict[str, Any] = tomllib.loads(text)
    return document


def _claim(entry: dict[str, Any], sections: dict[str, str]) -> Claim:
    state = entry.get("state", "checked")
    reason = entry.get("reason", "")
    if state == "statistical":
        reason = f"{entry['bound']}; chance of a false alarm {entry['false_alarm']}"
    return Claim(
        id=entry["id"],
        chapter=entry["id"].partition("-")[0],
        scope=entry["scope"],
        section=sections[entry["section"]],
        statement=entry["statement"],
        formula=entry.get("formula", ""),
        why=entry["why"],
        figures=tuple(entry.get("figures", ())),
        state=state,
        reason=reason,
    )


def _properties_of(claim: Claim, properties: list[PropertySource]) -> list[str]:
    return [each.name for each in properties if claim.id in each.claims]


def _mutants_of(claim: Claim, mutants: list[MutantSource]) -> list[str]:
    return [each.name for each in mutants if claim.id in each.claims and not each.equivalent]


def _prose(claim: Claim) -> str:
    parts = [claim.statement, f"*Why:* {claim.why}"]
    if claim.formula:
        parts.insert(1, f"`{claim.formula}`")
    if claim.figures:
        parts.append(f"Printed: {'; '.join(claim.figures)}.")
    if claim.state != "checked":
        parts.append(f"*{claim.state.replace('_', ' ').capitalize()}*: {claim.reason}")
    if claim.section.startswith("beyond"):
        parts.append(f"({claim.section.capitalize()}.)")
    return "<br>".join(part.replace("|", "\\|") for part in parts)


def _listed(names: list[str]) -> str:
    return "<br>".join(f"`{name.rpartition('::')[2]}`" for name in names) or "—"
