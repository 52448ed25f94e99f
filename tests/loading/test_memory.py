"""What a constructor leaves unfilled is found, and does not make a verdict a matter of chance."""

import torch
from torch import nn

from theodolite import audit
from theodolite.fixtures.source.unfilled_memory import left_unfilled, without_chance

from .as_audited import load

SOURCE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, vocab_size=31, d=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d)
        self.norm = nn.LayerNorm(d)
        self.mix = nn.Parameter(torch.Tensor(d, d))
        self.head = nn.Linear(d, vocab_size)

    def forward(self, ids):
        return self.head(self.norm(self.embedding(ids) @ self.mix))


net = Net()
"""


class Written(nn.Module):
    """NaN that somebody wrote stays, memory that nobody filled does not."""

    def __init__(self, vocab_size=31, d=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d)
        self.gain = nn.Parameter(torch.empty(d))
        self.bias = nn.Parameter(torch.full((d,), torch.nan))

    def forward(self, ids):
        return (self.embedding(ids) * self.gain + self.bias) @ self.embedding.weight.T


def test_an_unfilled_matrix_is_named_and_the_rest_is_judged(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(SOURCE)
    for name in ("Net", "net"):  # a class, and a model that the file makes itself
        report = audit(f"{file}:{name}", select=("init", "state", "shape"))
        assert [check.id for check in report.failures] == ["init.reproducible"]
        assert "mix" in report.failures[0].message
        assert any("nothing fills mix" in note for note in report.notes)


def test_numbers_in_place_of_unfilled_memory_are_the_same_every_time():
    one, other = load(Written).model, load(Written).model
    assert torch.equal(one.gain, other.gain)
    assert not one.gain.isnan().any()


def test_nan_that_was_written_is_not_called_unfilled():
    model = load(Written).model
    assert left_unfilled(model) == ("gain",)
    assert model.bias.isnan().all()


def test_a_model_that_is_filled_is_built_once():
    made = []

    def build():
        made.append(nn.Linear(4, 4))
        return made[-1]

    assert without_chance(build) is made[0]
    assert len(made) == 1
