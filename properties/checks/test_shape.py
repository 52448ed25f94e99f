"""AUD-11: ids of every shape and layout give logits."""

from __future__ import annotations

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import fail, judge, not_applicable, require
from theodolite.fixtures.subject.subject import Subject
from theodolite.fixtures.subject.view import View
from theodolite.properties import check


@check("shape.runs", "AUD-11", component="shape", gate=True)
def test_it_runs_on_batches_and_odd_lengths(subject: Subject) -> None:
    """Ids (B, T) give logits (B, T, V), for B = 1, 2, 3 and odd T."""
    if subject.convention.only_length is not None:
        fail(
            "the model runs at every length",
            fails="The model runs at length {works} alone",
            where={"works": subject.convention.only_length},
            remedy="are positions, masks or buffers cut to the length of the input ([:T])?",
        )
    widths = set()
    for batch, length in ((1, 5), (2, subject.length), (3, 7)):
        length = min(length, subject.longest or length)  # noqa: PLW2901
        try:
            logits = subject.run(subject.model, subject.random_ids(batch, length))
        except SubjectError as error:
            fail(
                f"the model runs on ids of shape ({batch}, {length})",
                fails=f"The model does not run on ids of shape ({batch}, {length}): {error}",
                where={"batch": batch, "length": length},
                remedy="is a size written down that should be read from the input?",
            )
        widths.add(logits.shape[-1])
    require(
        len(widths) == 1,
        "the logits are as wide for every input",
        fails="The logits are as wide as the vocabulary for some inputs alone: widths "
        f"{sorted(widths)}",
    )


AXES = ("row", "position", "token")


@check("shape.layout", "AUD-11", component="shape")
def test_how_ids_lie_in_memory_does_not_matter(view: View) -> None:
    """Non-contiguous ids and int32 ids give the same logits, or are refused."""
    if view.name != "as given":
        not_applicable(
            "how ids lie in memory does not depend on the weights: judged as given alone"
        )
    ids = view.random_ids(2)
    expected = view.logits(ids)
    for says, same in (
        ("ids that are not contiguous", ids.t().contiguous().t()),
        ("int32 ids", ids.int()),
    ):
        try:
            logits = view.logits(same)
        except SubjectError:
            continue
        judge(
            logits,
            expected,
            f"{says} give the same logits",
            fails=f"{says[0].upper()}{says[1:]} give logits that are off by {{measured}}",
            axes=AXES,
            remedy="is a view taken over memory instead of reshape?",
        )
