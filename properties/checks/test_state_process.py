"""AUD-9: a forward leaves the process as it was, and nothing behind that grows."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from theodolite.fixtures.errors import SubjectError
from theodolite.fixtures.judging.judgement import not_applicable, require
from theodolite.fixtures.relations.growth import growing
from theodolite.fixtures.source.process_state import process_state
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties import check

_CALLS = 4


@check("state.process", "AUD-9", component="state")
def test_a_forward_leaves_the_process_as_it_was(subject: Subject) -> None:
    """Torch's defaults and flags, environment and working directory; and no file is written."""
    ids = subject.random_ids(2)
    with subject.limits(), tempfile.TemporaryDirectory() as empty:
        home, environment = Path.cwd(), dict(os.environ)
        os.chdir(empty)
        before = process_state()
        try:
            subject.convention.call(subject.model, ids.to(subject.device))
        except Exception:  # it may read a file by a relative path: ask again at home
            os.chdir(home)
            before = process_state()
            with subject.telling(ids):
                subject.convention.call(subject.model, ids.to(subject.device))
        after = process_state()
        written = sorted(file.name for file in Path(empty).iterdir())
        moved = sorted(n for n in {*environment, *os.environ} if _differs(n, environment))
        os.chdir(home)
    changed = [name for name, value in before.items() if after.get(name) != value]
    require(
        not changed,
        "a forward leaves torch's defaults and flags, and the working directory, as they were",
        fails="A forward changes settings of the whole process: {changed}",
        where={"changed": ", ".join(changed[:4])},
        remedy="use a context manager (with torch.no_grad(), torch.device(...)) instead of setting "
        "it for the whole process",
        cause="changes-the-process",
    )
    require(
        not moved,
        "a forward leaves the environment variables as they were",
        fails="A forward changes environment variables: {changed}",
        where={"changed": ", ".join(moved[:4])},
        remedy="set what a library needs once, before it is imported",
        cause="changes-the-process",
    )
    require(
        not written,
        "a forward writes no file into the working directory",
        fails="A forward writes into the working directory: {file}",
        where={"file": ", ".join(written[:4])},
        remedy="is a debugging dump (torch.save, open(..., 'w')) left in forward?",
        cause="writes-files",
    )


@check("state.seed", "AUD-9", component="state")
def test_a_forward_seeds_no_random_generator(subject: Subject) -> None:
    """From two states of a generator it comes to two: in evaluation, and in train mode."""
    ids = subject.random_ids(2).to(subject.device)
    try:
        model = subject.copy()  # a forward in train mode may update running statistics
    except SubjectError as error:
        not_applicable(str(error))
    for training in (False, True):
        ends = []
        for seed in (1, 2):
            with subject.limits(seed):
                kept = np.random.get_state()  # noqa: NPY002 - the global one is meant
                np.random.seed(seed)  # noqa: NPY002
                try:
                    model.train(training)
                    with subject.telling(ids):
                        subject.convention.call(model, ids)
                finally:
                    ends.append(_generators())
                    np.random.set_state(kept)  # noqa: NPY002
        seeded = [name for name, state in ends[0].items() if state == ends[1][name]]
        require(
            not seeded,
            "a forward does not seed the random generators of the process",
            fails="A forward in {mode} mode seeds the random generator of the process: {generator}",
            where={"generator": ", ".join(seeded), "mode": "train" if training else "evaluation"},
            remedy="with manual_seed in forward every step drops the same units, and whoever "
            "samples from the logits draws the same number every time; use a torch.Generator",
            cause="seeds-in-forward",
        )


@check("state.growth", "AUD-9", component="state")
def test_calls_leave_nothing_behind_that_grows(subject: Subject) -> None:
    """Lists, dicts and tensors that a model keeps hold as much after each of the same calls."""
    ids = subject.random_ids(2)

    def call() -> None:
        with torch.no_grad():
            subject.raw(subject.model, ids)

    with subject.telling(ids):
        found = growing(subject.model, call, _CALLS)
    require(
        not found,
        f"nothing that the model keeps grows with every call ({_CALLS} times the same ids)",
        fails=f"Something that the model keeps grows with each of {_CALLS} calls on the same ids",
        where=dict(list(found.items())[:3]),
        remedy="is each call's output or attention appended to a list that nobody empties?",
        cause="grows-with-calls",
    )


def _differs(name: str, environment: dict[str, str]) -> bool:
    ours = name.startswith("PYTEST_")  # pytest tells there which test runs
    return not ours and environment.get(name) != os.environ.get(name)


def _generators() -> dict[str, Any]:
    numbers: Any = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "random": random.getstate(),
        "numpy": (np.asarray(numbers[1]).tobytes(), numbers[2]),
    }
