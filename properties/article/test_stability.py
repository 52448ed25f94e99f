"""What keeps a softmax's input in scale: z-loss, QK norm, soft-capping, and why it matters."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from theodolite.fixtures.judging.judgement import at_most, judge, require
from theodolite.fixtures.judging.rounding import unit_roundoff
from theodolite.fixtures.oracles.strategies import drawn, normal, seeds
from theodolite.properties import claim
from theodolite.reference import attention, loss, model, stability
from theodolite.reference import rotary as rotary_reference
from theodolite.reference.config import GPTConfig

UNIT = unit_roundoff(torch.float64)
CAPS = st.sampled_from([30.0, 50.0, 1.0])


@claim("STAB-1")
@drawn(max_examples=20, seed=seeds(), shift=st.sampled_from([3.0, -2.0, 0.5]))
def test_z_loss_sees_a_shift_that_cross_entropy_cannot(seed: int, shift: float) -> None:
    """Log-sum-exp 0 everywhere: no z-loss; all logits c higher: c² of it, the same cross-entropy.

    A log-sum-exp of V logits is wrong by V + 8 roundings of at most |logit| + |c| + ln V.
    """
    logits = normal(2, 5, 17, seed=seed)
    logits = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    targets = torch.randint(17, (2, 5), generator=torch.Generator().manual_seed(seed))
    rounding = 25 * UNIT * (float(logits.abs().max()) + abs(shift) + math.log(17))
    where = {"shift": shift}
    judge(
        loss.token_loss(logits + shift, targets),
        loss.token_loss(logits, targets),
        "cross-entropy does not see a constant added to all logits",
        bound=2 * rounding,
        where=where,
        component="loss",
    )
    # its square, really
    judge(
        stability.z_loss(logits, coefficient=1.0),
        0.0,
        "z-loss is 0 where every log-sum-exp is 0",
        bound=rounding,
        component="loss",
    )
    judge(
        stability.z_loss(logits + shift, coefficient=1.0),
        shift**2,
        "z-loss is the square of the shift",
        bound=3 * abs(shift) * rounding,
        where=where,
        remedy="The mean of logsumexp(logits)², on the logits as they are.",
        component="loss",
    )


@claim("STAB-1")
@drawn(max_examples=20, seed=seeds(), size=st.sampled_from([1.0, 10.0]))
def test_z_loss_is_the_mean_square_of_log_sum_exp(seed: int, size: float) -> None:
    """Over positions, as plain loops give it; 0 only where every position's is; down the slope.

    A log-sum-exp L is wrong by δ, V + 8 roundings of its largest logit and ln V; L² by 2|L|δ + δ².
    """
    logits = normal(2, 3, 11, seed=seed, scale=size).requires_grad_()
    sums = [
        math.log(math.fsum(math.exp(each) for each in row))
        for row in logits.detach().view(-1, 11).tolist()
    ]
    wrong = (11 + 8) * UNIT * (float(logits.detach().abs().max()) + math.log(11))
    measured = stability.z_loss(logits, coefficient=0.5)
    judge(
        measured,
        0.5 * math.fsum(each**2 for each in sums) / len(sums),
        "z-loss is the coefficient times the mean of squared log-sum-exps",
        bound=max(2 * abs(each) * wrong + wrong**2 + 10 * UNIT * each**2 for each in sums),
        where={"std of logits": size},
        component="loss",
    )
    (slope,) = torch.autograd.grad(measured, logits)
    lower = stability.z_loss(logits.detach() - 1e-3 * slope / slope.norm())
    before = measured.item()
    require(
        0 < lower.item() < before,
        "going down its gradient brings log-sum-exps nearer to 0",
        measured=lower.item(),
        at_most=before,
        component="loss",
    )


@claim("STAB-2")
@pytest.mark.parametrize("rotary", [True, False])
@drawn(max_examples=15, seed=seeds(), exponent=st.integers(0, 30))
def test_qk_norm_bounds_scores_whatever_the_weights(rotary: bool, seed: int, exponent: int) -> None:
    """Unit RMS makes |q| = |k| = √d, so |q·k|/√d <= √d however large W_Q and W_K grow.

    Without the norm the same growth multiplies scores by its square. √d has d + 16 roundings.
    """
    growth = 2.0**exponent
    largest = {
        normed: _scores(seed, growth, qk_norm=normed, rotary=rotary).abs().max().item()
        for normed in (True, False)
    }
    ordinary = _scores(seed, 1.0, qk_norm=False, rotary=rotary).abs().max().item()
    where = {"weights times": growth, "rotary": rotary}
    limit = math.sqrt(10) * (1 + 26 * UNIT)
    at_most(
        largest[True],
        limit,
        "with norms on queries and keys no score passes √d_head",
        where=where,
        remedy="Both queries and keys need the norm, over the channels of each head.",
        component="norm",
    )
    # powers of two: the products only shift
    judge(
        largest[False] / ordinary,
        growth**2,
        "without the norm, scores grow with the square of the weights",
        bound=100 * UNIT * growth**2,
        where=where,
        component="scale",
    )


@claim("STAB-2")
@drawn(max_examples=10, seed=seeds())
def test_qk_norm_forgets_the_scale_of_the_weights(seed: int) -> None:
    """Scores at weights times 1000 are those at the weights: eps, 1e-5, is all that differs.

    A query of mean square s is divided by √(s + eps), so relatively eps/(2s) is missing; once for
    queries and once for keys, in scores of at most √10.
    """
    before, after = (_scores(seed, growth, qk_norm=True) for growth in (1.0, 1000.0))
    least = _smallest_mean_square(seed)
    judge(
        after,
        before,
        "with norms on queries and keys the scale of the weights does not matter",
        bound=math.sqrt(10) * (1e-5 / least + 100 * UNIT),
        axes=("row", "head", "query", "key"),
        component="norm",
    )
    require(float(before.std()) > 0.1, "the scores still differ from each other")


@claim("STAB-3")
@drawn(max_examples=20, seed=seeds(), cap=CAPS, size=st.sampled_from([1.0, 100.0, 1e6, 1e-3]))
def test_soft_cap_is_bounded_and_near_the_identity(seed: int, cap: float, size: float) -> None:
    """|f| <= cap; |f(x) - x| <= |x|³/(3·cap²); f(x) = cap·tanh(x/cap), odd."""
    x = normal(257, seed=seed, scale=size)
    capped = stability.soft_cap(x, cap)
    where = {"cap": cap, "std": size}
    require(
        bool((capped.abs() <= cap).all()),
        "a soft-capped score never passes the cap",
        measured=float(capped.abs().max()),
        at_most=cap,
        where=where,
        component="scale",
    )
    allowed = x.abs() ** 3 / (3 * cap**2) + 8 * UNIT * x.abs()
    judge(
        (capped - x) / allowed,
        0.0,
        "small scores come through nearly as they are",
        bound=1.0,
        where=where,
        component="scale",
    )
    judge(
        capped,
        np.array([cap * math.tanh(each / cap) for each in x.tolist()]),
        "soft-capping is cap·tanh(x/cap)",
        bound=8 * UNIT * cap,
        where=where,
        component="scale",
    )
    judge(stability.soft_cap(-x, cap), -capped, "it is odd", component="scale")


@claim("STAB-3")
@drawn(max_examples=10, cap=CAPS)
def test_soft_cap_keeps_the_order(cap: float) -> None:
    """Strictly rising as long as float64 can tell: tanh is 1 to the last bit beyond 19."""
    x = torch.linspace(-10 * cap, 10 * cap, 1001, dtype=torch.float64)
    steps = stability.soft_cap(x, cap).diff()
    require(
        bool((steps > 0).all()),
        "a larger score stays larger under the cap",
        measured=float(steps.min()),
        at_least=0.0,
        where={"cap": cap, "x": float(x[int(steps.argmin())])},
        component="scale",
    )


@claim("STAB-3")
def test_the_model_caps_scores_and_logits() -> None:
    """The reference with caps: no logit passes its cap; attention uses capped scores."""
    config = GPTConfig(
        vocabulary=31, width=24, layers=2, heads=2, attention_softcap=2.0, logit_softcap=0.5
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        subject = model.GPT(config)
        subject.head.weight.mul_(50)
        logits = subject(torch.arange(14).view(2, 7))
    at_most(float(logits.abs().max()), 0.5, "no logit passes the cap", component="scale")
    query, key = normal(2, 1, 1, 7, 10, seed=0, scale=10.0)
    # tanh's slope is at most 1; scores of a few hundred are flat at the cap
    judge(
        attention.attention_scores(query, key, softcap=2.0),
        2.0 * torch.tanh(query @ key.mT / math.sqrt(10) / 2.0),
        "scores are capped after they are scaled",
        bound=100 * UNIT,
        axes=("row", "head", "query", "key"),
        component="scale",
    )


@claim("STAB-4")
@drawn(max_examples=20, seed=seeds())
def test_softmax_is_sensitive_to_the_scale_of_its_input(seed: int) -> None:
    """Scores times 4 and 16: entropy falls each time; a shift leaves it; both remedies hold it.

    With scores in ±s no weight among n passes 1/(1 + (n-1)·exp(-2s)).
    """
    scores = normal(1, 1, 5, 9, seed=seed)
    weights = {factor: attention.attention_weights(scores * factor) for factor in (1, 4, 16)}
    entropies = {factor: _entropy(each) for factor, each in weights.items()}
    require(
        bool((entropies[1] > entropies[4]).all() and (entropies[4] > entropies[16]).all()),
        "the larger its input, the nearer softmax is to one-hot",
        measured=float((entropies[16] / entropies[1]).max()),
        at_most=1.0,
        component="softmax",
    )
    judge(
        attention.attention_weights(scores + 5),
        weights[1],
        "a constant added to a row of scores changes nothing",
        bound=50 * UNIT,
        axes=("row", "head", "query", "key"),
        component="softmax",
    )
    for name, part, bounded, limit in (
        ("soft-capping", "scale", stability.soft_cap(scores * 1e4, 1.0), 1.0),
        ("QK norm", "norm", _scores(seed, 1e4, qk_norm=True), math.sqrt(10)),
    ):
        keys = bounded.shape[-1]
        most = 1 / (1 + (keys - 1) * math.exp(-2 * limit))
        largest = float(attention.attention_weights(bounded).max())
        at_most(
            largest,
            most + 50 * UNIT,
            f"under {name} no key takes all the weight, however large the scores would have been",
            component=part,
        )


def _attention(seed: int, growth: float, *, qk_norm: bool) -> attention.MultiHeadAttention:
    """Three heads of ten channels in float64, query and key weights multiplied by `growth`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = attention.MultiHeadAttention(30, 3, qk_norm=qk_norm).double()
    module.requires_grad_(requires_grad=False)
    module.qkv.weight[:60] *= growth
    return module


def _scores(seed: int, growth: float, *, qk_norm: bool, rotary: bool = False) -> Tensor:
    """(2, 3, 7, 7): what the module would feed to softmax."""
    module = _attention(seed, growth, qk_norm=qk_norm)
    query, key, _ = module.project(normal(2, 7, 30, seed=seed))
    if rotary:
        query, key = (rotary_reference.rotate(each, torch.arange(7)) for each in (query, key))
    return attention.attention_scores(query, key)


def _smallest_mean_square(seed: int) -> float:
    query, key, _ = _attention(seed, 1.0, qk_norm=False).project(normal(2, 7, 30, seed=seed))
    return min(float(each.square().mean(-1).min()) for each in (query, key))


def _entropy(weights: Tensor) -> Tensor:
    terms: Tensor = torch.special.entr(weights)
    return terms.sum(-1)
