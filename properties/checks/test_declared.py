"""Every declaration is a claim about the anatomy: what was declared is what was measured.

Whether a person declared it or a library's configuration did makes no difference: a configured
window, scale, soft-cap, rotation, tie or activation that the model does not really have is a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from theodolite.fixtures.anatomy.attention import AttentionAnatomy
from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.anatomy.sight import sight_over
from theodolite.fixtures.judging.judgement import judge, not_applicable, require
from theodolite.fixtures.subject.declarations import expanded
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check

SAME = 2e-3
"""Relative distance of a measured number from a declared one.

Scales are slopes of float32 scores and good to 1e-5, rotary frequencies to 1e-6 of a radian over
48 positions. Half precision keeps 8 bits of a number, hence `HALF`.
"""

HALF = 1e-2


@check("declared.scale", "SCL-5", component="scale")
def test_the_declared_scale_is_the_real_one(subject: Subject) -> None:
    declared = _declared(subject, "scale")
    for place, layer, value in _by_layer(subject, declared, "scale"):
        measured = _read(layer.scale, layer.unread, "scale")
        _near(subject, measured, value, "scores are q·k times the declared scale", place, "scale")


@check("declared.window", "ATT-2", component="window")
def test_the_declared_window_is_the_real_one(subject: Subject) -> None:
    declared = _declared(subject, "window")
    widest = max((w for w in _flat(declared) if w is not None), default=0)
    known = [layer.sight for layer in anatomy_of(subject).attention]
    sights = sight_over(subject.views.sharpened, known, widest)
    chunks = expanded(subject.declarations).get("chunk")
    for place, layer, value in _by_layer(subject, declared, "window"):
        sight = sights[place["layer"]]
        chunk = _of_layer(chunks, place["layer"], len(sights))
        if sight.reason is not None:
            not_applicable(f"what queries see could not be read: {sight.reason}")
        require(
            sight.window == value and sight.chunk == chunk,
            f"queries see {_keys(value)}, as {_source(subject, 'window')}",
            measured=sight.window,
            at_least=value,
            at_most=value,
            where={**place, "module": layer.module},
            remedy=f"Measured: {_keys(sight.window)}. Does the window reach the attention on every "
            "backend, and does it count the query itself?",
            cause="window-ignored" if sight.window is None else "window-differs",
        )


@check("declared.soft_cap", "STAB-3", component="scale")
def test_the_declared_soft_cap_is_the_real_one(subject: Subject) -> None:
    declared = _declared(subject, "soft_cap")
    for place, layer, value in _by_layer(subject, declared, "soft_cap"):
        require(
            layer.soft_cap == value
            or bool(value and layer.soft_cap and abs(layer.soft_cap / value - 1) <= SAME),
            f"scores are capped at {value}, as {_source(subject, 'soft_cap')}",
            measured=layer.soft_cap,
            at_least=value,
            at_most=value,
            where={**place, "module": layer.module},
            remedy=f"Measured: {layer.soft_cap or 'no cap'}. Is the cap passed to this backend?",
            cause="soft-cap-ignored" if layer.soft_cap is None else "soft-cap-differs",
        )


@check("declared.positions", "ROPE-4", "POS-2", component="position")
def test_positions_enter_as_declared(subject: Subject) -> None:
    declared, anatomy = _declared(subject, "positions"), anatomy_of(subject)
    said = _source(subject, "positions")
    if declared in ("learned", "sinusoidal"):
        measured = _read(anatomy.embedded_positions, anatomy.unread, "embedded_positions")
        _equal(measured, declared, f"positions are {declared}, as {said}", {}, "positions-differ")
        return
    for place, layer, value in _by_layer(subject, declared, "positions"):
        measured = _read(layer.positions, layer.unread, "positions")
        _equal(measured, value, f"positions are {value}, as {said}", place, "positions-differ")
    if declared == "none":
        _equal(anatomy.positions, "none", f"there are no positions, as {said}", {}, "positions")


@check("declared.rope", "ROPE-3", component="rope")
def test_the_rotation_is_as_declared(subject: Subject) -> None:
    """Width, pairing, base, each frequency, and the length of what is rotated."""
    known = expanded(subject.declarations)
    names = [key for key in known if key.startswith("rope_")]
    if not names:
        not_applicable("no rotation is declared: --declare rope_base=10000, for example")
    layers = [(i, layer) for i, layer in enumerate(_attention(subject))]
    if any(layer.positions is None for _, layer in layers):
        not_applicable(f"positions could not be read: {layers[0][1].unread}")
    turning = [(i, layer) for i, layer in layers if layer.rotary is not None]
    require(
        turning,
        f"queries and keys are rotated, as {_source(subject, names[0])}",
        remedy="No layer rotates. Is the rotation applied, and with the right axis?",
        cause="rotation-missing",
    )
    for index, layer in turning:
        rotary = layer.rotary
        assert rotary is not None
        place = {"layer": index, "module": layer.module}
        for key, measured in (("rope_width", rotary.width), ("rope_pairing", rotary.pairing)):
            alike = key == "rope_pairing" and rotary.width == 2
            if key in known and not alike:
                says = f"{key} is {known[key]}, as {_source(subject, key)}"
                _equal(measured, known[key], says, place, key.replace("_", "-"))
        for key, found in (("rope_base", rotary.base), ("rope_magnitude", rotary.magnitude)):
            value = _of_layer(known.get(key), index, len(layers))
            if value is not None and found is not None:
                _near(subject, found, value, f"{key} is as declared", place, key)
        if "rope_frequencies" in known:
            given = known["rope_frequencies"]
            value = given[index] if isinstance(given[0], (list, tuple)) else given
            says = "each pair of channels turns at its declared frequency"
            _near(subject, rotary.frequencies, value, says, place, "rope_frequencies")


@check("declared.tied", "AUD-9", component="tying")
def test_embedding_and_head_are_tied_as_declared(subject: Subject) -> None:
    declared, measured = _declared(subject, "tied"), anatomy_of(subject).tied
    if measured is None:
        not_applicable("embedding or head are no tables of their own")
    require(
        measured == declared,
        f"embedding and head are {'one tensor' if declared else 'two tensors'}, "
        f"as {_source(subject, 'tied')}",
        remedy="Is the flag read where it stands, and is the tie made after the last weight was "
        "replaced?",
        cause="tie-ignored" if declared else "tie-unasked",
    )


@check("declared.feed_forward", "FFN-2", component="feed_forward")
def test_the_feed_forward_network_is_as_declared(subject: Subject) -> None:
    known = expanded(subject.declarations)
    names = {
        "activation": "activation",
        "gated": "gated",
        "feed_forward_width": "width",
        "experts": "experts",
        "active_experts": "active",
        "shared_width": "shared_width",
    }
    asked = {key: name for key, name in names.items() if key in known}
    if not asked:
        not_applicable("no activation is declared: --declare activation=silu, for example")
    parts = anatomy_of(subject).feed_forward
    if not parts:
        not_applicable(anatomy_of(subject).unread.get("feed_forward", "no feed-forward network"))
    for key, name in asked.items():
        routed = name in ("experts", "active", "shared_width")
        judged = [part for part in parts if not routed or part.experts is not None]
        require(
            judged,
            f"there are {known[key]} experts, as {_source(subject, key)}",
            component="moe",
            remedy="No layer has experts.",
        )
        read = [part for part in judged if name not in part.unread]
        if name == "active" and read:  # a router that hashes ids may send one twice to an expert
            read = [max(read, key=lambda part: part.active or 0)]
        for part in read:
            require(
                getattr(part, name) == known[key],
                f"{key.replace('_', ' ')} is {known[key]}, as {_source(subject, key)}",
                where={"module": part.module, "measured": getattr(part, name)},
                remedy="Is this field of the configuration read?",
                component="moe" if routed else None,
                cause=f"{key.replace('_', '-')}-differs",
            )


@check("declared.norm", "NORM-1", "NORM-6", component="norm")
def test_norms_and_biases_are_as_declared(subject: Subject) -> None:
    known, anatomy = expanded(subject.declarations), anatomy_of(subject)
    norm, assembly, biases = anatomy.norm, anatomy.assembly, anatomy.biases
    inside = [biases.queries_keys_values, biases.attention_output, biases.feed_forward]
    measured: dict[str, tuple[Any, str]] = {
        "norm": (norm and norm.kind, "norm"),
        "norm_eps": (norm and norm.eps, "norm.eps"),
        "placement": (assembly and assembly.placement, "assembly"),
        "parallel": (assembly and assembly.parallel, "assembly"),
        "bias": (None if None in inside else any(inside), "biases"),
    }
    asked = [key for key in measured if key in known]
    read = [key for key in asked if measured[key][0] is not None]
    if not read:
        unread = [anatomy.unread.get(measured[key][1], f"{key} was not seen") for key in asked]
        not_applicable(unread[0] if unread else "nothing is declared of norms: norm, bias ...")
    for key in read:
        says = f"{key} is {known[key]}, as {_source(subject, key)}"
        if key == "norm_eps":
            _near(subject, measured[key][0], known[key], says, {}, key)
        else:
            part = "residual" if key == "parallel" else None
            _equal(measured[key][0], known[key], says, {}, f"{key}-differs", part)


@check("declared.shape", "MHA-1", "HYP-1", component="heads")
def test_layers_heads_and_widths_are_as_declared(subject: Subject) -> None:
    known, anatomy = expanded(subject.declarations), anatomy_of(subject)
    asked = [
        key
        for key in ("layers", "width", "heads", "kv_heads", "head_width", "sinks", "qk_norm")
        if key in known
    ]
    if not asked:
        not_applicable("no shape is declared: --declare heads=8, for example")
    for key in asked:
        says = f"{key} is {known[key]}, as {_source(subject, key)}"
        if key in ("layers", "width"):
            _equal(getattr(anatomy, key), known[key], says, {}, f"{key}-differ")
            continue
        for index, layer in enumerate(_attention(subject)):
            value = _read(getattr(layer, key), layer.unread, key)
            _equal(value, known[key], says, {"layer": index}, f"{key}-differ")


def _declared(subject: Subject, key: str) -> Any:
    known = expanded(subject.declarations)
    if key not in known:
        not_applicable(f"no {key} is declared: --declare {key}=VALUE")
    return known[key]


def _source(subject: Subject, key: str) -> str:
    source = subject.sources.get(key)
    if source is not None:
        return f"the configuration says ({source})"
    return "declared" if key in subject.declarations else "the declared profile has it"


def _attention(subject: Subject) -> Sequence[AttentionAnatomy]:
    layers = anatomy_of(subject).attention
    if not layers:
        not_applicable(f"attention is not visible: {anatomy_of(subject).unread.get('attention')}")
    return layers


def _by_layer(
    subject: Subject, declared: Any, key: str
) -> list[tuple[dict[str, int], AttentionAnatomy, Any]]:
    layers = _attention(subject)
    if isinstance(declared, (list, tuple)) and len(declared) != len(layers):
        not_applicable(f"{key} is declared for {len(declared)} layers and {len(layers)} are seen")
    values = declared if isinstance(declared, (list, tuple)) else [declared] * len(layers)
    rows = zip(layers, values, strict=True)
    return [({"layer": i}, layer, value) for i, (layer, value) in enumerate(rows)]


def _of_layer(declared: Any, index: int, layers: int) -> Any:
    if isinstance(declared, (list, tuple)):
        return declared[index] if len(declared) == layers else None
    return declared


def _read(value: Any, unread: Any, name: str) -> Any:
    if value is None:
        not_applicable(f"{name} could not be read: {unread.get(name, 'it was not seen')}")
    return value


def _flat(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _keys(window: int | None) -> str:
    return "all earlier keys" if window is None else f"{window} keys, themselves included"


def _equal(
    measured: Any,
    value: Any,
    says: str,
    place: dict[str, Any],
    cause: str,
    component: str | None = None,
) -> None:
    require(
        measured == value,
        says,
        where={**place, "measured": measured},
        remedy="Is the setting read, and is it passed on to every layer?",
        component=component,
        cause=cause,
    )


def _near(
    subject: Subject, measured: Any, value: Any, says: str, place: dict[str, Any], key: str
) -> None:
    half = subject.dtype.itemsize < 4
    _flat_measured, _flat_value = _flat(measured), _flat(value)
    for index, (found, wanted) in enumerate(zip(_flat_measured, _flat_value, strict=True)):
        pair = {"pair": index} if len(_flat_value) > 1 else {}
        judge(
            float(found),
            float(wanted),
            bound=(HALF if half else SAME) * abs(float(wanted)) + _ABSOLUTE.get(key, 0.0),
            says=f"{says} ({float(wanted):.6g}, {_source(subject, key)})",
            where={**place, **pair, "measured": f"{float(found):.6g}"},
            remedy=_REMEDIES[key],
            cause=f"{key.replace('_', '-')}-differs",
        )


_ABSOLUTE = {"rope_frequencies": 1e-6, "norm_eps": 1e-9}
_REMEDIES = {
    "scale": "Is the setting passed to every attention backend, once?",
    "rope_base": "Is rope_theta read from where the configuration keeps it?",
    "rope_frequencies": "Are base and scaling read from where the configuration keeps them?",
    "rope_magnitude": "Is the attention factor applied once, to cosine and sine both?",
    "norm_eps": "Is eps read from the configuration, and does it stand inside the root?",
}
