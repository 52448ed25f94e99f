"""`theodolite compare` as a person runs it."""

import pytest

DECODER = """
import torch, torch.nn.functional as F
from torch import nn

class Tiny(nn.Module):
    scale = 1.0

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(31, 24)
        self.qkv = nn.Linear(24, 72)
        self.out = nn.Linear(24, 24)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 31)

    def forward(self, ids):
        x = self.embed(ids)
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm(x)).view(B, T, 3, 3, 8).permute(2, 0, 3, 1, 4)
        scores = self.scale * q @ k.mT / 8**0.5
        scores = scores.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), float("-inf"))
        y = scores.softmax(-1) @ v
        return self.head(x + self.out(y.transpose(1, 2).reshape(B, T, C)))

class Louder(Tiny):
    scale = 2.0
"""


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.py").write_text(DECODER)
    return tmp_path


def test_equal_models_end_with_0_and_parted_ones_with_1(theodolite, tiny):
    same = theodolite("compare", "tiny.py:Tiny", "tiny.py:Tiny", "--write-map", "map.toml")
    assert same.status == 0, same.err
    assert same.out.startswith("EQUAL  tiny.py:Tiny  and  tiny.py:Tiny")
    assert '"head.weight" = "head.weight[0:31]"' in (tiny / "map.toml").read_text()
    other = theodolite("compare", "tiny.py:Tiny", "tiny.py:Louder")
    assert other.status == 1
    assert "They part at the scores of layer 0: b is a times 2." in other.out
    assert "tiny.py:" in other.out


def test_a_trace_is_compared_like_its_model(theodolite, tiny):
    assert theodolite("compare", "tiny.py:Tiny", "--record", "t.safetensors").status == 0
    assert theodolite("compare", "t.safetensors", "tiny.py:Tiny").status == 0
    found = theodolite("compare", "t.safetensors", "tiny.py:Louder", "--json", "-")
    assert found.status == 1
    assert found.json["partings"][0]["role"] == "scores"
    assert found.json["a"] == "tiny.py:Tiny"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tiny.py:Tiny"], "name two models"),
        (["tiny.py:Tiny", ""], "B is empty"),
        (["nowhere.safetensors", "tiny.py:Tiny"], "there is no file nowhere.safetensors"),
        (["tiny.py:Tiny", "tiny.py:Tiny", "--record", "x.safetensors"], "leave out B"),
        (["tiny.py:Tiny", "tiny.py:Tiny", "--map", "none.toml"], "none.toml cannot be read"),
        (["tiny.py:Tiny", "tiny.py:Tiny", "--b", "dtype=float3"], "Did you mean float32"),
    ],
)
def test_what_a_person_gets_wrong_is_a_sentence(theodolite, tiny, words, says):
    found = theodolite("compare", *words)
    assert found.status == 2
    assert says in found.err
    assert "Traceback" not in found.err


def test_models_of_other_sizes_are_a_sentence(theodolite, tiny):
    text = DECODER.replace("24", "32").replace("72", "96").replace("3, 3, 8", "3, 4, 8")
    (tiny / "wide.py").write_text(text)
    found = theodolite("compare", "tiny.py:Tiny", "wide.py:Tiny")
    assert found.status == 3
    assert "a stream of 24 channels in A, of 32 in B" in found.out
