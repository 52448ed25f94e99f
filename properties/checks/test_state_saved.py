"""AUD-9 on a subject: put together again, and used before, it is the same model."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import PropertyFailure, judge, not_applicable, require
from theodolite.fixtures.relations.registration import fingerprints, tied_names
from theodolite.fixtures.relations.save_and_rebuild import from_files, from_nothing, is_pretrained
from theodolite.fixtures.serving.decoder import Decoder
from theodolite.fixtures.serving.driver import Driver
from theodolite.fixtures.serving.finding_decoder import decoder_of
from theodolite.fixtures.serving.finding_writer import writer_of
from theodolite.fixtures.serving.writer import Writer
from theodolite.fixtures.subject.subject import Subject
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

AXES = ("row", "position", "token")
_FILLED = "built on the meta device and filled"


@check("state.files", "AUD-9", component="state", views=("sharpened",))
def test_a_model_read_from_the_files_that_it_writes_is_the_same_model(view: View) -> None:
    """By its own save_pretrained and from_pretrained: weights, buffers that no file holds, ties."""
    if not is_pretrained(view.model):
        not_applicable("the model has no save_pretrained and from_pretrained of its own")
    if view.obstacle:
        not_applicable(view.obstacle)
    try:
        other = from_files(view.model)
    except SubjectError as error:
        not_applicable(str(error))
    _require_same(view, other, "read from its files")


@check("state.meta", "AUD-9", component="state", views=("sharpened",))
def test_a_model_built_on_the_meta_device_and_filled_is_the_same_model(view: View) -> None:
    """Built without memory, given some, refilled by its own methods, loaded with saved weights."""
    subject = view.subject
    if subject.loaded.rebuild is None:
        not_applicable(
            "a live object cannot be built a second time: name its class or a factory to judge this"
        )
    if view.obstacle:
        not_applicable(view.obstacle)
    meant = subject.declarations.get("meta_device")
    if meant is False:
        not_applicable("the model is declared not to be built on the meta device")
    try:
        _require_same(view, from_nothing(subject, view.model), _FILLED)
    except (SubjectError, PropertyFailure) as error:
        if meant and isinstance(error, PropertyFailure):
            raise
        require(
            not meant,
            "the model can be built on the meta device, as declared",
            fails=f"The model cannot be built on the meta device, though this is declared: {error}",
            remedy="Is a value asked for while the model is built (.item(), a comparison)?",
            cause="not-on-meta",
        )
        not_applicable(
            f"nothing says that the model is meant to be built on the meta device ({error}) "
            "Declare meta_device=true to hold it to that."
        )


@check("state.used", "AUD-9", component="state", views=("sharpened",))
def test_a_model_that_has_decoded_is_as_it_was(view: View) -> None:
    """A forward gives the same logits before and after decoding with a cache, and writing on."""
    if view.obstacle:
        not_applicable(view.obstacle)
    subject, ids = view.subject, view.random_ids(3)
    before = view.logits(ids)
    done = False
    decoder, writer = decoder_of(subject), writer_of(subject)
    if isinstance(decoder, Decoder):
        model = view.copy() if decoder.inside else view.model
        driver = Driver(view, decoder, model)
        state = fingerprints(model.state_dict())
        try:
            driver.read_in(view.random_ids(driver.batch, seed=1), _pieces(view.length))
        except SubjectError as error:
            not_applicable(f"not judged: {error} (see cache.steps)")
        if decoder.inside:
            decoder.start(model, len(ids))
        _judge_used(subject, model, ids, before, state, f"decoding by {decoder.said}")
        done = True
    if isinstance(writer, Writer):
        state = fingerprints(view.model.state_dict())
        try:
            writer.write(view, view.random_ids(1, 3, seed=2), 4)
        except SubjectError as error:
            not_applicable(f"not judged: {error} (see generation.prompt)")
        _judge_used(subject, view.model, ids, before, state, writer.said)
        done = True
    if not done:
        not_applicable("the model neither decodes with a cache nor writes on by itself")


def _judge_used(
    subject: Subject,
    model: nn.Module,
    ids: Tensor,
    before: Tensor,
    state: Mapping[str, str],
    after: str,
) -> None:
    kept = fingerprints(model.state_dict())
    changed = [n for n, print_ in state.items() if n in kept and kept[n] != print_]
    require(
        not changed,
        f"{after} changes no parameter and no saved buffer",
        fails=f"{after[0].upper()}{after[1:]} changes what it should only read: {{tensor}}",
        where={"tensor": ", ".join(changed[:4])},
        remedy="Is a table or counter kept in the model written to, and not put back?",
        cause="changed-by-decoding",
    )
    judge(
        subject.run(model, ids),
        before,
        f"after {after} a forward gives the logits that it gave before",
        fails=f"After {after} a forward gives logits that are off by {{measured}} from those "
        "before it",
        axes=AXES,
        remedy="Is something of the decoding (an offset, a cache, frequencies scaled for a longer "
        "text) left in the model?",
        cause="changed-by-decoding",
    )


def _pieces(length: int) -> list[int]:
    prompt = max(1, length - 3)
    return [prompt, *([1] * (length - prompt))]


def _require_same(view: View, other: nn.Module, how: str) -> None:
    unlike = _unlike(view.model, other)
    require(
        not unlike,
        f"{how}, every parameter and buffer is what it was",
        fails=f"{how[0].upper()}{how[1:]}, the model has other numbers in {{tensor}}",
        where={"tensor": ", ".join(unlike[:4])},
        remedy="Is it in no file (persistent=False, a plain tensor) and computed in __init__ "
        "alone? Compute it again where weights are initialised, or save it.",
        cause="left-unfilled",
    )
    ids = view.random_ids(2)
    judge(
        view.subject.run(other, ids, view.extra(ids)),
        view.logits(ids),
        f"{how}, the model gives the same logits",
        fails=f"{how[0].upper()}{how[1:]}, the model gives logits that are off by {{measured}}",
        bound=view.relation_bound,
        axes=AXES,
        remedy="Does it hold state that is no parameter and no buffer?",
        cause="left-unfilled",
    )
    tied = tied_names(view.model)
    require(
        tied_names(other) == tied,
        f"{how}, weights that were tied are tied",
        fails=f"{how[0].upper()}{how[1:]}, the model no longer has its tied weights tied: {{tied}}",
        where={"tied": ", ".join("=".join(group) for group in tied)},
        remedy="Tie again after weights are replaced: a method that both loading and "
        "construction call.",
        component="tying",
        cause="tie-broken",
    )


def _unlike(model: nn.Module, other: nn.Module) -> list[str]:
    """Names of parameters and buffers in which the two differ, or that one of them lacks.

    Of a buffer that no file holds the rows that both have are compared: a table may have grown with
    the lengths that were read.
    """
    saved = model.state_dict().keys()
    mine, theirs = (
        {**dict(m.named_parameters(remove_duplicate=False)), **dict(m.named_buffers())}
        for m in (model, other)
    )
    return [
        name
        for name, tensor in mine.items()
        if name not in theirs
        or not _same(*_comparable(theirs[name].to(tensor.device), tensor, whole=name in saved))
    ]


def _comparable(one: Tensor, other: Tensor, *, whole: bool) -> tuple[Tensor, Tensor]:
    """The two as they are, or the rows that both have."""
    if whole or not one.ndim or one.shape[1:] != other.shape[1:]:
        return one, other
    rows = min(len(one), len(other))
    return one[:rows], other[:rows]


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(torch.nan_to_num(one), torch.nan_to_num(other)) and torch.equal(
        one.isnan(), other.isnan()
    )
