"""How an anatomy looks on a terminal and in a notebook."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from theodolite.fixtures.anatomy.advice import advice_on
from theodolite.fixtures.anatomy.attention import AttentionAnatomy
from theodolite.fixtures.anatomy.feed_forward_kinds import FeedForwardAnatomy
from theodolite.fixtures.anatomy.measure import Anatomy
from theodolite.fixtures.anatomy.rotation import Rotary

_PAIRINGS = {"half": "halves", "interleaved": "neighbours"}
_PLACEMENTS = {
    "pre": "before each branch",
    "post": "after each addition",
    "sandwich": "before and after each branch",
    "output": "after each branch, before it is added",
    "none": "nowhere",
}


def render(anatomy: Anatomy, console: Console) -> None:
    """Print the anatomy as a table, then what is unusual, then what could not be read."""
    table = Table(title=f"anatomy of {anatomy.subject}", title_justify="left", show_header=False)
    table.add_column("part", style="bold")
    table.add_column("measured", overflow="fold")
    for name, value in rows(anatomy):
        table.add_row(name, escape(value))
    console.print(table)
    for sentence in advice_on(anatomy):
        console.print(f"[yellow]unusual:[/yellow] {escape(sentence)}")
    for name, reason in _unread(anatomy):
        console.print(f"[dim]not read: {escape(name)}: {escape(reason)}[/dim]")


def to_html(anatomy: Anatomy) -> str:
    """The same as HTML, for a notebook."""
    console = Console(record=True, width=100, file=io.StringIO())
    render(anatomy, console)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def rows(anatomy: Anatomy) -> Iterator[tuple[str, str]]:
    """Name and value of each line of the table."""
    parameters = anatomy.parameters
    yield "parameters", f"{parameters.total:,} ({anatomy.dtype})"
    held = ", ".join(
        f"{part.replace('_', ' ')} {count:,}{_against(count, parameters.predicted.get(part))}"
        for part, count in parameters.counted.items()
        if count
    )
    yield "of which", held
    yield "width", f"{anatomy.width or 'not read'}, vocabulary {anatomy.vocabulary:,}"
    yield (
        "positions",
        (anatomy.positions or "not read")
        + (
            ""
            if anatomy.positions != "rotary"
            else ": " + _alike(list(map(_turns, anatomy.attention)))
        ),
    )
    yield "layers", str(anatomy.layers)
    if anatomy.attention:
        yield "attention", _alike([_attention(layer) for layer in anatomy.attention])
        yield "scale", _alike([_scale(layer) for layer in anatomy.attention])
        yield "sees", _alike([_sight(layer) for layer in anatomy.attention])
    if anatomy.feed_forward:
        yield "feed-forward", _alike([_network(part) for part in anatomy.feed_forward])
    yield "norm", _norm(anatomy)
    yield "biases", _biases(anatomy)
    tied = {True: "one tensor", False: "two tensors", None: "not read"}
    yield "embedding and head", tied[anatomy.tied]


def _alike(values: Sequence[str]) -> str:
    """One value for all layers, or each with the layers that have it."""
    groups: dict[str, list[int]] = {}
    for index, value in enumerate(values):
        groups.setdefault(value, []).append(index)
    if len(groups) == 1:
        return values[0]
    return "\n".join(
        f"{value} (layers {', '.join(map(str, layers))})" for value, layers in groups.items()
    )


def _against(count: int, predicted: int | None) -> str:
    return f" (its shape needs {predicted:,})" if predicted not in (None, count) else ""


def _attention(layer: AttentionAnatomy) -> str:
    parts = [f"{layer.heads} heads of {layer.head_width}"]
    if layer.value_width != layer.head_width:
        parts.append(f"values of {layer.value_width}")
    if layer.kv_heads is not None and layer.kv_heads != layer.heads:
        order = f", {layer.kv_order}" if layer.kv_order else ""
        parts.append(f"{layer.kv_heads} key heads{order}")
    if layer.qk_norm:
        parts.append("normalised queries")
    if layer.sinks:
        parts.append(f"{layer.sinks} sink")
    if layer.soft_cap:
        parts.append(f"soft-cap {layer.soft_cap:g}")
    return ", ".join(parts)


def _scale(layer: AttentionAnatomy) -> str:
    if layer.scale is None:
        return "not read"
    usual = abs(layer.scale * layer.head_width**0.5 - 1) < 2e-3
    return f"{layer.scale:.4g}" + (" = 1/√d_head" if usual else "")


def _sight(layer: AttentionAnatomy) -> str:
    if "window" in layer.unread:
        return "not read"
    if layer.window is not None:
        return f"the last {layer.window} tokens"
    return f"chunks of {layer.chunk} tokens" if layer.chunk is not None else "all earlier tokens"


def _turns(layer: AttentionAnatomy) -> str:
    if layer.rotary is None:
        return layer.positions or "not read"
    rotary: Rotary = layer.rotary
    parts = [f"{rotary.width} of {layer.head_width} channels"]
    if rotary.offset:
        parts.append(f"from {rotary.offset}")
    parts.append(_PAIRINGS[rotary.pairing])
    if rotary.base is not None:
        parts.append(f"base {rotary.base:,.0f}")
    if rotary.scaling != "none":
        by = f" by {rotary.factor:.3g}" if rotary.factor else ""
        parts.append(f"scaled {rotary.scaling}{by}")
    if rotary.magnitude is not None and abs(rotary.magnitude - 1) > 1e-3:
        parts.append(f"lengthened {rotary.magnitude:.4g} times")
    return ", ".join(parts)


def _network(part: FeedForwardAnatomy) -> str:
    kind = "gated" if part.gated else "two matrices"
    text = f"{kind}, {part.activation}, width {part.width:,}"
    if part.experts is not None:
        active = f", {part.active} active" if part.active is not None else ""
        text = f"{part.experts} experts{active}: {text}"
        if part.shared_width:
            text += f"; shared width {part.shared_width:,}"
    return text


def _norm(anatomy: Anatomy) -> str:
    if anatomy.norm is None:
        return "not read"
    kind = {"rms": "RMSNorm", "layer": "LayerNorm"}[anatomy.norm.kind]
    parts = [kind, {"none": "no gain", "other": "a gain"}.get(anatomy.norm.gain, anatomy.norm.gain)]
    if anatomy.norm.eps is not None:
        parts.append(f"eps {anatomy.norm.eps:.3g}")
    if anatomy.assembly is not None:
        parts.append(_PLACEMENTS[anatomy.assembly.placement])
        if anatomy.assembly.parallel:
            parts.append("branches in parallel")
    return ", ".join(parts)


def _biases(anatomy: Anatomy) -> str:
    names = {
        "queries, keys, values": anatomy.biases.queries_keys_values,
        "attention output": anatomy.biases.attention_output,
        "feed-forward": anatomy.biases.feed_forward,
        "head": anatomy.biases.head,
    }
    return ", ".join(name for name, has in names.items() if has) or "none"


def _unread(anatomy: Anatomy) -> Iterator[tuple[str, str]]:
    yield from anatomy.unread.items()
    of_layers: dict[tuple[str, str], list[int]] = {}
    for index, layer in enumerate(anatomy.attention):
        for name, reason in layer.unread.items():
            of_layers.setdefault((name, reason), []).append(index)
    for (name, reason), layers in of_layers.items():
        where = "" if len(layers) == anatomy.layers else f" of layers {', '.join(map(str, layers))}"
        yield f"{name}{where}", reason
    for part in anatomy.feed_forward:
        for name, reason in part.unread.items():
            yield f"{name} of {part.module}", reason
