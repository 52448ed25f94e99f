"""Every declaration is a claim about the anatomy: what was declared is what was measured.

Whether a person declared it or a library's configuration did makes no difference: a configured
window, scale, soft-cap, rotation, tie or activation that the model does not really have is a fault.
`SETTINGS` says of each key of a declaration what of the anatomy is held against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from theodolite.fixtures.anatomy.attention import AttentionAnatomy
from theodolite.fixtures.anatomy.measure import Anatomy, anatomy_of
from theodolite.fixtures.anatomy.rotated_scores import is_scaled_with_length
from theodolite.fixtures.anatomy.sight import sight_over
from theodolite.fixtures.errors import Unknown
from theodolite.fixtures.judging.judgement import judge, not_applicable, require
from theodolite.fixtures.subject.declarations import expanded
from theodolite.fixtures.subject.once import once
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check

SAME = 2e-3
"""Relative distance of a measured number from a declared one.

Scales are slopes of float32 scores and good to 1e-5, rotary frequencies to 1e-6 of a radian over
48 positions. Half precision keeps 8 bits of a number, hence `HALF`.
"""

HALF = 1e-2

Reading = tuple[dict[str, Any], Any]
"""A place, and what was measured there; `Unknown` where that could not be read."""


@dataclass(frozen=True)
class Setting:
    """What is held against one key of a declaration.

    Attributes:
        read: What the anatomy says, place by place; what says nothing is left out.
        says: What is claimed, of {key}, {value} and {source}.
        remedy: What to look at first, of {measured}.
        beside: Distance allowed beside the relative one; None for what must be equal.
        component: The part to blame, if other than the check's own.
        cause: The likely fault; "" for "KEY-differs", or "KEY-ignored" where nothing is there.
    """

    read: Callable[[Subject], Iterator[Reading]]
    says: str = "{key} is {value}, as {source}"
    remedy: str = "Is the setting read, and is it passed on to every layer?"
    beside: float | None = None
    component: str | None = None
    cause: str = ""


def _layers(name: str, *, optional: bool = False) -> Callable[[Subject], Iterator[Reading]]:
    """A field of every attention; without `optional`, one that was not read ends the check."""

    def read(subject: Subject) -> Iterator[Reading]:
        for index, layer in enumerate(_attention(subject)):
            value = getattr(layer, name)
            yield {"layer": index}, value if optional else _seen(value, layer.unread, name)

    return read


def _whole(value: Callable[[Anatomy], Any], name: str) -> Callable[[Subject], Iterator[Reading]]:
    """A value of the whole anatomy, and under which name it is told why there is none."""

    def read(subject: Subject) -> Iterator[Reading]:
        anatomy = anatomy_of(subject)
        try:
            found = value(anatomy)
        except AttributeError:  # the part itself was not read
            found = None
        why = anatomy.unread.get(name, f"{name} was not seen")
        yield {}, Unknown(why) if found is None else found

    return read


def _turning(name: str) -> Callable[[Subject], Iterator[Reading]]:
    """A field of every rotation; the order of pairs means nothing where there is one."""

    def read(subject: Subject) -> Iterator[Reading]:
        for index, layer in enumerate(_attention(subject)):
            value = getattr(layer.rotary, name, None)
            one_pair = layer.rotary is not None and layer.rotary.width == 2
            if value is not None and not (name == "pairing" and one_pair):
                yield {"layer": index, "module": layer.module}, value

    return read


def _networks(name: str, *, routed: bool = False) -> Callable[[Subject], Iterator[Reading]]:
    """A field of every feed-forward network that has it, of those with experts if `routed`."""

    def read(subject: Subject) -> Iterator[Reading]:
        known = anatomy_of(subject).feed_forward
        parts = [p for p in known if name not in p.unread and (p.experts is not None or not routed)]
        if name == "active" and parts:  # a router that hashes ids may send one twice to an expert
            parts = [max(parts, key=lambda part: part.active or 0)]
        return (({"module": part.module}, getattr(part, name)) for part in parts)

    return read


def _positions(subject: Subject) -> Iterator[Reading]:
    anatomy, declared = anatomy_of(subject), expanded(subject.declarations)["positions"]
    if declared in ("learned", "sinusoidal"):
        yield {}, _seen(anatomy.embedded_positions, anatomy.unread, "embedded_positions")
        return
    yield from _layers("positions")(subject)
    if declared == "none":
        yield {}, anatomy.positions


def _seen(value: Any, unread: Mapping[str, str], name: str) -> Any:
    if value is None:
        not_applicable(f"{name} could not be read: {unread.get(name, 'it was not seen')}")
    return value


def _bias(anatomy: Anatomy) -> bool | None:
    biases = anatomy.biases
    inside = [biases.queries_keys_values, biases.attention_output, biases.feed_forward]
    return None if None in inside else any(inside)


_FIELD = "Is this field of the configuration read?"
_ROPE = "Are base and scaling read from where the configuration keeps them?"
_CAP = "Measured: {measured}. Is the cap passed to this backend?"
_EPS = "Is eps read from the configuration, and does it stand inside the root?"
_FACTOR = "Is the attention factor applied once, to cosine and sine both?"
_THETA = "Is rope_theta read from where the configuration keeps it?"
_SCALE = "Is the setting passed to every attention backend, once?"
_CAPPED = "scores are capped at {value}, as {source}"
_EACH = "each pair of channels turns at its declared frequency"

SETTINGS: Mapping[str, Setting] = {
    "scale": Setting(_layers("scale"), "scores are q·k times the declared scale", _SCALE, 0.0),
    "soft_cap": Setting(_layers("soft_cap", optional=True), _CAPPED, _CAP, 0.0),
    "positions": Setting(_positions, "positions are {value}, as {source}"),
    "rope_width": Setting(_turning("width"), cause="rope-width"),
    "rope_pairing": Setting(_turning("pairing"), cause="rope-pairing"),
    "rope_base": Setting(_turning("base"), "rope_base is as declared", _THETA, 0.0),
    "rope_magnitude": Setting(_turning("magnitude"), "rope_magnitude is as declared", _FACTOR, 0.0),
    "rope_frequencies": Setting(_turning("frequencies"), _EACH, _ROPE, 1e-6),
    "activation": Setting(_networks("activation"), remedy=_FIELD),
    "gated": Setting(_networks("gated"), remedy=_FIELD),
    "feed_forward_width": Setting(_networks("width"), remedy=_FIELD),
    "experts": Setting(_networks("experts", routed=True), remedy=_FIELD, component="moe"),
    "active_experts": Setting(_networks("active", routed=True), remedy=_FIELD, component="moe"),
    "shared_width": Setting(_networks("shared_width", routed=True), remedy=_FIELD, component="moe"),
    "norm": Setting(_whole(attrgetter("norm.kind"), "norm")),
    "norm_eps": Setting(_whole(attrgetter("norm.eps"), "norm.eps"), remedy=_EPS, beside=1e-9),
    "placement": Setting(_whole(attrgetter("assembly.placement"), "assembly")),
    "parallel": Setting(_whole(attrgetter("assembly.parallel"), "assembly"), component="residual"),
    "bias": Setting(_whole(_bias, "biases")),
    "layers": Setting(_whole(attrgetter("layers"), "layers"), cause="layers-differ"),
    "width": Setting(_whole(attrgetter("width"), "width"), cause="width-differ"),
    "heads": Setting(_layers("heads"), cause="heads-differ"),
    "kv_heads": Setting(_layers("kv_heads"), cause="kv_heads-differ"),
    "head_width": Setting(_layers("head_width"), cause="head_width-differ"),
    "sinks": Setting(_layers("sinks"), cause="sinks-differ"),
    "qk_norm": Setting(_layers("qk_norm"), cause="qk_norm-differ"),
}


@check("declared.scale", "SCL-5", component="scale")
def test_the_declared_scale_is_the_real_one(subject: Subject) -> None:
    """The slope of the scores over q·k, layer by layer, is the declared factor."""
    _hold(subject, "scale", example="scale=VALUE")


@check("declared.soft_cap", "STAB-3", component="scale")
def test_the_declared_soft_cap_is_the_real_one(subject: Subject) -> None:
    """The number that scores approach as q·k grows is the declared cap."""
    _hold(subject, "soft_cap", example="soft_cap=VALUE")


@check("declared.positions", "ROPE-4", "POS-2", component="position")
def test_positions_enter_as_declared(subject: Subject) -> None:
    """By rotation, a bias of distance, a table that is added, or not at all: as it is measured."""
    _hold(subject, "positions", example="positions=VALUE")


@check("declared.rope", "ROPE-3", component="rope")
def test_the_rotation_is_as_declared(subject: Subject) -> None:
    """Width, pairing, base, each frequency, and the length of what is rotated."""
    keys = [key for key in _known(subject) if key.startswith("rope_")]
    layers = _attention(subject) if keys else []
    if any(layer.positions is None for layer in layers):
        not_applicable(f"positions could not be read: {layers[0].unread}")
    turns = any(layer.rotary is not None for layer in layers)
    if keys and not turns and all(_is_own(subject, key) for key in keys):
        not_applicable(
            "nothing is rotated, and a field of the configuration is no promise that something is"
        )
    require(
        not keys or turns,
        f"queries and keys are rotated, as {_source(subject, keys[0]) if keys else ''}",
        fails="Queries and keys are to be rotated, as "
        f"{_source(subject, keys[0]) if keys else ''}, and no layer rotates them",
        remedy="Is the rotation applied, and along the right axis?",
        cause="rotation-missing",
    )
    _hold(subject, *(key for key in SETTINGS if key.startswith("rope_")), example="rope_base=10000")


@check("declared.feed_forward", "FFN-2", component="feed_forward")
def test_the_feed_forward_network_is_as_declared(subject: Subject) -> None:
    """Its activation, gate and width, and how many experts there are and work on a token."""
    known, anatomy = _known(subject), anatomy_of(subject)
    routed = [key for key in ("experts", "active_experts", "shared_width") if key in known]
    parts = anatomy.feed_forward
    if parts and any(not _is_own(subject, key) for key in routed):
        require(
            any(part.experts is not None for part in parts),
            f"there are {known[routed[0]]} experts, as {_source(subject, routed[0])}",
            fails=f"There should be {known[routed[0]]} experts, as {_source(subject, routed[0])}, "
            "and no layer has any",
            remedy="Is the mixture built where the configuration asks for it?",
            component="moe",
        )
    keys = ("activation", "gated", "feed_forward_width", "experts", "active_experts")
    why = anatomy.unread.get("feed_forward", "no feed-forward network")
    _hold(subject, *keys, "shared_width", example="activation=silu", why=why)


@check("declared.norm", "NORM-1", "NORM-6", component="norm")
def test_norms_and_biases_are_as_declared(subject: Subject) -> None:
    """The kind of the norms, their epsilon and place, and whether linear layers have biases."""
    _hold(subject, "norm", "norm_eps", "placement", "parallel", "bias", example="norm=RMSNorm")


@check("declared.shape", "MHA-1", "HYP-1", component="heads")
def test_layers_heads_and_widths_are_as_declared(subject: Subject) -> None:
    """The shape that was measured, layer by layer, and whether it has sinks or norms on q and k."""
    keys = ("layers", "width", "heads", "kv_heads", "head_width", "sinks", "qk_norm")
    _hold(subject, *keys, example="heads=8")


@check("declared.tied", "AUD-9", component="tying")
def test_embedding_and_head_are_tied_as_declared(subject: Subject) -> None:
    """The two tables share their memory, or do not."""
    declared, measured = _known(subject).get("tied"), anatomy_of(subject).tied
    if declared is None:
        not_applicable("whether embedding and head are tied is not declared: --declare tied=true")
    if measured is None:
        not_applicable("embedding or head is not a table of its own")
    says = f"embedding and head are {'one tensor' if declared else 'two tensors'}"
    require(
        measured == declared,
        f"{says}, as {_source(subject, 'tied')}",
        fails=f"Embedding and head are {'two tensors' if declared else 'one tensor'}, and should "
        f"be {'one' if declared else 'two'}, as {_source(subject, 'tied')}",
        remedy="Is the flag read where it stands, and is the tie made after the last weight was "
        "replaced?",
        cause="tie-ignored" if declared else "tie-unasked",
    )


@check("declared.window", "ATT-2", component="window")
def test_the_declared_window_is_the_real_one(subject: Subject) -> None:
    """How many keys the queries of each layer see, themselves included."""
    known = _known(subject)
    if "window" not in known:
        not_applicable("no window is declared: --declare window=VALUE")
    if _is_own(subject, "window"):
        _judge_own_window(subject, known["window"])
        return
    layers = _attention(subject)
    widest = max((w for w in _flat(known["window"]) if w), default=0)
    seen = [layer.sight for layer in layers]
    sights = sight_over(subject.views.sharpened, seen, widest)
    for index, layer in enumerate(layers):
        sight, value = sights[index], _of_layer(known["window"], index, len(layers), "window")
        if sight.reason is not None:
            not_applicable(f"what queries see could not be read: {sight.reason}")
        require(
            sight.window == value
            and sight.chunk == _of_layer(known.get("chunk"), index, len(sights), "chunk"),
            f"queries see {_keys(value)}, as {_source(subject, 'window')}",
            fails=f"Queries of layer {index} see {_keys(sight.window)}, and should see "
            f"{_keys(value)}, as {_source(subject, 'window')}",
            measured=sight.window,
            at_most=value,
            at_least=value,
            where={"layer": index, "module": layer.module},
            remedy=f"Measured: {_keys(sight.window)}. Does the window reach the attention on every "
            "backend, and does it count the query itself?",
            cause="window-ignored" if sight.window is None else "window-differs",
        )


def _hold(subject: Subject, *keys: str, example: str, why: str = "") -> None:
    """Hold each declared key against what was measured; not applicable where nothing was."""
    known = _known(subject)
    asked = [key for key in keys if key in known]
    if not asked:
        what = f"no {keys[0]}" if len(keys) == 1 else "nothing that is judged here"
        not_applicable(f"{what} is declared: --declare {example}")
    unread, judged = [], False
    for key in asked:
        for place, measured in SETTINGS[key].read(subject):
            if isinstance(measured, Unknown):
                unread.append(measured.reason)
                continue
            layers = len(anatomy_of(subject).attention)
            value = _of_layer(known[key], place.get("layer"), layers, key)
            if _is_own(subject, key) and key == "rope_base" and not _is_plain(subject, value):
                continue
            if value is not None or key == "soft_cap":
                _judge(subject, key, measured, value, place)
                judged = True
    if not judged:
        not_applicable(unread[0] if unread else why or f"{', '.join(asked)} could not be read")


def _judge(subject: Subject, key: str, measured: Any, value: Any, place: dict[str, Any]) -> None:
    setting, source = SETTINGS[key], _source(subject, key)
    says = setting.says.format(key=key.replace("_", " "), value=value, source=source)
    ends = "ignored" if measured is None else "differs"
    told: dict[str, Any] = {
        "component": setting.component,
        "remedy": setting.remedy.format(measured=measured),
        "cause": setting.cause or f"{key.replace('_', '-')}-{ends}",
    }
    if setting.beside is None or measured is None or value is None:
        alike = _is_own(subject, key) and _is_called(measured, value)
        require(
            measured == value or alike,
            says,
            fails=f"{_called(key)} is {measured}; it should be {value}, as {source}",
            where={**place, "measured": measured},
            **told,
        )
        return
    share = HALF if subject.dtype.itemsize < 4 else SAME
    pairs = list(zip(_flat(measured), _flat(value), strict=True))
    for index, (found, wanted) in enumerate(pairs):
        judge(
            float(found),
            float(wanted),
            f"{says} ({float(wanted):.6g}, {source})",
            fails=f"{_called(key)} is {found:.6g}; it should be {float(wanted):.6g}, as {source}",
            bound=share * abs(float(wanted)) + setting.beside,
            where={**place, **({"pair": index} if pairs[1:] else {}), "measured": f"{found:.6g}"},
            **told,
        )


@once
def _known(subject: Subject) -> dict[str, Any]:
    """What is declared, and what the subject says of itself beside it.

    An argument of the constructor that changes nothing says nothing: that is told as advice.
    """
    declared, own = expanded(subject.declarations), dict(subject.words.values)
    for key, argument in subject.words.arguments.items():
        if key not in declared and subject.is_idle(argument):
            del own[key]
            subject.note(
                f"the argument {argument} of the constructor changes nothing: built with another "
                "value, the model has the same weights and gives the same logits"
            )
    return {**own, **declared}


def _is_own(subject: Subject, key: str) -> bool:
    """Whether a key is declared by the subject's own words alone, which know no conventions."""
    return key in subject.words.values and key not in expanded(subject.declarations)


