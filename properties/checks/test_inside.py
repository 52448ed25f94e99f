"""Each attention of a subject, held to ATT and SCL by the numbers that it really computes with."""

from __future__ import annotations

import torch
from torch import Tensor

from theodolite.fixtures.anatomy.attentions import attentions, is_flat
from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.anatomy.scale import SAME, expected_scale, named_scale
from theodolite.fixtures.judging.judgement import (
    each,
    fail,
    judge,
    judge_differs,
    not_applicable,
    require,
)
from theodolite.fixtures.judging.tolerances import EQUAL
from theodolite.fixtures.recording.attention_call import AttentionCall, scores_of, slope
from theodolite.fixtures.subject.view import View
from theodolite.properties import check

WEIGHT = ("row", "head", "query", "key")


@check("inside.rows_sum_to_one", "ATT-2", "ATT-3", component="softmax")
def test_the_weights_of_each_query_are_shares_of_one(view: View) -> None:
    """What meets the values is not negative, and sums to 1 over the keys (and sinks, if any).

    Weights set to 0 after softmax leave the sum short; set to 0 and renormalised they do not. What
    mixes whole heads afterwards (talking heads) is a design, and softmax alone is judged there.
    """
    judged = 0
    for place, call in attentions(view):
        after, met = call.softmax_output, call.probabilities
        if after is None and call.kind == "other" and not _is_exponential(call):
            continue
        judged += 1
        if after is None and _has_sink(call):
            continue
        shares = met if after is None else after
        bound = shares.shape[-1] * torch.finfo(shares.dtype).eps
        axis = _axis_of(shares, bound)
        judge(
            shares.double().sum(-1),
            1.0,
            "the softmax of each query sums to 1 over the keys",
            fails="The softmax of query {query} does not sum to 1 over the keys: it is off by "
            "{measured}",
            bound=bound,
            axes=WEIGHT[:-1],
            where=place,
            remedy=f"It sums to 1 over the {axis} instead: softmax(dim=-1) of scores (..., T, S)."
            if axis
            else "Is something left out of the sum, or added to it, after the exponential?",
            cause="softmax-axis" if axis else None,
        )
        require(
            bool((shares >= 0).all()),
            "no weight is negative",
            fails="An attention weight is negative",
            where=place,
            cause="negative-weight",
        )
        if after is None or _is_mixed(after, met):
            continue
        kept = after[..., : met.shape[-1]].double().sum(-1)
        sums = met.double().sum(-1)
        short = torch.minimum((sums - kept).abs(), (sums - 1).abs())
        judge(
            short,
            0.0,
            "the weights that meet the values are those that softmax gave",
            fails="The weights that meet the values of query {query} sum to {measured} less or "
            "more than softmax gave",
            bound=bound,
            axes=WEIGHT[:-1],
            where=place,
            remedy="Are they masked after softmax? Then later keys took their share: mask before.",
            cause="mask-after-softmax",
        )
    if not judged:
        not_applicable("the weights are no softmax: their rows need not sum to 1")


@check("inside.no_weight_on_the_future", "ATT-2", component="mask")
def test_no_weight_lies_on_a_later_key(view: View) -> None:
    """The strict upper triangle of the weights is exactly 0."""
    for place, call in each(
        attentions(view), "queries and keys do not lie one for one along the sequence"
    ):
        if call.probabilities.shape[-2:] != (view.length, view.length):
            continue
        judge(
            call.probabilities.double().triu(1),
            0.0,
            "no query gives weight to a later key",
            fails="Query {query} gives weight {measured} to the later key {key}; it must give it "
            "none",
            axes=WEIGHT,
            where=place,
            remedy="Is the mask the lower triangle, does it hide by -inf (or the dtype's least "
            "number), and is it put in before softmax?",
            cause="future-visible",
        )


