"""Pages of the documentation on checks and causes, of the same source as ``theodolite explain``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

from theodolite.properties.catalogue import load_causes
from theodolite.properties.explanations import (
    Explanation,
    Section,
    explained,
    explanation_of,
    sections,
)

_part = attrgetter("component")

Link = Callable[[str], str]
"""Where a name is explained, as Markdown; the name alone where it has no page."""


def checks_page() -> str:
    """docs/checks.md: every check of an audit, by group."""
    names = explained()["check"]
    return _page(
        "Checks",
        "What each check of an audit does, what it means when it fails, and what to do. "
        "`theodolite explain NAME` prints the same.",
        {name: name.partition(".")[0] for name in names},
    )


def causes_page() -> str:
    """docs/causes.md: every cause, by the part at fault."""
    return _page(
        "Causes",
        "What may be wrong, with an example, its remedy, and what may legitimately look so. "
        "`theodolite explain NAME` prints the same.",
        {
            cause.name: cause.component
            for cause in sorted(load_causes(), key=attrgetter("component"))
        },
    )


def as_markdown(explanation: Explanation, link: Link, level: int = 3) -> str:
    """An explanation under a heading of that level, with links to what it names."""
    about = f" ({explanation.component})" if explanation.component else ""
    lines = [
        f'<a id="{explanation.name}"></a>',
        "",
        f"{'#' * level} {explanation.name}",
        "",
        f"{explanation.says}{about}",
    ]
    for section in sections(explanation, linked=True):
        lines += ["", f"**{section.title}**", "", *_body(section, link)]
    return "\n".join(lines) + "\n"


def _page(title: str, about: str, groups: dict[str, str]) -> str:
    parts = [f"# {title}\n", "Generated: run `tox -e docs`.\n", f"{about}\n"]
    link, last = _links(), ""
    for name, group in groups.items():
        if group != last:
            parts.append(f"## {group}\n")
            last = group
        explanation = explanation_of(name)
        assert explanation is not None, name
        parts.append(as_markdown(explanation, link))
    return "\n".join(parts)


def _links() -> Link:
    """The pages on which names are explained; known faults are told under their causes."""
    pages = {name: f"checks.md#{name}" for name in explained()["check"]}
    pages |= {name: f"claims.md#{name}" for name in explained()["claim"]}
    for cause in load_causes():
        pages |= dict.fromkeys((*cause.faults, *cause.names), f"causes.md#{cause.name}")
    return lambda name: f"[{name}]({pages[name]})" if name in pages else f"`{name}`"


def _body(section: Section, link: Link) -> Iterator[str]:
    yield from "\n\n".join(section.texts).splitlines()
    if section.code:
        yield from (*([""] if section.texts else []), "```python", section.code, "```")
    for each in section.names:
        yield f"- {link(each.name)}" + (f": {each.says}" if each.says else "")