def _judge_own_window(subject: Subject, window: int) -> None:
    """Some layer has the window: which ones, and whether it counts the query, no word says."""
    if subject.longest is not None and subject.longest <= window:
        not_applicable(f"no sequence that it takes is longer than its window of {window}")
    seen_so_far = [layer.sight for layer in _attention(subject)]
    sights = sight_over(subject.views.sharpened, seen_so_far, window)
    if not sights or any(sight.reason is not None or sight.chunk for sight in sights):
        not_applicable("what queries see could not be read, or is cut in blocks")
    seen = [sight.window for sight in sights]
    require(
        any(each is not None and window - 1 <= each <= window + 1 for each in seen),
        f"some layer's queries see {_keys(window)}, as {_source(subject, 'window')}",
        fails=f"Queries of the layers see {{measured}} keys, and should see {_keys(window)} in "
        f"some layer, as {_source(subject, 'window')}",
        where={"measured": ", ".join(map(str, seen))},
        remedy="Does the window reach the attention, on every backend?",
        cause="window-differs" if any(seen) else "window-ignored",
    )


def _is_plain(subject: Subject, base: float) -> bool:
    """Whether all layers turn alike, at every length, and the series is not to end at 1/base."""
    if _is_scaled_with_length(subject):
        return False
    rotations = [layer.rotary for layer in _attention(subject) if layer.rotary is not None]
    bases = [rotary.base for rotary in rotations if rotary.base is not None]
    ends = [min(map(float, rotary.frequencies)) * base for rotary in rotations]
    alike = len(bases) == len(rotations) and max(bases) <= min(bases) * (1 + SAME)
    return alike and not any(abs(end - 1) <= SAME for end in ends)


