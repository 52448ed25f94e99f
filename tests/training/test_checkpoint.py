"""Checkpoints that fit, that do not fit, and that are damaged."""

import json

import pytest
import torch

from theodolite.fixtures.oracles.corpus import story
from theodolite.reference import GPTConfig
from theodolite.reference.checkpoint import (
    CheckpointError,
    holds_checkpoint,
    resume,
    save_checkpoint,
)
from theodolite.reference.training import TextRun, TrainingSettings

SETTINGS = TrainingSettings(batch=4, context=16)
SHAPE = GPTConfig(width=16, layers=2, heads=2)
TEXT = story()[:6000]


def begin(text=TEXT, settings=SETTINGS, shape=SHAPE):
    return TextRun.begin(text, settings, shape)


def advance(run, steps):
    return [record.train for record in run.steps(steps, 10)]


def snapshot(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def saved(tmp_path):
    run = begin()
    advance(run, 12)
    save_checkpoint(run, tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "shape",
    [
        SHAPE,
        GPTConfig(width=16, layers=2, heads=2, tied=True),
        GPTConfig(width=16, layers=1, heads=2, norm="layernorm", bias=True, positions="learned",
                  context=16),
    ],
    ids=["article", "tied", "learned positions"],
)  # fmt: skip
def test_a_resumed_run_goes_on_to_the_last_digit(tmp_path, shape):
    whole, first, second = (begin(shape=shape) for _ in range(3))
    advance(first, 12)
    save_checkpoint(first, tmp_path)
    resume(second, tmp_path)
    assert advance(second, 25) == advance(whole, 25)[12:]
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(second.model.state_dict()[name], weight), name


def test_before_the_first_step_there_is_something_to_save_too(tmp_path):
    save_checkpoint(begin(), tmp_path)
    run = begin()
    resume(run, tmp_path)
    assert advance(run, 3) == advance(begin(), 3)


def test_a_later_checkpoint_takes_the_place_of_the_earlier(saved):
    run = begin()
    resume(run, saved)
    (saved / "notes.txt").write_text("mine")
    advance(run, 15)
    save_checkpoint(run, saved)
    assert {file.name for file in saved.iterdir()} == {
        "state.json",
        "step-000015.safetensors",
        "notes.txt",
    }


def test_a_save_that_was_cut_short_leaves_the_checkpoint_before_it(saved):
    """As a kill between the two files of the next checkpoint would leave the folder."""
    (saved / "step-000014.safetensors").write_bytes(b"half")
    (saved / ".state.json.part").write_text('{"schema": "the')
    run = begin()
    resume(run, saved)
    assert run.trainer.step == 12


def test_the_folder_without_a_checkpoint_holds_none(tmp_path):
    assert not holds_checkpoint(tmp_path)
    assert not holds_checkpoint(tmp_path / "missing")


OTHERS = {
    "shape": ({"shape": GPTConfig(width=16, layers=3, heads=2)}, "layers 2, and this one has lay"),
    "kind": ({"shape": GPTConfig(width=16, layers=2, heads=2, norm="layernorm")}, "norm rmsnorm"),
    "rate": ({"settings": TrainingSettings(batch=4, context=16, learning_rate=1e-3)}, "learning_r"),
    "seed": ({"settings": TrainingSettings(batch=4, context=16, seed=1)}, "seed 0"),
    "text": ({"text": TEXT[:-1]}, "a run on another text"),
}


@pytest.mark.parametrize(("other", "says"), OTHERS.values(), ids=OTHERS)
def test_a_checkpoint_of_another_run_is_refused(saved, other, says):
    before = snapshot(saved)
    run = begin(**other)
    weights = {name: weight.clone() for name, weight in run.model.state_dict().items()}
    with pytest.raises(CheckpointError, match=says):
        resume(run, saved)
    assert all(torch.equal(run.model.state_dict()[name], w) for name, w in weights.items())
    assert run.trainer.step == 0
    assert snapshot(saved) == before


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))


DAMAGES = {
    "tensors cut off": lambda folder: cut(folder / "step-000012.safetensors"),
    "tensors changed": lambda folder: flip(folder / "step-000012.safetensors"),
    "tensors missing": lambda folder: (folder / "step-000012.safetensors").unlink(),
    "state cut off": lambda folder: cut(folder / "state.json"),
    "state binary": lambda folder: (folder / "state.json").write_bytes(b"\xff\xfe"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_left_alone(saved, damage):
    damage(saved)
    before = snapshot(saved)
    with pytest.raises(CheckpointError, match=r"damaged: .* was cut off or changed .* a copy"):
        resume(begin(), saved)
    assert snapshot(saved) == before


@pytest.mark.parametrize("document", ["[]", "{}", '{"schema": "theodolite-training/1"}'])
def test_another_document_is_no_state(saved, document):
    (saved / "state.json").write_text(document)
    with pytest.raises(CheckpointError, match="is not the state of a training run"):
        resume(begin(), saved)


def test_tensors_that_the_state_does_not_promise_are_refused(saved):
    state = json.loads((saved / "state.json").read_text())
    state["step"] = 13
    (saved / "state.json").write_text(json.dumps(state))
    with pytest.raises(CheckpointError, match=r"does not hold what state\.json promises"):
        resume(begin(), saved)


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="could not be written"):
        save_checkpoint(begin(), tmp_path / "file")
