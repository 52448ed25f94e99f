"""The same causal attention, in the ways in which people write it, is recorded the same."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from theodolite.fixtures.recording.amplify import amplified_scores
from theodolite.fixtures.recording.recorder import record

B, T, H, D = 2, 7, 3, 4
SCALE = D**-0.5
FUTURE = torch.ones(T, T, dtype=torch.bool).triu(1)
ROUNDING = 1e-6
"""Eight units of the last place of numbers below one, the largest that are compared here."""


def heads(x):
    return x.view(B, T, H, D).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


def hidden(scores):
    return scores.masked_fill(FUTURE, -math.inf)


def at_sign(q, k, v):
    q, k, v = map(heads, (q, k, v))
    return joined(hidden(q @ k.mT / math.sqrt(D)).softmax(-1) @ v)


def in_place(q, k, v):
    q, k, v = map(heads, (q, k, v))
    scores = torch.matmul(q, k.transpose(2, 3))
    scores *= SCALE
    scores.masked_fill_(FUTURE, float("-inf"))
    return joined(torch.matmul(F.softmax(scores, dim=-1), v))


def assigned_mask(q, k, v):
    q, k, v = map(heads, (q, k, v))
    scores = q @ k.mT * SCALE
    scores[:, :, FUTURE] = -math.inf
    return joined(scores.softmax(-1) @ v)


def added_mask(q, k, v):
    q, k, v = map(heads, (q, k, v))
    mask = torch.zeros(T, T).masked_fill(FUTURE, torch.finfo(torch.float32).min)
    return joined(torch.softmax(q @ k.mT * SCALE + mask, -1) @ v)


def einsum_bhid(q, k, v):
    q, k, v = map(heads, (q, k, v))
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * SCALE
    return joined(torch.einsum("bhij,bhjd->bhid", hidden(scores).softmax(-1), v))


def einsum_bthd(q, k, v):
    q, k, v = (x.unflatten(-1, (H, D)) for x in (q, k, v))
    scores = torch.einsum("bthd,bshd->bhts", q, k) * SCALE
    return torch.einsum("bhts,bshd->bthd", hidden(scores).softmax(-1), v).flatten(2)


def einsum_ellipsis(q, k, v):
    q, k, v = map(heads, (q, k, v))
    scores = torch.einsum("... i d, ... j d -> ... i j", q * SCALE, k)
    return joined(torch.einsum("...ij,...jd->...id", hidden(scores).softmax(-1), v))


def baddbmm(q, k, v):
    q, k, v = (heads(x).flatten(0, 1) for x in (q, k, v))
    mask = torch.zeros(1, T, T).masked_fill(FUTURE, -1e9).expand(B * H, T, T)
    scores = torch.baddbmm(mask, batch1=q, batch2=k.mT, alpha=SCALE)
    return joined(torch.bmm(scores.softmax(-1), v).unflatten(0, (B, H)))


def heads_before_batch(q, k, v):
    q, k, v = (torch.cat(x.chunk(H, -1), dim=0) for x in (q, k, v))
    out = hidden(q @ k.mT * SCALE).softmax(-1) @ v
    return torch.cat(out.chunk(H, 0), dim=-1)


def keys_by_queries(q, k, v):
    q, k, v = map(heads, (q, k, v))
    weights = (k @ q.mT * SCALE).masked_fill(FUTURE.T, -math.inf).softmax(-2)
    return joined((v.mT @ weights).mT)


def checkpointed(q, k, v):
    return checkpoint(at_sign, q, k, v, use_reentrant=False)


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        return at_sign(q, k, v)


def autograd_function(q, k, v):
    return Custom.apply(q, k, v)


def fused(q, k, v):
    return joined(F.scaled_dot_product_attention(*map(heads, (q, k, v)), is_causal=True))


def fused_imported_by_name(q, k, v):
    return joined(scaled_dot_product_attention(*map(heads, (q, k, v)), attn_mask=~FUTURE))


def fused_with_float_mask(q, k, v):
    mask = torch.zeros(T, T).masked_fill(FUTURE, -math.inf)
    return joined(F.scaled_dot_product_attention(*map(heads, (q, k, v)), mask))


def exp_and_sum(q, k, v):
    q, k, v = map(heads, (q, k, v))
    scores = hidden(q @ k.mT * SCALE)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return joined(weights / weights.sum(-1, keepdim=True) @ v)


def log_softmax(q, k, v):
    q, k, v = map(heads, (q, k, v))
    return joined(hidden(q @ k.mT * SCALE).log_softmax(-1).exp() @ v)


def compiled(q, k, v):
    return torch.compile(at_sign, backend="eager")(q, k, v)


def vmapped(q, k, v):
    def one(q, k, v):
        return hidden(q @ k.mT * SCALE).softmax(-1) @ v

    return joined(torch.vmap(torch.vmap(one))(*map(heads, (q, k, v))))


def flex(q, k, v):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, T, T, device="cpu")
    return joined(flex_attention(*map(heads, (q, k, v)), block_mask=mask))


EXPLICIT = [
    at_sign, in_place, assigned_mask, added_mask, einsum_bhid, einsum_bthd, einsum_ellipsis,
    baddbmm, heads_before_batch, keys_by_queries, checkpointed, autograd_function, log_softmax,
    compiled,
]  # fmt: skip
IN_ONE_PIECE = [fused, fused_imported_by_name, fused_with_float_mask]
WAYS = [*EXPLICIT, *IN_ONE_PIECE, exp_and_sum, vmapped, flex]
AMPLIFIABLE = [way for way in WAYS if way is not vmapped]
GRADIENTS = [torch.no_grad, torch.enable_grad, torch.inference_mode]

pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def way(request):
    return request.param


@pytest.fixture(params=GRADIENTS, ids=lambda context: context.__name__)
def gradients(request, way):
    if way is flex and request.param is torch.enable_grad:
        pytest.skip("flex attention has no backward on this device")
    return request.param


def test_one_attention_is_found_with_its_operands_probabilities_and_scale(
    way, gradients, one_layer, ids
):
    model = one_layer(way)
    q, k, v = (heads(x.detach()) for x in model.projections(ids))
    with gradients():
        recording = record(model, lambda: model(ids))
    (call,) = recording.calls
    pre_scaled = SCALE if way is einsum_ellipsis else 1.0
    assert recording.reason is None
    assert call.query.allclose(q * pre_scaled, atol=ROUNDING, rtol=0)
    assert call.key.allclose(k, atol=ROUNDING, rtol=0)
    assert call.value.allclose(v, atol=ROUNDING, rtol=0)
    expected = hidden(q @ k.mT * SCALE).softmax(-1)
    assert call.probabilities.allclose(expected, atol=ROUNDING, rtol=0)
    assert call.output.allclose(expected @ v, atol=ROUNDING, rtol=0)
    assert call.scale == pytest.approx(SCALE, rel=1e-5)
    assert call.extra_columns == 0


def test_the_scores_are_what_softmax_got(way, one_layer, ids):
    model = one_layer(way)
    with torch.no_grad():
        (call,) = record(model, lambda: model(ids)).calls
    assert call.scores.softmax(-1).allclose(call.probabilities, atol=ROUNDING, rtol=0)
    if call.softmax_output is not None:
        assert call.softmax_output.allclose(call.probabilities, atol=ROUNDING, rtol=0)


def test_what_was_projected_is_found(way, one_layer, ids):
    model = one_layer(way)
    with torch.no_grad():
        q, k, v = map(heads, model.projections(ids))
        (call,) = record(model, lambda: model(ids)).calls
    assert call.stream.reshape(B, T, -1).equal(model.embedding(ids))
    if way is heads_before_batch:
        assert call.projected_query is call.projected_key is call.projected_value is None
        return
    assert call.projected_key.equal(k)
    assert call.projected_value.equal(v)
    if way is not einsum_ellipsis:
        assert call.projected_query.equal(q)


def test_the_output_is_that_of_an_unrecorded_run(way, gradients, one_layer, ids):
    model = one_layer(way)
    with gradients():
        expected = model(ids)
        assert record(model, lambda: model(ids)).output.equal(expected)


def test_gradients_flow_through_a_recorded_forward(one_layer, ids):
    gradients = []
    for recorded in (False, True):
        model = one_layer(at_sign)
        out = record(model, lambda m=model: m(ids)).output if recorded else model(ids)
        out.square().sum().backward()
        gradients.append(model.query.weight.grad)
    assert gradients[0].equal(gradients[1])


@pytest.mark.parametrize("way", AMPLIFIABLE, ids=lambda way: way.__name__)
def test_amplified_scores_are_those_of_larger_queries(way, one_layer, ids):
    model, larger = one_layer(way), one_layer(way)
    with torch.no_grad():
        larger.query.weight *= 64
        larger.query.bias *= 64
        with amplified_scores(64.0) as amplified:
            out = model(ids)
        assert out.allclose(larger(ids), atol=ROUNDING, rtol=0)
        assert not out.allclose(model(ids), atol=0.1, rtol=0)
    assert amplified.count == 1


def test_amplification_shows_a_finite_fill(one_layer, ids):
    def filled(q, k, v):
        q, k, v = map(heads, (q, k, v))
        return joined((q @ k.mT * SCALE).masked_fill(FUTURE, -30.0).softmax(-1) @ v)

    def first_position_moves(factor):
        model, changed = one_layer(filled), ids.clone()
        changed[:, -1] = 4
        with torch.no_grad(), amplified_scores(factor):
            return float((model(ids) - model(changed))[:, 0].abs().max())

    assert first_position_moves(1.0) < 1e-6
    assert first_position_moves(1e4) > 0.1


def test_nothing_is_amplified_where_no_attention_is_visible(one_layer, ids):
    model = one_layer(vmapped)
    with torch.no_grad():
        expected = model(ids)
        with amplified_scores(64.0) as amplified:
            assert model(ids).equal(expected)
    assert amplified.count == 0


def test_dropout_draws_the_same_when_amplified(one_layer, ids):
    def dropped(q, k, v):
        q, k, v = map(heads, (q, k, v))
        return joined(F.dropout(hidden(q @ k.mT * SCALE).softmax(-1), 0.5) @ v)

    model = one_layer(dropped)
    with torch.no_grad():
        torch.manual_seed(1)
        expected = model(ids)
        torch.manual_seed(1)
        with amplified_scores(1.0):
            assert model(ids).equal(expected)
