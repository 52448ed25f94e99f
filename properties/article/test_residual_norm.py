"""RES: where the norms stand, and what that does to the stream."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.fixtures.judging.judgement import judge, require
from theodolite.fixtures.oracles.reference_stream import (
    random_ids,
    record_stream,
    silence_branches,
    small_config,
    small_gpt,
    styles,
    vary_norms,
)
from theodolite.fixtures.oracles.strategies import drawn, normal, seeds
from theodolite.properties import claim
from theodolite.reference import GPT

AXES = ("row", "position", "channel")
NOISE = 64 * 2.0**-53
"""Of one block in float64, relative to its largest value: a few dozen roundings of 24 channels."""

DEPTH, MODELS = 24, 16


@claim("RES-4")
@drawn(max_examples=15, style=styles(), seed=seeds())
def test_pre_norm_stands_on_the_branch_alone(style: str, seed: int) -> None:
    """First x + attention(norm(x)), then the same with the feed-forward network."""
    shape = small_config(style)
    model = small_gpt(shape, seed)
    vary_norms(model, seed)
    stream = record_stream(model, random_ids(shape, 2, 7, seed))
    x = stream.embedded
    with torch.no_grad():
        for layer, block in enumerate(model.blocks):
            for name, added in (("attention", stream.attended), ("feed_forward", stream.fed)):
                norm = getattr(block, f"{name}_norm")
                _judge_equal(
                    stream.inputs[f"blocks.{layer}.{name}"],
                    norm(x),
                    f"{name} reads the normalised trunk",
                    layer,
                )
                x = x + added[layer]
            _judge_equal(stream.blocks[layer], x, "the trunk is a plain chain of additions", layer)


@claim("RES-4")
@drawn(max_examples=15, style=styles(), seed=seeds())
def test_post_norm_normalises_the_trunk_after_every_addition(style: str, seed: int) -> None:
    """First norm(x + attention(x)), then the same with the feed-forward network."""
    shape = small_config(style, placement="post")
    model = small_gpt(shape, seed)
    vary_norms(model, seed)
    stream = record_stream(model, random_ids(shape, 2, 7, seed))
    x = stream.embedded
    with torch.no_grad():
        for layer, block in enumerate(model.blocks):
            for name, added in (("attention", stream.attended), ("feed_forward", stream.fed)):
                read = stream.inputs[f"blocks.{layer}.{name}"]
                _judge_equal(read, x, f"under post-norm {name} reads the trunk itself", layer)
                x = getattr(block, f"{name}_norm")(x + added[layer])
            _judge_equal(stream.blocks[layer], x, "the trunk is normalised after each sum", layer)
    _judge_equal(stream.head, x, "nothing else stands before the head", shape.layers)


@claim("RES-4")
@drawn(max_examples=15, style=styles(), seed=seeds())
def test_post_norms_jacobian_with_dead_branches_is_not_the_identity(style: str, seed: int) -> None:
    """A norm does not feel the scale of x, so a step along x is lost; pre-norm hands it on whole.

    With mean square s² the norm keeps eps/(s² + eps) of such a step.
    """
    x = normal(2, 5, 24, seed=seed)
    x = x - x.mean(-1, keepdim=True)
    kept = {}
    for placement in ("pre", "post"):
        model = small_gpt(small_config(style, placement=placement), seed)
        silence_branches(model.blocks)
        kept[placement] = _kept_along(model, x)
    smallest = float(x.square().mean(-1).min())
    judge(kept["pre"], 1.0, "pre-norm's dead trunk hands a step along x on whole", bound=NOISE)
    judge(
        kept["post"],
        0.0,
        "post-norm's trunk loses a step along x, so its Jacobian is not the identity",
        bound=1e-5 / smallest + NOISE,
        remedy="is the sum normalised, or only what is added to it?",
    )


@claim("RES-5")
def test_under_pre_norm_the_stream_grows_with_depth() -> None:
    """Means over 16 models of 24 blocks, as they are initialised.

    A branch ends in weights of mean zero, independent of the trunk: its mean square adds to the
    trunk's, whatever the trunk. Each quarter of the depth then raises the RMS by 0.13 to 0.16,
    which is 8 to 17 standard errors of such a mean, and the whole from 1.0 to 1.6, 0.03 the
    standard error. Under post-norm the RMS is 1 throughout, but for epsilon: √(s²/(s² + ε)), which
    is above 1 - ε/2s², s² being the mean square of trunk and branch before the norm. The trunk's is
    1 and a branch's about (1.6² - 1)/48 by the above; even where they point opposite ways, s is
    above 1 - 0.18, and s² above 1/2. So less than ε is missing.
    """
    rms = torch.stack([_rms_by_depth("pre", seed) for seed in range(MODELS)]).mean(0)
    for quarter, rise in enumerate(rms.diff()):
        require(
            bool(rise > 0),
            "every quarter of the depth raises the RMS of a pre-norm stream",
            measured=float(rise),
            at_least=0,
            where={"quarter": quarter + 1},
        )
    require(
        bool(rms[-1] > 1.25 * rms[0]),
        "24 pre-norm blocks raise the RMS of the stream by more than a quarter",
        measured=float(rms[-1] / rms[0]),
        at_least=1.25,
        remedy="is the trunk rescaled on its way?",
    )
    judge(
        _rms_by_depth("post", seed=0)[1:],
        1.0,
        "under post-norm the stream's RMS stays 1",
        bound=small_config().norm_eps,
        axes=("quarter",),
    )


@claim("RES-5")
@drawn(max_examples=15, style=styles(), seed=seeds())
def test_the_head_sees_unit_rms(style: str, seed: int) -> None:
    """However large the stream: the final norm stands between. Epsilon takes eps/2s² of it."""
    shape = small_config(style)
    model = small_gpt(shape, seed)
    with torch.no_grad():
        model.embedding.weight.mul_(50)
    stream = record_stream(model, random_ids(shape, 2, 7, seed))
    smallest = float(stream.last.var(-1, unbiased=False).min())
    judge(
        stream.head.square().mean(-1).sqrt(),
        1.0,
        "the final norm hands the head a vector of RMS 1 at every position",
        bound=shape.norm_eps / (2 * smallest) + NOISE,
        axes=("row", "position"),
        where={"style": style},
        remedy="is the final norm applied before the head?",
    )


def _judge_equal(found: Tensor, expected: Tensor, says: str, layer: int) -> None:
    bound = NOISE * float(expected.abs().max())
    judge(found, expected, says, bound=bound, axes=AXES, where={"layer": layer})


def _kept_along(model: GPT, x: Tensor) -> Tensor:
    """How much of a small step along x comes out along x, for each position: 1 for the identity."""
    start = x.clone().requires_grad_()
    end = start
    for block in model.blocks:
        end = block(end)
    (gradient,) = torch.autograd.grad(end, start, x)  # Jᵀx, the branches being silent
    return (gradient * x).sum(-1) / x.square().sum(-1)


def _rms_by_depth(placement: str, seed: int) -> Tensor:
    """RMS of the stream at the start and after each quarter of the blocks."""
    shape = small_config(layers=DEPTH, placement=placement)
    stream = record_stream(small_gpt(shape, seed), random_ids(shape, 3, 13, seed))
    quarters = stream.blocks[DEPTH // 4 - 1 :: DEPTH // 4]
    return torch.stack([x.square().mean().sqrt() for x in (stream.embedded, *quarters)])
