"""What a copy leaves in caches, classes and globals is not there for the model under audit."""

from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from decoders import HEADS, VOCABULARY, WIDTH, feed_forward
from torch import nn

import theodolite
from theodolite.fixtures.source.memoised_state import Memory
from theodolite.fixtures.subject.subject import Subject

HEAD = WIDTH // HEADS
SOURCE = """
from functools import lru_cache
import torch
from torch import nn
import torch.nn.functional as F

TABLES = {}
LATEST = None

class Tables:
    kept = {}
    latest = None

def angles(length, like):
    steps = 100.0 ** (-torch.arange(0, HEAD, 2, device=like.device, dtype=like.dtype) / HEAD)
    places = torch.arange(length, device=like.device, dtype=like.dtype)
    return torch.outer(places, steps)

def in_global(length, like):
    if length not in TABLES:
        TABLES[length] = angles(length, like)
    return TABLES[length]

def in_binding(length, like):
    global LATEST
    if LATEST is None or len(LATEST) < length:
        LATEST = angles(length, like)
    return LATEST[:length]

def in_class(length, like):
    if length not in Tables.kept:
        Tables.kept[length] = angles(length, like)
    return Tables.kept[length]

def in_attribute(length, like):
    if Tables.latest is None or len(Tables.latest) < length:
        Tables.latest = angles(length, like)
    return Tables.latest[:length]

LIKE = None

@lru_cache(maxsize=None)
def remembered(length):
    return angles(length, LIKE)

def in_cache(length, like):
    global LIKE
    LIKE = like
    return remembered(length)

class Block(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = table
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.network = feed_forward()

    def forward(self, x):
        y = self.first(x)
        q, k, v = (z.unflatten(-1, (HEADS, -1)).transpose(1, 2) for z in self.qkv(y).chunk(3, -1))
        turns = self.table(x.shape[1], x)
        cos, sin = turns.cos(), turns.sin()
        def turn(z):
            a, b = z.chunk(2, -1)
            return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)
        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.network(self.second(x))

class Model(nn.Module):
    def __init__(self, where: str = "in_global"):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(globals()[where]) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
"""
SOME = ["rope", "precision", "gradient", "state"]
PLACES = ("in_global", "in_binding", "in_class", "in_attribute", "in_cache")


def module():
    names = {
        "__name__": "somebody", "HEAD": HEAD, "WIDTH": WIDTH, "HEADS": HEADS,
        "VOCABULARY": VOCABULARY, "feed_forward": feed_forward,
    }  # fmt: skip
    exec(SOURCE, names)
    return names


@pytest.mark.parametrize("where", PLACES)
def test_a_memoised_table_accuses_nobody(where):
    report = theodolite.audit(module()["Model"](where), select=SOME)
    assert not report.failures, [check.message for check in report.failures]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_table_of_a_copy_is_not_the_model_s(where, dtype):
    subject = Subject.load(module()["Model"](where))
    ids = subject.random_ids(2, 70)
    alone = subject.run(subject.model, ids[:, :69])
    subject.run(subject.copy().to(dtype), ids)
    after = subject.run(subject.model, ids)
    assert after.dtype == torch.float32
    torch.testing.assert_close(after[:, :69], alone, atol=1e-5, rtol=0)
    with torch.autocast("cpu", torch.bfloat16):
        subject.run(subject.model, ids[:, :68])
    torch.testing.assert_close(subject.run(subject.model, ids[:, :68]), alone[:, :68])


def test_a_class_that_memoises_is_built_and_passes():
    report = theodolite.audit(module()["Model"], settings={"where": "in_binding"}, select=SOME)
    assert not report.failures, [check.message for check in report.failures]


def test_a_table_is_kept_as_the_audit_found_it():
    names = module()
    model = names["Model"]("in_global")
    model(torch.zeros(1, 5, dtype=torch.long))
    kept = names["TABLES"][5]
    theodolite.audit(model, select=["precision", "shape"])
    assert list(names["TABLES"]) == [5]
    assert names["TABLES"][5] is kept


def test_what_is_put_back_is_what_was_there():
    names = module()
    memory = Memory([names["Model"]])
    names["TABLES"][1] = torch.ones(1)
    before = memory.state()
    names["TABLES"].update({2: torch.ones(2)})
    names["LATEST"] = torch.ones(3)
    names["Tables"].latest = torch.ones(4)
    names["Tables"].fresh = [1]
    names["ADDED"] = {}
    names["remembered"].__wrapped__.__globals__["LIKE"] = torch.ones(1)
    memory.put_back(before)
    assert list(names["TABLES"]) == [1]
    assert names["LATEST"] is None
    assert names["Tables"].latest is None
    assert not hasattr(names["Tables"], "fresh")
    assert "ADDED" not in names


def test_libraries_are_left_alone():
    assert not Memory([nn.Linear(1, 1), F.relu]).state()


class Made(OrderedDict):
    """A library's table of kinds, which makes one of a kind when it is asked for."""

    def __getitem__(self, key):
        return super().__getitem__(key)()


def test_a_table_that_makes_what_is_asked_for_is_left_alone():
    def forward():
        return KINDS  # noqa: F821 - looked up in the names below

    names = {"__name__": "somebody", "KINDS": Made(relu=nn.ReLU)}
    function = type(forward)(forward.__code__, names)
    names["forward"] = function
    memory = Memory([function])
    memory.put_back(memory.state())
    assert isinstance(names["KINDS"]["relu"], nn.ReLU)


class Lazy:
    """Stands for something that cannot be had, and says so whatever it is asked for."""

    def __getattr__(self, name):
        raise ModuleNotFoundError(f"No module named {name!r}")


def test_an_object_that_looks_up_what_it_is_asked_for_is_not_asked():
    names = module()
    names["LAZY"], names["Tables"].lazy = Lazy(), Lazy()
    memory = Memory([names["Model"]])
    memory.put_back(memory.state())
