"""The frequencies of a subject's rotary embedding, and how far its table reaches (ROPE-3, 5)."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.fixtures.anatomy.attentions import is_still
from theodolite.fixtures.anatomy.rotated_scores import NONE, turned_attentions
from theodolite.fixtures.anatomy.rotation import turning, wrapped
from theodolite.fixtures.judging.judgement import each, judge, not_applicable, require
from theodolite.fixtures.judging.tolerances import PHASE
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("rope.frequencies", "ROPE-3", component="rope", views=("sharpened",))
def test_frequencies_fall_from_one_radian_a_position(view: View) -> None:
    """Pair i turns by base^(-2i/d) a position: 1 for the first, each next by the same factor less.

    Interpolation divides all of them, and other scalings bend the series between two ends that are
    parallel (NTK by parts, YaRN, Llama 3); which one was meant, a declaration or the library's
    configuration says.
    """
    for place, call in each(
        turned_attentions(view),
        "channels do not turn in pairs that could be read; see rope.relative",
    ):
        turn = turning(call.query)
        if turn is None:
            continue
        found = turn.frequencies
        where = {**place, "pairing": turn.pairing, "frequencies": _listed(found)}
        require(
            bool((found.diff() <= PHASE / len(turn.angles)).all()),
            "no pair turns faster than the one before",
            fails="Some pair turns faster than the one before it: {frequencies} radians a position",
            where=where,
            remedy="Is the exponent negative, and are frequencies in the order of their pairs?",
            cause="frequencies-out-of-order",
        )
        if _is_configured(view):
            continue
        ratio = float(found[1] / found[0]) if len(found) > 1 else 1.0
        straight = _is_geometric(found, len(turn.angles))
        require(
            straight or _is_bent(found, len(turn.angles)),
            "frequencies fall by the same factor from pair to pair",
            fails="Frequencies do not fall by the same factor from pair to pair: {frequencies} "
            "radians a position",
            where=where,
            remedy="θ_i = base^(-2i/d): is the index part of the exponent?",
            cause="frequencies-not-geometric",
        )
        shifted = min(abs(float(found[0]) - ratio), abs(float(found[0]) - 1 / ratio)) <= PHASE
        require(
            float(found[0]) <= 1 + PHASE and not (shifted and abs(ratio - 1) > PHASE),
            "the first pair turns by one radian a position",
            fails="The first pair turns by {measured} radians a position; it should turn by 1",
            measured=float(found[0]),
            at_most=1 + PHASE,
            where=where,
            remedy="The exponent's index runs from 0: base^0 = 1."
            if shifted
            else "Is a factor put on positions or frequencies?",
            cause="frequency-index-shifted" if shifted else "frequencies-too-fast",
        )


@check("rope.table", "ROPE-5", component="rope", views=("as given",))
def test_every_position_turns_one_step_further(view: View) -> None:
    """The angle grows evenly as far as the table goes, and is no parameter that training moves."""
    longest = min(view.subject.longest or 40, 40)
    if view.subject.convention.only_length is not None:
        longest = view.length
    inside = view.watch(view.random_ids(1, 1).expand(-1, longest))
    turns = {}
    for call in inside.recording.calls:
        found = turning(call.query) if is_still(call) else None
        if found is not None:
            turns[call.index] = (call, found)
    if not turns:
        not_applicable(NONE)
    half = view.subject.dtype in (torch.float16, torch.bfloat16)
    for call, turn in turns.values():
        where = {"view": view.name, **inside.place(call)}
        steps = wrapped(turn.angles.diff(dim=0) - turn.frequencies)
        judge(
            steps,
            0.0,
            "each position turns every pair by the same angle as the one before",
            fails="At position {position}, pair {pair} turns by a step that is off by {measured} "
            "radians from that of other positions",
            bound=16 * torch.finfo(view.subject.dtype).eps if half else PHASE,
            axes=("position", "pair"),
            where=where,
            remedy="Does a table end, start again, or hold rounded angles?",
            cause="table-uneven",
        )
        learned = _learned(view, turn.frequencies)
        require(
            learned is None,
            "the frequencies are fixed, not a parameter",
            fails="The frequencies are a parameter that training changes: {parameter}",
            where={**where, "parameter": learned},
            remedy="register_buffer keeps a tensor with the model without training it.",
            cause="frequencies-learned",
        )


def _is_geometric(found: Tensor, positions: int) -> bool:
    if len(found) < 3:
        return True
    expected = found[0] * (found[1] / found[0]) ** torch.arange(len(found))
    return bool(((found - expected).abs() <= PHASE * expected + PHASE / positions).all())


def _is_bent(found: Tensor, positions: int) -> bool:
    """Whether the series starts at 1 and falls by one factor but for a bend: a scaling.

    By one factor means in half of its steps at least, or at its very end; a tail of zeros is one of
    channels that do not turn.
    """
    found = found[found > PHASE / positions]
    steps = found[1:] / found[:-1]
    error = PHASE + 2 * PHASE / (positions * found[1:])
    same = (steps - steps[0]).abs() <= error
    never_less = bool((steps <= steps[0] + error).all())
    return (
        abs(float(found[0]) - 1) <= PHASE
        and never_less
        and (2 * int(same.sum()) >= len(same) or bool(same[-1]))
    )


def _is_configured(view: View) -> bool:
    """Whether the configuration names a scaling of the frequencies, which its adapter judges."""
    config = getattr(view.subject.model, "config", None)
    for name in ("rope_parameters", "rope_scaling"):
        said = getattr(config, name, None)
        entries = said.values() if isinstance(said, dict) else ()
        kinds = [said, *(entry for entry in entries if isinstance(entry, dict))]
        if any(
            isinstance(kind, dict)
            and kind.get("rope_type", kind.get("type", "default")) not in ("default", None)
            for kind in kinds
        ):
            return True
    return False


def _learned(view: View, frequencies: Tensor) -> str | None:
    """The parameter that holds the frequencies and would be trained, or None."""
    for name, parameter in view.model.named_parameters():
        values = parameter.detach().double().flatten().cpu()
        if not parameter.requires_grad or values.numel() not in (
            len(frequencies),
            2 * len(frequencies),
        ):
            continue
        if bool(((values[: len(frequencies)] - frequencies.cpu()).abs() <= PHASE).all()):
            return name
    return None


def _listed(frequencies: Tensor) -> str:
    return " ".join(f"{value:.4g}" for value in frequencies[:6].tolist())
