"""Pictures of a report as SVG, from the plain numbers of `theodolite.pictures` and its anatomy.

Lines and letters are drawn in the colour of the text around a picture, so that it can be read on
paper, on white and on black.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from theodolite.fixtures.judging.bounds import nearness
from theodolite.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#010203"
"""A colour that nothing else has; in the SVG it becomes that of the text around."""

_ACCENT, _WRONG = "#4477aa", "#cc3311"
"""Blue and red that remain apart for those who see no red (Paul Tol's schemes)."""

_MISSING = 1e-12


@dataclass(frozen=True)
class Plot:
    """A picture.

    Attributes:
        name: Short and stable: "influence".
        title: What it shows.
        says: What is to be seen on it, for those who read and for those who cannot see it.
        svg: The picture, an ``<svg>`` element.
    """

    name: str
    title: str
    says: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


def plots_of(report: Report) -> list[Plot]:
    """Every picture that can be drawn of a report, in the order in which to look at them."""
    return [plot for name in PLOTS if (plot := plot_of(report, name)) is not None]


def plot_of(report: Report, name: str) -> Plot | None:
    """One picture of a report; None where its numbers were not taken.

    Raises:
        KeyError: If no picture is called so.
    """
    title, draw = PLOTS[name]
    with _style():
        drawn = draw(report)
        if drawn is None:
            return None
        figure, says = drawn
        return Plot(name, title, says, _svg(figure, f"{title}. {says}", name))


Drawn = tuple["Figure", str] | None


def _influence(report: Report) -> Drawn:
    picture = report.pictures.get("influence")
    if picture is None:
        return None
    import numpy as np

    values = np.array(picture["values"])
    figure, axes = _square(values.shape)
    with np.errstate(divide="ignore"):
        shown = np.log10(np.maximum(values, _MISSING))
    low = max(float(shown.max()) - 8, float(shown[shown > np.log10(_MISSING)].min(initial=0.0)))
    image = axes.imshow(np.ma.masked_less_equal(shown, np.log10(_MISSING)), vmin=low)
    _bar(figure, image, axes, "log₁₀ of the change")
    past = np.tril(values, -1)  # rows are changed tokens: below the diagonal the logits are earlier
    wrong = np.argwhere(past > 0)
    _mark(axes, [(int(column), int(row)) for row, column in wrong])
    axes.set(xlabel="logits at position t", ylabel="changed token s")
    says = "Each row changes one token; colour shows how much the logits at each position move. "
    if len(wrong):
        says += (
            f"Below the diagonal all must be empty: {len(wrong)} marked cells are not, so logits "
            "depend on tokens that come later."
        )
    else:
        says += "Below the diagonal all is empty, as it must be: no token changes earlier logits."
    return figure, says


def _attention(report: Report) -> Drawn:
    picture = report.pictures.get("attention")
    if picture is None:
        return None
    import numpy as np

    weights = np.array(picture["weights"])
    figure, axes = _square(weights.shape)
    image = axes.imshow(np.ma.masked_equal(weights, 0.0), vmin=0.0)
    _bar(figure, image, axes, "weight")
    wrong = []
    if weights.shape[0] == weights.shape[1]:
        wrong = [(int(s), int(t)) for t, s in np.argwhere(np.triu(weights, 1) > 0)]
    _mark(axes, wrong)
    axes.set(xlabel="key", ylabel="query")
    place = f"Layer {picture['layer']}, head {picture['head']} ({picture['module']}). "
    if wrong:
        return figure, f"{place}{len(wrong)} marked cells give weight to keys behind the query."
    return figure, f"{place}No query gives weight to a key behind it."


def _spectrum(report: Report) -> Drawn:
    layers = [each for each in report.anatomy.get("attention", ()) if each.get("rotary")]
    if not layers:
        return None
    figure, axes = _figure()
    rotary, place = layers[0]["rotary"], layers[0]["module"]
    frequencies, base = rotary["frequencies"], rotary.get("base")
    axes.semilogy(range(len(frequencies)), frequencies, "o", color=_ACCENT, label="measured")
    if base:
        width = 2 * len(frequencies)
        formula = [base ** (-2 * pair / width) for pair in range(len(frequencies))]
        axes.semilogy(range(len(formula)), formula, "-", color=_INK, lw=1, label="base^(−2i/d)")
    axes.set(xlabel="pair of channels i", ylabel="angle for each position (rad)")
    axes.legend(frameon=False)
    says = f"Angles by which pairs of channels turn from one position to the next, in {place}."
    return figure, f"{says} The base read off them is {base:.6g}." if base else says


def _stream(report: Report) -> Drawn:
    picture = report.pictures.get("stream")
    if picture is None:
        return None
    figure, axes = _figure()
    axes.plot(picture["values"], "o-", color=_ACCENT)
    axes.set_xticks(range(len(picture["names"])), picture["names"], rotation=30, ha="right")
    axes.set(ylabel="root mean square", ylim=(0, None))
    first, last = picture["values"][0], picture["values"][-1]
    return figure, f"Size of the residual stream, {first:.3g} at first and {last:.3g} at the end."


def _start(report: Report) -> Drawn:
    picture = report.pictures.get("logits")
    if picture is None:
        return None
    figure, axes = _figure(height=1.6)
    names, values = ["loss", "ln V"], [picture["loss"], picture["chance"]]
    axes.barh(names[::-1], values[::-1], color=[_INK, _ACCENT], alpha=0.8)
    axes.set(xlabel="nats for each token")
    return figure, (
        f"On random tokens, as given, the loss is {picture['loss']:.3g}; guessing evenly costs "
        f"{picture['chance']:.3g}. The logits' standard deviation is {picture['spread']:.3g}."
    )


def _near(report: Report) -> Drawn:
    """How near each passed check came to its bound, by chapter."""
    found: dict[str, list[float]] = {}
    for check in report.checks:
        if check.outcome == "passed" and check.measured is not None:
            near = nearness(check.measured, check.at_most, check.at_least)
            found.setdefault(check.id.partition(".")[0], []).append(max(near, 1e-6))
    if not found:
        return None
    figure, axes = _figure(height=0.8 + 0.22 * len(found))
    for row, (_, values) in enumerate(sorted(found.items(), reverse=True)):
        axes.semilogx(values, [row] * len(values), "|", color=_ACCENT, ms=9, mew=2)
    axes.axvline(1.0, color=_WRONG, lw=1)
    axes.set_yticks(range(len(found)), sorted(found, reverse=True))
    axes.set(xlabel="share of the bound (the red line)", xlim=(0.7e-6, 2.0))
    return figure, "Each mark is a passed check: how much of its bound it used up."


PLOTS: Mapping[str, tuple[str, Callable[[Report], Drawn]]] = {
    "influence": ("Which token moves which logits", _influence),
    "attention": ("Attention of one head", _attention),
    "spectrum": ("Rotation against its formula", _spectrum),
    "stream": ("The residual stream through the layers", _stream),
    "start": ("The loss before training", _start),
    "near": ("How near the passed checks are to their bounds", _near),
}
"""Name → title, and what draws it."""


def _style() -> Any:
    from matplotlib import rc_context

    return rc_context(
        {
            "text.color": _INK,
            "axes.edgecolor": _INK,
            "axes.labelcolor": _INK,
            "xtick.color": _INK,
            "ytick.color": _INK,
            "svg.fonttype": "none",
            "svg.hashsalt": "theodolite",
            "font.size": 9,
            "font.family": "sans-serif",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "image.cmap": "viridis",
        }
    )


def _figure(*, width: float = 5.2, height: float = 2.6) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    return figure, axes


def _square(shape: Sequence[int]) -> tuple[Figure, Axes]:
    rows, columns = shape
    return _figure(width=5.2, height=max(1.5, min(4.6, 4.2 * rows / columns)))


def _bar(figure: Figure, image: Any, axes: Axes, label: str) -> None:
    figure.colorbar(image, ax=axes, shrink=0.8, label=label).outline.set_visible(False)


def _mark(axes: Axes, cells: Sequence[tuple[int, int]]) -> None:
    """Mark cells, given as (column, row), as wrong."""
    if cells:
        columns, rows = zip(*cells, strict=True)
        axes.plot(columns, rows, "x", color=_WRONG, ms=5, mew=1.5)


def _svg(figure: Figure, description: str, name: str) -> str:
    from xml.sax.saxutils import escape

    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r'\bid="', f'id="{name}-', text)  # ids are of the whole page
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace(
        "<svg", f'<svg role="img" aria-label="{escape(description, {chr(34): "&quot;"})}"', 1
    )
