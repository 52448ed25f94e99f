"""The choices that everybody makes: advice on them, and the published shapes that make them."""

from __future__ import annotations

import math
from typing import TypedDict

import pytest
import torch
from hypothesis import strategies as st

from theodolite.fixtures.anatomy import advice as adviser
from theodolite.fixtures.judging.judgement import exactly, judge, none_of, require
from theodolite.fixtures.oracles.strategies import drawn
from theodolite.properties import claim
from theodolite.reference import config, model, parameters


class Choices(TypedDict, total=False):
    """The arguments of `advice`."""

    width: int
    layers: int
    heads: int
    head_width: int
    feed_forward_width: int
    gated: bool
    vocabulary: int
    dropout: float | None
    weight_decay: float | None


MAINSTREAM: Choices = {
    "width": 4096,
    "layers": 32,
    "heads": 32,
    "head_width": 128,
    "feed_forward_width": 11008,
    "gated": True,
    "vocabulary": 32000,
    "dropout": 0.0,
    "weight_decay": 0.1,
}
"""LLaMA-2 7B's, as trained."""

UNUSUAL: dict[str, tuple[Choices, tuple[str, ...]]] = {
    "d_ff of 4·d with a gate": ({"feed_forward_width": 16384}, ("4.00", "8/3")),
    "d_ff of 8/3·d without one": ({"gated": False}, ("2.69", "usual: 4")),
    "heads of 32": ({"heads": 128, "head_width": 32}, ("32", "64 or 128")),
    "heads of 256": ({"heads": 16, "head_width": 256}, ("256", "64 or 128")),
    "more head channels than width": ({"heads": 64}, ("8192", "4096", "equal")),
    "fewer head channels than width": ({"heads": 16}, ("2048", "4096", "equal")),
    "too deep": ({"layers": 100}, ("41", "100 to 200")),
    "too shallow": ({"layers": 8}, ("512", "100 to 200")),
    "a small vocabulary": ({"vocabulary": 74}, ("74", "30,000 to 50,000")),
    "a vocabulary in between": ({"vocabulary": 70_000}, ("70,000", "100,000 to 250,000")),
    "a huge vocabulary": ({"vocabulary": 500_000}, ("500,000", "100,000 to 250,000")),
    "dropout": ({"dropout": 0.1}, ("0.1", "none")),
    "no weight decay": ({"weight_decay": 0.0}, ("0", "0.1")),
}
"""One departure each from `MAINSTREAM`, and what its advice must name: the choice and the usual."""


def _mainstream_but(departure: Choices) -> Choices:
    choices = MAINSTREAM.copy()
    choices.update(departure)
    return choices


