"""How a comparison looks on a terminal and in a notebook."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from theodolite.comparison import says_of

if TYPE_CHECKING:
    from theodolite.comparison import Comparison

_COLOURS = {"equal": "green", "parted": "red", "error": "yellow"}
_SHOWN = 6


def render(comparison: Comparison, console: Console, *, verbose: bool = False) -> None:
    """Print the verdict, the map of the weights, every parting, and how near the rest came."""
    heading = Text.assemble(
        (f"{comparison.verdict.upper()}  ", f"bold {_COLOURS[comparison.verdict]}"),
        f"{comparison.a}  and  {comparison.b}   {comparison.seconds:.1f} s",
    )
    console.print(heading)
    if comparison.error is not None:
        console.print(f"\n{escape(comparison.error)}.")
    if verbose:
        for note in comparison.notes:
            console.print(f"[dim]· {escape(note)}[/dim]")
    outcome = comparison.outcome
    if outcome is None:
        return
    _weights(comparison, console, verbose=verbose)
    for number, parting in enumerate(outcome.partings, start=1):
        console.print(
            f"\n[bold]{number}[/bold]  {escape(says_of(parting))}  [dim]({parting.component})[/dim]"
        )
        for side, source in (("A", parting.source_a), ("B", parting.source_b)):
            if source is not None:
                shown = source.to_dict()
                console.print(
                    Text(f"   {side}  {shown['file']}:{source.line}  in {source.function}"),
                    soft_wrap=True,
                )
                console.print(Text(f"      {source.line} │ {source.code}", "dim"), soft_wrap=True)
    for note in outcome.notes:
        console.print(f"[dim]· {escape(note)}[/dim]")
    if outcome.compared and not outcome.partings:
        _nearness(comparison, console)
    if verbose:
        _table(comparison, console)


def to_html(comparison: Comparison) -> str:
    """The same as HTML, for a notebook."""
    console = Console(record=True, width=100, file=io.StringIO())
    render(comparison, console)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def _weights(comparison: Comparison, console: Console, *, verbose: bool) -> None:
    outcome = comparison.outcome
    assert outcome is not None
    mapped = outcome.mapped
    ways = {"name": "by name", "role": "by what each is for", "file": "by the map"}[mapped.by]
    console.print(
        f"weights  {len(mapped.sources)} of {mapped.of} parameters of B found in A {ways}"
    )
    changed: dict[str, list[str]] = {}
    for path, source in mapped.sources.items():
        if source.how != "as it is":
            changed.setdefault(source.how, []).append(path)
    for how, paths in list(changed.items())[: None if verbose else _SHOWN]:
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        console.print(f"  {escape(paths[0])}{more}: {escape(how)}")
    for sentence in outcome.weights:
        console.print(f"  {escape(sentence)}.")
    if comparison.asked:
        console.print(
            "\nWhat these are in A could not be told. Complete the lines, save them as map.toml, "
            "and compare again with --map map.toml:\n"
        )
        for line in comparison.asked:
            console.print(Text(line), soft_wrap=True)


def _nearness(comparison: Comparison, console: Console) -> None:
    outcome = comparison.outcome
    assert outcome is not None
    console.print(f"compared  {len(outcome.compared)} places, from the embedding to the logits")
    exact = all(each.measured == 0.0 for each in outcome.compared)
    if exact:
        console.print("Every number is the same.")
        return
    worst = max(outcome.compared, key=lambda e: e.measured / e.at_most if e.at_most else 0.0)
    console.print(
        f"The nearest to its bound is the {worst.place}: {worst.measured:.2g}, where rounding "
        f"explains {worst.at_most:.2g}."
    )


def _table(comparison: Comparison, console: Console) -> None:
    outcome = comparison.outcome
    assert outcome is not None
    for each in outcome.compared:
        mark = "✓" if each.equal else "✗"
        console.print(
            f"{mark} {each.place!s:<42} {each.measured:>10.3g}  at most {each.at_most:.3g}"
        )