@check(
    "inside.weights_follow_scores", "ATT-8", "MHA-2", component="attention", views=("sharpened",)
)
def test_weights_are_a_function_of_queries_and_keys(view: View) -> None:
    """Softmax gets q·k of each head's own queries and keys; other tokens give other weights."""
    for place, call in each(attentions(view), "no scores are visible"):
        scores, after = call.scores, call.softmax_output
        if scores is not None and after is not None and call.kind == "softmax":
            judge(
                scores.double().softmax(-1),
                after,
                "the weights are the softmax of the scores over the keys",
                fails="The weight of query {query} on key {key} is off by {measured} from the "
                "softmax of its scores over the keys",
                bound=scores.shape[-1] * torch.finfo(after.dtype).eps,
                axes=WEIGHT,
                where=place,
                component="softmax",
                cause="softmax-axis",
            )
        if min(call.probabilities.shape[0], call.probabilities.shape[-1]) < 2 or is_flat(call):
            continue
        judge_differs(
            call.probabilities[0],
            call.probabilities[1],
            "other tokens give other weights",
            fails="Other tokens give the same attention weights: they differ by {measured}",
            least=EQUAL,
            where=place,
            remedy="Do queries and keys come from the tokens, and is softmax taken over the keys?",
            cause="weights-constant",
        )
        if scores is None or call.scale is not None or call.soft_cap is not None:
            continue
        _judge_heads(call, scores, place)


@check("inside.scale", "SCL-5", component="scale", views=("sharpened",))
def test_scores_are_divided_by_the_root_of_the_head_width(view: View) -> None:
    """The factor between q·k and what softmax gets is 1/√d_head, or the one that is declared.

    Where queries are normalised first any factor keeps the scores in range, and is accepted.
    """
    told = 0
    for place, call in attentions(view):
        if call.scale is None:
            continue
        head = call.query.shape[-1]
        expected = expected_scale(view.subject, call, place["layer"])
        wanted = head**-0.5 if expected is None else expected.value
        close = abs(call.scale - wanted) <= SAME * wanted
        if not close and expected is None and _may_normalise(view, place["layer"]):
            continue
        told += 1
        width = call.stream.shape[-1] if call.stream is not None else None
        cause, what = named_scale(call.scale, call, width) or (None, "")
        against = (
            f"1/√{head} = {wanted:.4g} was expected; if another scale is meant, declare it "
            "(--declare scale=VALUE)."
            if expected is None
            else f"{wanted:.4g} was expected ({expected.source})."
        )
        judge(
            call.scale,
            wanted,
            "the scores that softmax gets are q·k divided by the root of the head's width"
            if expected is None
            else "the scores that softmax gets are q·k times the configured scale",
            fails=f"Scores are q·k times {call.scale:.4g}, and should be q·k times {wanted:.4g}",
            bound=SAME * wanted,
            where={**place, "scale": round(call.scale, 6)},
            remedy=f"{what}: {against}" if what else against,
            cause=cause or "scale-wrong",
        )
    if not told:
        not_applicable(
            "no scale can be read: q·k is not visible, heads are mixed, or q is normalised and any "
            "scale will do; declare one with --declare scale=VALUE"
        )


