"""Parts of torch, unusual attention, and what is not visible."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from theodolite.fixtures.recording.recorder import record

B, T, H, D = 2, 7, 3, 4
FUTURE = torch.ones(T, T, dtype=torch.bool).triu(1)


def heads(x):
    return x.view(B, T, H, D).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


def weights(q, k):
    return (q @ k.mT / math.sqrt(D)).masked_fill(FUTURE, -math.inf).softmax(-1)


def seen(model, ids):
    with torch.no_grad():
        return record(model, lambda: model(ids))


class Stack(nn.Module):
    def __init__(self, layers, mask):
        super().__init__()
        self.embedding = nn.Embedding(11, H * D)
        self.layers = layers
        self.mask = mask

    def forward(self, ids):
        return self.layers(self.embedding(ids), mask=self.mask)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("gradients", [torch.no_grad, torch.enable_grad])
def test_multihead_attention_is_opened(need_weights, gradients):
    torch.manual_seed(0)
    layer, x = nn.MultiheadAttention(H * D, H).eval(), torch.randn(T, B, H * D)
    with gradients():
        recording = record(
            layer, lambda: layer(x, x, x, attn_mask=FUTURE, need_weights=need_weights)
        )
    (call,) = recording.calls
    q, k, _ = F.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, -1)
    q, k = (y.transpose(0, 1).reshape(B, T, H, D).transpose(1, 2) for y in (q, k))
    assert call.probabilities.reshape(B, H, T, T).allclose(weights(q, k), atol=1e-6)
    assert call.scale == pytest.approx(D**-0.5)


def test_every_layer_of_a_transformer_encoder_is_seen(ids):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(H * D, H, 16, batch_first=True, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = Stack(encoder, nn.Transformer.generate_square_subsequent_mask(T)).eval()
    recording = seen(model, ids)
    assert [call.module for call in recording.calls] == [
        "layers.layers.0.self_attn",
        "layers.layers.1.self_attn",
    ]
    with torch.no_grad():
        assert recording.output.allclose(model(ids), atol=1e-5)


def test_shared_key_heads_stay_shared(one_layer, ids):
    def grouped(q, k, v):
        q, k, v = map(heads, (q, k, v))
        shared = k[:, :1], v[:, :1]
        out = F.scaled_dot_product_attention(q, *shared, is_causal=True, enable_gqa=True)
        return joined(out)

    (call,) = seen(one_layer(grouped), ids).calls
    assert call.key.shape == (B, 1, T, D)
    assert call.value.shape == (B, 1, T, D)
    assert call.probabilities.allclose(weights(call.query, call.key), atol=1e-6)


def test_repeated_key_heads_are_told_by_their_projection(ids):
    torch.manual_seed(0)
    embedding, query = nn.Embedding(11, 16), nn.Linear(16, 16)
    key, value = nn.Linear(16, 8), nn.Linear(16, 8)

    class Grouped(nn.Module):
        def forward(self, ids):
            x = embedding(ids)
            q = query(x).view(B, T, 4, 4).transpose(1, 2)
            k, v = (part(x).view(B, T, 2, 4).transpose(1, 2) for part in (key, value))
            k, v = (y.repeat_interleave(2, 1) for y in (k, v))
            return (weights(q, k)) @ v

    (call,) = seen(Grouped(), ids).calls
    assert call.key.shape[1] == 4
    assert call.projected_key.shape == (B, 2, T, 4)
    assert call.key.equal(call.projected_key.repeat_interleave(2, 1))


def test_a_sink_is_an_extra_column(one_layer, ids):
    def with_sink(q, k, v):
        q, k, v = map(heads, (q, k, v))
        scores = (q @ k.mT / math.sqrt(D)).masked_fill(FUTURE, -math.inf)
        scores = torch.cat([scores, scores.new_ones(B, H, T, 1)], -1)
        return joined(scores.softmax(-1)[..., :-1] @ v)

    (call,) = seen(one_layer(with_sink), ids).calls
    assert call.extra_columns == 1
    assert call.softmax_output.sum(-1).allclose(torch.ones(B, H, T))
    assert (call.probabilities.sum(-1) < 1).all()
    assert call.scale == pytest.approx(D**-0.5)


def test_zeroing_after_softmax_shows_in_what_meets_the_values(one_layer, ids):
    def zeroed(q, k, v):
        q, k, v = map(heads, (q, k, v))
        return joined((q @ k.mT / math.sqrt(D)).softmax(-1).masked_fill(FUTURE, 0.0) @ v)

    (call,) = seen(one_layer(zeroed), ids).calls
    assert call.softmax_output.sum(-1).allclose(torch.ones(B, H, T))
    assert (call.probabilities.sum(-1)[..., :-1] < 1).all()
    assert call.probabilities.triu(1).eq(0).all()


def test_softmax_over_the_wrong_axis_shows_in_the_rows(one_layer, ids):
    def wrong(q, k, v):
        q, k, v = map(heads, (q, k, v))
        return joined((q @ k.mT / math.sqrt(D)).softmax(-2) @ v)

    (call,) = seen(one_layer(wrong), ids).calls
    assert call.probabilities.sum(-2).allclose(torch.ones(B, H, T))
    assert not call.probabilities.sum(-1).allclose(torch.ones(B, H, T), atol=0.01)


def test_a_soft_cap_is_taken_apart_from_the_scale(one_layer, ids):
    def capped(q, k, v):
        q, k, v = map(heads, (q, k, v))
        scores = 5.0 * torch.tanh(q @ k.mT / math.sqrt(D) / 5.0)
        return joined(scores.masked_fill(FUTURE, -math.inf).softmax(-1) @ v)

    (call,) = seen(one_layer(capped), ids).calls
    assert call.soft_cap == 5.0
    assert call.scale == pytest.approx(D**-0.5)


def test_a_bias_by_distance_does_not_hide_the_scale(one_layer, ids):
    def biased(q, k, v):
        q, k, v = map(heads, (q, k, v))
        distance = torch.arange(T)[None, :] - torch.arange(T)[:, None]
        scores = q @ k.mT / D + 0.5 * distance
        return joined(scores.masked_fill(FUTURE, -math.inf).softmax(-1) @ v)

    (call,) = seen(one_layer(biased), ids).calls
    assert call.scale == pytest.approx(1 / D)


def test_dropout_of_fused_attention_shows_in_its_probabilities(one_layer, ids):
    def dropped(q, k, v):
        q, k, v = map(heads, (q, k, v))
        return joined(F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, is_causal=True))

    model = one_layer(dropped)
    with torch.no_grad():
        torch.manual_seed(3)
        expected = model(ids)
    torch.manual_seed(3)
    recording = seen(model, ids)
    assert recording.output.equal(expected)
    assert not recording.calls[0].probabilities.sum(-1).allclose(torch.ones(B, H, T), atol=0.01)


def test_heads_in_a_loop_are_one_layer(one_layer, ids):
    def loop(q, k, v):
        parts = [slice(h * D, (h + 1) * D) for h in range(H)]
        return torch.cat([weights(q[..., p], k[..., p]) @ v[..., p] for p in parts], -1)

    recording = seen(one_layer(loop), ids)
    assert [len(layer) for layer in recording.layers] == [H]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_a_scripted_function_is_seen_below_python(one_layer, ids):
    @torch.jit.script
    def scripted(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor):
        scores = torch.matmul(q, k.transpose(2, 3)) * 0.5
        return torch.matmul(torch.softmax(scores.masked_fill(mask, -1e9), -1), v)

    model = one_layer(lambda q, k, v: joined(scripted(*map(heads, (q, k, v)), FUTURE)))
    (call,) = seen(model, ids).calls
    assert call.query.shape == (B, H, T, D)
    assert call.probabilities.allclose(weights(call.query, call.key), atol=1e-6)
    assert call.scale == pytest.approx(0.5)


def test_linear_attention_is_not_visible_and_the_reason_says_so(one_layer, ids):
    def linear(q, k, v):
        q, k, v = map(heads, (q, k, v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        sums = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(2)
        return joined(torch.einsum("bhnd,bhnde->bhne", q, sums))

    recording = seen(one_layer(linear), ids)
    assert recording.calls == []
    assert "no attention" in recording.reason


def test_token_and_position_lookups_are_told_apart(ids):
    torch.manual_seed(0)

    class Embeddings(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(11, 8), nn.Embedding(16, 8)

        def forward(self, ids):
            return self.token(ids) + self.position(torch.arange(ids.shape[1]))

    tokens, positions = seen(Embeddings(), ids).embeddings
    assert tokens.weight == "token.weight"
    assert tokens.indices.equal(ids)
    assert positions.weight == "position.weight"
    assert positions.indices.equal(torch.arange(T))
