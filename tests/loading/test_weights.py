"""Weights from a file: taken whole, or refused in a sentence."""

import pytest
import torch

from theodolite.fixtures.errors import SubjectError, UsageError
from theodolite.fixtures.subject.subject import Subject

from .as_audited import load
from .sources import MODEL

DEFAULTS = MODEL.replace("self, vocab_size, d_model", "self, vocab_size=11, d_model")


@pytest.fixture
def path(write):
    return write(DEFAULTS)


@pytest.fixture
def trained(path):
    """The weights of a model that is not fresh."""
    torch.manual_seed(3)
    model = load(f"{path}:Model", as_configured=True).model
    return {name: torch.randn_like(value) for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    "held",
    [
        lambda weights: weights,
        lambda weights: {"model": weights, "step": 3},
        lambda weights: {"_orig_mod." + name: value for name, value in weights.items()},
        lambda weights: {"state_dict": {"module." + n: v for n, v in weights.items()}},
    ],
    ids=["bare", "under a key", "of a compiled model", "of a wrapped model"],
)
def test_the_weights_of_a_file_are_taken(held, path, trained, tmp_path):
    torch.save(held(trained), tmp_path / "trained.pt")
    loaded = load(f"{path}:Model", weights=tmp_path / "trained.pt")
    for model in (loaded.model, loaded.rebuild()):
        assert all(torch.equal(v, trained[n]) for n, v in model.state_dict().items())
    assert "its weights are those of trained.pt" in loaded.notes


def test_safetensors_are_taken(path, trained, tmp_path):
    pytest.importorskip("safetensors.torch").save_file(trained, tmp_path / "a.safetensors")
    loaded = load(f"{path}:Model", weights=tmp_path / "a.safetensors")
    assert torch.equal(loaded.model.head.weight, trained["head.weight"])


def test_a_model_with_given_weights_is_not_fresh(path, trained, tmp_path):
    torch.save(trained, tmp_path / "trained.pt")
    assert not Subject.load(f"{path}:Model", weights=tmp_path / "trained.pt").fresh
    assert Subject.load(f"{path}:Model").fresh


def test_weights_that_are_missing_are_named(path, trained, tmp_path):
    del trained["head.weight"]
    torch.save(trained, tmp_path / "trained.pt")
    with pytest.raises(SubjectError, match=r"trained.pt lacks 1 of the 15 weights of Model: head"):
        load(f"{path}:Model", weights=tmp_path / "trained.pt")


def test_weights_of_another_size_say_both_shapes(path, trained, tmp_path):
    torch.save(trained, tmp_path / "trained.pt")
    with pytest.raises(SubjectError, match=r"embedding.weight is \(11, 32\) there and \(13, 32\)"):
        load(f"{path}:Model", settings={"vocab_size": 13}, weights=tmp_path / "trained.pt")


def test_more_than_the_model_takes_is_said(path, trained, tmp_path):
    torch.save(trained | {"mask": torch.ones(3)}, tmp_path / "trained.pt")
    loaded = load(f"{path}:Model", weights=tmp_path / "trained.pt")
    assert "trained.pt has more than it takes: mask" in loaded.notes


def test_code_in_a_file_is_not_run(path, tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pt")
    with pytest.raises(SubjectError, match=r"without running code from it .*: save model.state_d"):
        load(f"{path}:Model", weights=tmp_path / "whole.pt")


def test_a_file_that_is_not_there_says_so(path, tmp_path):
    with pytest.raises(SubjectError, match=r"There is no file .*trained.pt"):
        load(f"{path}:Model", weights=tmp_path / "trained.pt")


def test_a_live_model_has_its_own_weights(path):
    with pytest.raises(UsageError, match="leave out --weights"):
        load(torch.nn.Linear(2, 2), weights="trained.pt")


def test_weights_that_a_checkpoint_lacks_are_named(tmp_path):
    pytest.importorskip("transformers")
    safetensors = pytest.importorskip("safetensors.torch")
    load("hf:llama").model.save_pretrained(tmp_path)
    weights = safetensors.load_file(tmp_path / "model.safetensors")
    del weights["model.norm.weight"]
    safetensors.save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(SubjectError, match=r"lack model.norm.weight: .* Save the model whole"):
        load(f"hf:{tmp_path}")
