"""RES: the residual stream as a sum, and what hands the gradient down a deep stack."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from theodolite.fixtures.judging.judgement import at_least, judge, judge_differs
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
from theodolite.reference import feed_forward

DOUBLE = 2.0**-53
"""Unit roundoff of float64."""

LAYERS = st.sampled_from([3, 1, 2, 5])
AXES = ("row", "position", "channel")


@claim("RES-1")
@drawn(max_examples=20, style=styles(), layers=LAYERS, seed=seeds())
def test_with_dead_branches_the_embedding_arrives_as_it_was(
    style: str, layers: int, seed: int
) -> None:
    """Adding 0 is exact, so nothing may differ; and the logits still tell the tokens apart."""
    shape = small_config(style, layers=layers)
    model = small_gpt(shape, seed)
    vary_norms(model, seed)
    silence_branches(model.blocks)
    stream = record_stream(model, torch.arange(shape.vocabulary)[None])
    judge(
        stream.last,
        stream.embedded,
        "with every branch silent, the embedding arrives unchanged at the final norm",
        axes=AXES,
        where={"style": style, "layers": layers},
        remedy="each sub-layer should return x + f(norm(x)), with x itself, not norm(x)",
    )
    for one in range(shape.vocabulary - 1):
        judge_differs(
            stream.logits[0, one],
            stream.logits[0, one + 1],
            "with every branch silent, logits still depend on the token",
            least=1e-6,
            where={"tokens": (one, one + 1)},
        )


@claim("RES-2")
@drawn(max_examples=20, style=styles(), layers=LAYERS, seed=seeds())
def test_with_dead_branches_the_trunks_jacobian_is_the_identity(
    style: str, layers: int, seed: int
) -> None:
    """Whatever gradient comes in at the top goes out at the bottom, exactly."""
    model = small_gpt(small_config(style, layers=layers), seed)
    vary_norms(model, seed)
    silence_branches(model.blocks)
    x, arriving = normal(2, 2, 5, 24, seed=seed)
    judge(
        _gradient_through(model.blocks, x, arriving),
        arriving,
        "addition hands the gradient of the trunk down as it came",
        axes=AXES,
        where={"style": style, "layers": layers},
        remedy="is the trunk detached, scaled or normalised on its way?",
    )


@claim("RES-2")
@drawn(max_examples=5, seed=seeds())
def test_a_deep_stack_without_residuals_loses_its_gradient(seed: int) -> None:
    """48 ReLU networks of width 64 in torch's own initialisation, weights uniform in ±1/√fan_in.

    Their variance is 1/(3·fan_in). Backwards, a gradient's mean square is multiplied by
    d/(3·4d) = 1/12 in the second matrix, by 1/2 in ReLU, by 4d/(3d) = 4/3 in the first: 1/18 a
    layer, 18^-24 = 10^-30.1 for the norm after 48. With x + f(x) it is multiplied by 19/18: 3.7 in
    all. Over 60 seeds the two spread by 0.18 decades and by 0.14: the bounds stand eight times and
    more than twenty times as far off.

    Norms inside such a stack would scale the forward up again and the gradient with it, to far more
    than came in; the claim is about addition, so the stack has none.
    """
    stack = _relu_networks(48, 64, seed)
    x, arriving = normal(2, 4, 16, 64, seed=seed)
    plain = _gradient_through(stack, x, arriving)
    judge(
        math.log10(float(plain.norm() / arriving.norm())),
        -24 * math.log10(18),
        "without residuals 48 layers shrink the gradient to about 1e-30",
        bound=1.5,
    )
    residual = _gradient_through([_Residual(layer) for layer in stack], x, arriving)
    kept = float(residual.norm() / arriving.norm())
    at_least(kept, 0.5, "with residuals the gradient of 48 layers arrives whole")


@claim("RES-2")
@drawn(max_examples=3, style=styles(), seed=seeds())
def test_a_deep_stack_of_blocks_keeps_its_gradient(style: str, seed: int) -> None:
    """48 blocks as they are initialised.

    The branches' part has mean zero given the trunk's, so the expected square is at least what came
    in; a half, a quarter of the square, would need branches that cancel three quarters of it.
    """
    model = small_gpt(small_config(style, layers=48), seed)
    x, arriving = normal(2, 2, 7, 24, seed=seed)
    kept = float(_gradient_through(model.blocks, x, arriving).norm() / arriving.norm())
    at_least(
        kept,
        0.5,
        "48 blocks hand the gradient down to the first",
        where={"style": style},
        remedy="is something missing from x + f(norm(x))?",
    )


@claim("RES-3")
@drawn(max_examples=20, style=styles(), layers=LAYERS, seed=seeds())
def test_the_last_hidden_state_is_the_sum_of_all_that_was_added(
    style: str, layers: int, seed: int
) -> None:
    """Embedding plus every sub-layer's output.

    2·L additions in float64, each off by at most u times the largest partial sum.
    """
    shape = small_config(style, layers=layers)
    model = small_gpt(shape, seed)
    vary_norms(model, seed)
    stream = record_stream(model, random_ids(shape, 2, 7, seed))
    terms = torch.stack([stream.embedded, *stream.attended, *stream.fed])
    judge(
        len(terms),
        1 + 2 * layers,
        "each block adds its attention and its feed-forward network, each once",
        where={"style": style, "layers": layers},
    )
    judge(
        stream.last,
        terms.sum(0),
        "the last hidden state is the embedding plus the output of every sub-layer",
        bound=2 * len(terms) * DOUBLE * float(terms.abs().sum(0).max()),
        axes=AXES,
        where={"style": style, "layers": layers},
        remedy="does the second sub-layer add to the first one's sum, or to the block's input?",
    )


def _gradient_through(layers: nn.ModuleList | list[nn.Module], x: Tensor, top: Tensor) -> Tensor:
    """The gradient of <top, layers(x)> with respect to x."""
    bottom = x.clone().requires_grad_()
    hidden = bottom
    for layer in layers:
        hidden = layer(hidden)
    (gradient,) = torch.autograd.grad(hidden, bottom, top, materialize_grads=True)
    return gradient


def _relu_networks(count: int, width: int, seed: int) -> list[nn.Module]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [feed_forward.FeedForward(width).double() for _ in range(count)]


class _Residual(nn.Module):
    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = x + self.branch(x)
        return added
