"""Every operation keeps the lines of the subject's own code that made it."""

import linecache
import sys
import textwrap

import pytest
import torch
from torch import nn

from theodolite.fixtures.judging.source_line import line_of_module, line_of_traceback, own_spots
from theodolite.fixtures.recording import record

TEXT = textwrap.dedent("""
    import torch
    from torch import nn
    import torch.nn.functional as F

    def scaled(q, k):
        return q @ k.mT / 2

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(4, 4) for _ in "qkv")

        def forward(self, x):
            q, k, v = self.q(x), self.k(x), self.v(x)
            scores = scaled(q, k)
            later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
            scores = scores.masked_fill(later, float("-inf"))
            weights = [F.softmax(s, dim=-1) for s in [scores]][0]
            return weights @ v

    class Fused(Attention):
        def forward(self, x):
            return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), is_causal=True)
""")


def line_with(text):
    return next(i for i, line in enumerate(TEXT.splitlines(), 1) if text in line)


def executed(name):
    """The classes of `TEXT`, whose source only `linecache` knows, as of a notebook's cell."""
    linecache.cache[name] = (len(TEXT), None, TEXT.splitlines(keepends=True), name)
    namespace = {"__name__": "cell"}
    exec(compile(TEXT, name, "exec"), namespace)
    return namespace


@pytest.fixture(params=["<ipython-input-3-abc>", "/nowhere/model.py"])
def cell(request):
    yield executed(request.param)
    del linecache.cache[request.param]


def attention_in(model):
    x = torch.randn(2, 5, 4)
    return record(model, lambda: model(x)).calls[0]


@pytest.mark.parametrize(
    ("part", "text", "function"),
    [
        ("scores", "q @ k.mT", "scaled"),
        ("softmax", "F.softmax", "Attention.forward"),
        ("output", "weights @ v", "Attention.forward"),
    ],
)
def test_each_part_of_an_attention_names_its_line(cell, part, text, function):
    steps = attention_in(cell["Attention"]()).steps
    line = getattr(steps, part).spots[0].source()
    assert (line.line, line.function) == (line_with(text), function)
    assert text in line.code


def test_the_lines_that_called_a_helper_are_kept_outwards(cell):
    spots = attention_in(cell["Attention"]()).steps.scores.spots
    assert [spot.line for spot in spots[:2]] == [line_with("q @ k.mT"), line_with("= scaled")]


def test_mask_and_scale_lie_between_scores_and_weights(cell):
    steps = attention_in(cell["Attention"]()).steps
    assert [step.name for step in steps.between] == ["softmax", "masked_fill", "div"]
    assert steps.between[1].spots[0].line == line_with("scores.masked_fill")


def test_a_fused_attention_is_one_line(cell):
    steps = attention_in(cell["Fused"]()).steps
    assert steps.scores is steps.output
    assert steps.scores.spots[0].source().function == "Fused.forward"


def test_a_module_has_the_line_of_its_forward(cell):
    line = line_of_module(cell["Attention"]())
    assert (line.line, line.function) == (line_with("def forward"), "Attention.forward")
    assert line_of_module(nn.Linear(2, 2)) is None


def test_a_crash_names_the_innermost_line_of_the_subject(cell):
    try:
        cell["Attention"]()(torch.randn(2, 5, 3))
    except RuntimeError:
        line = line_of_traceback(sys.exc_info()[2])
    assert "self.q(x)" in line.code


def test_nothing_of_torch_or_the_harness_is_a_subjects_line():
    assert all(spot.code.co_filename == __file__ for spot in own_spots())