@claim("HYP-1")
@drawn(
    max_examples=60,
    head_width=st.sampled_from([64, 128]),
    heads=st.integers(4, 128),
    depth=st.floats(0, 1),
    gated=st.booleans(),
    multiple=st.sampled_from([1, 8, 64]),
    vocabulary=st.one_of(st.integers(30_000, 50_000), st.integers(100_000, 250_000)),
)
def test_what_everybody_chooses_needs_no_advice(
    *, head_width: int, heads: int, depth: float, gated: bool, multiple: int, vocabulary: int
) -> None:
    """Anything within the article's table passes without a word."""
    width = heads * head_width
    fewest, most = math.ceil(width / 200), width // 100
    layers = fewest + round(depth * (most - fewest))
    hidden = -(-8 * width // (3 * multiple)) * multiple if gated else 4 * width
    choices: Choices = {
        "width": width,
        "layers": layers,
        "heads": heads,
        "head_width": head_width,
        "feed_forward_width": hidden,
        "gated": gated,
        "vocabulary": vocabulary,
        "dropout": 0.0,
        "weight_decay": 0.1,
    }
    said = adviser.advice(**choices)
    none_of(
        said,
        "a shape within the table needs no advice",
        where={**choices, "said": said},
        component="parameters",
    )


@claim("HYP-1")
@pytest.mark.parametrize("name", UNUSUAL)
def test_each_unusual_choice_is_named_with_the_usual_one(name: str) -> None:
    """One departure from the table: one sentence, that names it, the usual range and a reason."""
    departure, named = UNUSUAL[name]
    said = adviser.advice(**_mainstream_but(departure))
    where = {"choice": name, "said": said}
    exactly(
        len(said),
        1,
        "an unusual choice gets one sentence of advice",
        where=where,
        component="parameters",
    )
    require(
        all(each in said[0] for each in named) and ": " in said[0] and said[0].endswith("."),
        "advice names the choice, the usual range and the reason",
        where={**where, "to be named": named},
        component="parameters",
    )


@claim("HYP-1")
def test_what_is_not_known_is_not_judged() -> None:
    """A subject of which nothing is known gets no advice, and neither does half a ratio."""
    none = adviser.advice(None, None, None, None, None, None, None)
    half = adviser.advice(4096, None, 32, None, None, None, 32000)
    require(not none + half, "no advice without figures", where={"said": none + half})


@claim("HYP-1", "HYP-2")
@pytest.mark.parametrize("name", ["gpt3-175b", "llama2-7b", "gpt2"])
def test_the_table_holds_for_the_published_models(name: str) -> None:
    """GPT-3 and LLaMA-2 7B are within it; GPT-2 is too deep for its width, 64, and nothing else."""
    published = config.PUBLISHED[name]
    heads, _, head_width, hidden = published.shape
    said = adviser.advice(
        published.width,
        published.layers,
        heads,
        head_width,
        hidden,
        published.feed_forward == "swiglu",
        published.vocabulary,
    )
    expected = ["d_model / n_layer is 64"] if name == "gpt2" else []
    require(
        len(said) == len(expected)
        and all(a.startswith(b) for a, b in zip(said, expected, strict=True)),
        "published models are what the table says",
        where={"model": name, "said": said},
        component="parameters",
    )


@claim("HYP-2")
@pytest.mark.parametrize(
    ("name", "width", "layers", "heads", "hidden", "ratio", "count"),
    [
        ("gpt3-175b", 12288, 96, 96, 49152, 128, 174_604_259_328),
        ("llama2-7b", 4096, 32, 32, 11008, 128, 6_738_415_616),
        ("gpt2", 768, 12, 12, 3072, 64, 124_439_808),
    ],
)
def test_the_published_models_count_as_published(
    *, name: str, width: int, layers: int, heads: int, hidden: int, ratio: int, count: int
) -> None:
    """Built on the meta device, which has shapes and no memory; and by the closed formula."""
    published = config.PUBLISHED[name]
    facts = {
        "d_model": (published.width, width),
        "n_layer": (published.layers, layers),
        "n_head": (published.shape.heads, heads),
        "n_head · d_head": (published.shape.heads * published.shape.head_width, width),
        "d_ff": (published.shape.feed_forward_width, hidden),
        "d_model / n_layer": (published.width / published.layers, ratio),
    }
    with torch.device("meta"):
        built = model.GPT(published)
    require(
        all(each.is_meta for each in built.parameters()), "building it takes no memory for weights"
    )
    facts["parameters of the module"] = (sum(each.numel() for each in built.parameters()), count)
    facts["parameters by the formula"] = (parameters.parameter_count(published).total, count)
    for fact, (measured, expected) in facts.items():
        judge(
            measured,
            expected,
            f"{name} has the published {fact}",
            where={"measured": measured, "published": expected},
            component="parameters",
        )


@claim("HYP-3")
@pytest.mark.parametrize(
    ("choice", "usual"),
    [
        ({}, True),
        ({"feed_forward_width": 10944}, True),  # 8/3 · 4096 is 10922.7: near it, in steps of 64
        ({"heads": 64}, False),
        ({"dropout": 0.3}, False),
    ],
    ids=["32 heads of 128", "d_ff near 11008", "64 heads of 128", "dropout 0.3"],
)
def test_quiz_5_at_width_4096(choice: Choices, *, usual: bool) -> None:
    """32 heads of 128 and d_ff near 11008 are mainstream; 64 heads of 128 and dropout 0.3 not."""
    said = adviser.advice(**_mainstream_but(choice))
    require(
        (not said) == usual,
        "the advice tells the mainstream answers of the quiz from the others",
        measured=len(said),
        at_most=float(not usual),
        at_least=float(not usual),
        where={"choice": choice or "as LLaMA-2 7B", "said": said},
        component="parameters",
    )