@check("inside.output_is_the_mean", "ATT-7", component="attention")
def test_each_output_is_the_weighted_mean_of_the_values(view: View) -> None:
    """Output = weights times values, head by head: linear in V, inside its convex hull."""
    for place, call in attentions(view):
        value = call.value
        heads = call.probabilities.shape[1]
        if value.shape[1] != heads:
            if heads % value.shape[1]:
                continue
            value = value.repeat_interleave(heads // value.shape[1], dim=1)
        wide = torch.promote_types(value.dtype, torch.float32)
        mean = call.probabilities.to(wide) @ value.to(wide)
        if mean.shape != call.output.shape:
            continue
        rounding = 8 * torch.finfo(call.output.dtype).eps
        judge(
            call.output,
            mean,
            "each output is the mean of the values under the query's weights",
            fails="The output of query {query} is off by {measured} from the mean of the values "
            "under its weights",
            bound=max(EQUAL, rounding) * float(value.abs().max()),
            axes=(*WEIGHT[:-1], "channel"),
            where=place,
            remedy="Do the values of another head, or another backend's mask, take part?",
        )


def _may_normalise(view: View, layer: int) -> bool:
    """Whether a layer's queries are as long whatever the stream's size, or this is not known."""
    return anatomy_of(view.subject).attention[layer].qk_norm is not False


def _is_exponential(call: AttentionCall) -> bool:
    """Whether weights are in proportion to exp(score) among the keys that a query gives any to."""
    if call.scores is None or call.scores.shape != call.probabilities.shape:
        return False
    weights, scores = call.probabilities.double(), call.scores.double()
    seen = weights > 0
    log = torch.where(seen, weights.log() - scores, torch.zeros_like(scores))
    count = seen.sum(-1, keepdim=True).clamp_min(1)
    away = torch.where(seen, log - log.sum(-1, keepdim=True) / count, torch.zeros_like(log))
    return bool(away.abs().max() <= 1e-3) and bool((count > 2).any())


def _has_sink(call: AttentionCall) -> bool:
    """Whether what the sum leaves out is one constant exp(c) of each head: softmax over one more.

    Weights are exp(score)/D with D - Σ exp(score) = exp(c), the same for every query. What a mask
    after the exponential leaves in D are later keys: it differs from query to query, and the last
    one has none.
    """
    if call.scores is None or not _is_exponential(call):
        return False
    weights, scores = call.probabilities.double(), call.scores.double()
    seen = weights > 0
    total = scores.masked_fill(~seen, -torch.inf).logsumexp(-1)
    if call.scale is not None:  # what was taken off a whole row, its maximum perhaps, is put back
        product = scores_of(call.query, call.key).double() * call.scale
        total += (product - scores).masked_fill(~seen, -torch.inf).amax(-1)
    left = (1 - weights.sum(-1)).clamp_min(0).log() - weights.sum(-1).log() + total
    told = weights.sum(-1) < 1 - 1e-3  # of less, rounding is too large a part
    if not bool(told.all((0, 2)).any()):
        return False
    constant = left.masked_fill(~told, torch.nan).transpose(0, 1).flatten(1)
    away = constant - constant.nanmedian(1, keepdim=True).values
    return float(away.nan_to_num().abs().max()) <= 1e-2


def _axis_of(shares: Tensor, bound: float) -> str | None:
    """The axis over which shares sum to 1 although it is not the keys', or None."""
    if bool(((shares.double().sum(-1) - 1).abs() <= bound).all()):
        return None
    names = ("batch", "heads", "queries")
    sums = (shares.double().sum(axis) for axis in range(3))
    fits = (bool(((total - 1).abs() <= 16 * bound).all()) for total in sums)
    return next((name for name, fit in zip(names, fits, strict=True) if fit), None)


def _is_mixed(after: Tensor, met: Tensor) -> bool:
    """Whether the weights that meet the values are neither softmax's own nor a masking of them."""
    given = after[..., : met.shape[-1]].double()
    if given.shape != met.shape:
        return True
    met = met.double()
    share = met.sum(-1, keepdim=True)
    own = (met - given).abs() <= 1e-3 * given + 1e-6
    rescaled = (met - given * share).abs() <= 1e-3 * given + 1e-6
    masked = (met == 0) | own
    return not bool(masked.all() or rescaled.all() or ((share - 1).abs() <= 1e-3).all())


def _forgets(scores: Tensor, product: Tensor) -> bool:
    """Whether (B, T, S) scores are the product and a bias of each key, the same for all queries.

    So they are where every token's gate adds to the distance over it (forgetting attention).
    """
    seen = torch.isfinite(scores) & torch.ones_like(scores, dtype=torch.bool).tril()
    bias = torch.where(seen, scores.double() - product.double(), torch.nan)
    bias = bias - bias[..., :1]
    away = (bias - bias[:, -1:]).nan_to_num().abs().max()
    return bool(away <= 1e-3 * product.double().abs().max())


def _judge_heads(call: AttentionCall, scores: Tensor, place: dict[str, object]) -> None:
    """Where no one factor explains the scores of all heads, some head may stray alone."""
    product = scores_of(call.query, call.key)
    scores = scores[..., : product.shape[-1]]
    if scores.shape != product.shape:
        return
    each = [slope(scores[:, [h]], product[:, [h]]) for h in range(scores.shape[1])]
    strays = [head for head, found in enumerate(each) if found is None]
    if not strays or len(strays) == len(each):
        return
    factor = next(found for found in each if found is not None)
    strays = [h for h in strays if not _forgets(scores[:, h], factor * product[:, h])]
    if not strays:
        return
    fail(
        "the scores of each head are a function of its own queries and keys",
        fails="The scores of head {head} do not follow from its own queries and keys",
        where={**place, "head": strays[0]},
        remedy="Other heads follow their q·k. Does this one use the keys of another, or is part of "
        "it overwritten?",
        component="heads",
        cause="head-strays",
    )
