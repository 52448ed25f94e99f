"""GPT: the order of assembly, and how many parameters a shape has."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from theodolite.fixtures.judging.judgement import judge, require
from theodolite.fixtures.oracles.reference_stream import (
    random_ids,
    record_stream,
    reference_blocks,
    small_config,
    small_gpt,
    styles,
    vary_norms,
)
from theodolite.fixtures.oracles.strategies import drawn, seeds
from theodolite.properties import claim
from theodolite.reference import GPTConfig, config, model, parameters

NOISE = 256 * 2.0**-53
"""Of a small model in float64, relative to its largest logit: some hundreds of roundings."""

ARTICLE = {
    "embedding": 9_472,
    "attention": 65_536,
    "feed_forward": 132_096,
    "norms": 256,
    "block": 197_888,
    "head": 9_472,
    "total": 810_624,
}
"""The article's own sum, at V = 74, d = 128, 4 layers, 4 heads, d_ff = 344."""

SHAPES: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    vocabulary=st.sampled_from([13, 74]),
    width=st.sampled_from([24, 48]),
    layers=st.sampled_from([3, 1, 2]),
    heads=st.sampled_from([4, 1, 2]),
    kv_heads=st.sampled_from([None, 1]),
    head_width=st.sampled_from([None, 10]),
    feed_forward=st.sampled_from(["swiglu", "relu", "gelu"]),
    feed_forward_width=st.sampled_from([None, 40]),
    norm=st.sampled_from(["rmsnorm", "layernorm"]),
    placement=st.sampled_from(["pre", "post"]),
    positions=st.sampled_from(["rotary", "learned", "sinusoidal", "none"]),
    context=st.sampled_from([32]),
    bias=st.booleans(),
    tied=st.booleans(),
    qk_norm=st.booleans(),
)
"""Every choice that a count can depend on."""


@claim("GPT-1")
@drawn(
    max_examples=20,
    style=styles(),
    batch=st.sampled_from([2, 1, 3]),
    length=st.sampled_from([7, 1, 5]),
    layers=st.sampled_from([3, 1, 4]),
    seed=seeds(),
)
def test_parts_run_in_the_order_of_assembly(
    style: str, batch: int, length: int, layers: int, seed: int
) -> None:
    """Embedding; norm, attention, norm, feed-forward in every block; final norm; head."""
    shape = small_config(style, layers=layers)
    stream = record_stream(small_gpt(shape, seed), random_ids(shape, batch, length, seed))
    in_block = ("attention_norm", "attention", "feed_forward_norm", "feed_forward")
    expected = [f"blocks.{layer}.{part}" for layer in range(layers) for part in in_block]
    expected = ["embedding", *expected, "norm", "head"]
    require(
        stream.calls == expected,
        "the parts run as embedding, blocks in order, final norm, head, each once",
        where={"ran": " → ".join(stream.calls)},
        remedy="each block reads what the one before it wrote",
    )
    require(
        tuple(stream.logits.shape) == (batch, length, shape.vocabulary),
        "ids of shape (B, T) give logits of shape (B, T, V)",
        where={"shape": tuple(stream.logits.shape)},
    )


@claim("GPT-1")
@drawn(max_examples=15, style=styles(), seed=seeds())
def test_the_model_is_its_parts_put_together(style: str, seed: int) -> None:
    """Assembled once more by hand from the model's own parts, the logits are the same."""
    shape = small_config(style)
    gpt = small_gpt(shape, seed)
    vary_norms(gpt, seed)
    ids = random_ids(shape, 2, 7, seed)
    expected = _assembled(gpt, ids)
    judge(
        gpt(ids).detach(),
        expected,
        "logits are head(norm(x)) of x + attention(norm(x)) + feed_forward(norm(that))",
        bound=NOISE * float(expected.abs().max()),
        axes=("row", "position", "token"),
        where={"style": style},
        remedy="compare the order of parts, and what each of them reads",
    )


@claim("GPT-2")
def test_the_articles_model_has_810_624_parameters() -> None:
    """Every summand that the article prints, by the formula and counted in the model."""
    shape = config.article()
    formula = parameters.parameter_count(shape)
    gpt = model.GPT(shape)
    block = reference_blocks(gpt)[0]
    real: dict[str, nn.Module] = {
        "embedding": gpt.embedding,
        "attention": block.attention,
        "feed_forward": block.feed_forward,
        "block": block,
        "head": gpt.head,
        "total": gpt,
    }
    counted = {name: _count(part) for name, part in real.items()}
    counted["norms"] = _count(block.attention_norm) + _count(block.feed_forward_norm)
    for name, printed in ARTICLE.items():
        where = {"part": name}
        says = f"the article's {name} has {printed:,} parameters"
        judge(getattr(formula, name), printed, f"{says}, by formula", where=where)
        judge(counted[name], printed, f"{says}, counted", where=where)


@claim("GPT-2")
@drawn(max_examples=40, choices=SHAPES)
def test_the_closed_formula_counts_every_shape(choices: dict[str, Any]) -> None:
    """Built on the meta device, which holds no weights, and counted."""
    shape = GPTConfig(**choices)
    with torch.device("meta"):
        gpt = model.GPT(shape)
    judge(
        parameters.parameter_count(shape).total,
        _count(gpt),
        "the closed formula gives the number of parameters of the model",
        where=choices,
        remedy="is a part left out of the formula, or built and not used?",
    )


@claim("GPT-3")
@drawn(max_examples=20, style=styles(), layers=st.sampled_from([3, 1, 2]), tied=st.booleans())
def test_the_count_is_what_the_anatomy_predicts(style: str, layers: int, tied: bool) -> None:
    """The shape read off the weights alone, V, d, d_ff and layers; a shared weight counts once."""
    gpt = small_gpt(small_config(style, layers=layers, tied=tied), seed=0)
    first = reference_blocks(gpt)[0]
    anatomy = dataclasses.replace(
        gpt.config,
        vocabulary=gpt.embedding.weight.shape[0],
        width=gpt.embedding.weight.shape[1],
        feed_forward_width=first.feed_forward.down.weight.shape[1],
        layers=layers,
        tied=tied,
    )
    judge(
        _count(gpt),
        parameters.parameter_count(anatomy).total,
        "the model has as many parameters as its anatomy predicts, tied weights once",
        where={"style": style, "layers": layers, "tied": tied},
        remedy="are all layers registered, and is the head the embedding's weight itself?",
    )


def _assembled(gpt: model.GPT, ids: Tensor) -> Tensor:
    places = torch.arange(ids.shape[1])
    with torch.no_grad():
        x: Tensor = gpt.embedding(ids)
        if gpt.positions is not None:
            x = x + gpt.positions(places)
        rotation = None if gpt.rotary is None else gpt.rotary(places)
        for block in reference_blocks(gpt):
            x = x + block.attention(block.attention_norm(x), rotation=rotation)
            x = x + block.feed_forward(block.feed_forward_norm(x))
        logits: Tensor = gpt.head(gpt.norm(x))
    return logits


def _count(part: nn.Module) -> int:
    """Every parameter once, found by this module and not by the one under test."""
    return sum({id(each): each.numel() for each in part.parameters()}.values())