@once
def _is_scaled_with_length(subject: Subject) -> bool:
    return is_scaled_with_length(subject)


def _is_called(measured: Any, said: Any) -> bool:
    """Whether an activation is one of those that go by a name: "gelu" is also said of its tanh."""
    return measured in ("gelu", "gelu_tanh") and said in ("gelu", "gelu_tanh")


def _source(subject: Subject, key: str) -> str:
    if _is_own(subject, key):
        return f"the model itself says ({subject.words.sources[key]})"
    source = subject.sources.get(key)
    if source is not None:
        return f"the configuration says ({source})"
    return "declared" if key in subject.declarations else "the declared profile has it"


def _attention(subject: Subject) -> Sequence[AttentionAnatomy]:
    layers = anatomy_of(subject).attention
    if not layers:
        not_applicable(f"attention is not visible: {anatomy_of(subject).unread.get('attention')}")
    return layers


def _of_layer(declared: Any, index: int | None, layers: int, key: str) -> Any:
    """What is declared for a layer, of a list with one value for each."""
    per_layer = key != "rope_frequencies" or (declared and isinstance(declared[0], (list, tuple)))
    if index is None or not isinstance(declared, (list, tuple)) or not per_layer:
        return declared
    if len(declared) != layers:
        not_applicable(f"{key} is declared for {len(declared)} layers and {layers} are seen")
    return declared[index]


def _flat(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _called(key: str) -> str:
    return key.replace("_", " ").capitalize()


def _keys(window: int | None) -> str:
    return "all earlier keys" if window is None else f"{window} keys, themselves included"
