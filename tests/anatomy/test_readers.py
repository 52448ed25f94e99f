"""Each reader of a part by itself, on parts whose make is known."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from theodolite import audit
from theodolite.fixtures.anatomy.assembly import (
    attention_branch,
    feed_forward_branch,
    read_assembly,
)
from theodolite.fixtures.anatomy.blocks import blocks_of, last_of, layer_path
from theodolite.fixtures.anatomy.entrances import entrances_of
from theodolite.fixtures.anatomy.feed_forward import feed_forwards, roles
from theodolite.fixtures.anatomy.feed_forward_kinds import networks_of
from theodolite.fixtures.anatomy.heads import key_sharing, order_of
from theodolite.fixtures.anatomy.kinds import experts_in, has_experts, kind_of
from theodolite.fixtures.anatomy.norm import is_norm, norm_calls, norms_of
from theodolite.fixtures.anatomy.rotation import read_rotation
from theodolite.fixtures.anatomy.scale import configured_scale
from theodolite.fixtures.anatomy.sight import Sight, read_sight
from theodolite.fixtures.recording.forward import watch

WIDTH = 24


# -- norms -------------------------------------------------------------------------------------


class Formula(nn.Module):
    """A norm written by hand, with a weight."""

    def __init__(self, formula, offset=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, WIDTH))
        self.formula, self.offset = formula, offset

    def forward(self, x):
        return self.formula(x) * (self.offset + self.weight)


def mean_square(x):
    return x.square().mean(-1, keepdim=True)


def reading_of(norm):
    model, x = nn.Sequential(norm), torch.randn(2, 5, WIDTH)
    with torch.no_grad():
        forward = watch(model, lambda: model(x), torch.zeros(2, 5, dtype=torch.long))
    return list(norms_of(forward))


def drawn(norm):
    torch.manual_seed(0)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


NORMS = {
    "RMSNorm": (drawn(nn.RMSNorm(WIDTH, eps=1e-6)), ("rms", "weight", False, 1e-6)),
    "LayerNorm": (drawn(nn.LayerNorm(WIDTH)), ("layer", "weight", True, 1e-5)),
    "without gains": (
        nn.LayerNorm(WIDTH, eps=1e-3, elementwise_affine=False),
        ("layer", "none", False, 1e-3),
    ),
    "1 + weight": (
        Formula(lambda x: x * torch.rsqrt(mean_square(x) + 1e-5), offset=1.0),
        ("rms", "1 + weight", False, 1e-5),
    ),
    "large epsilon": (
        Formula(lambda x: x * torch.rsqrt(mean_square(x) + 2e-3)),
        ("rms", "weight", False, 2e-3),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_is_read(name):
    norm, (kind, gain, bias, eps) = NORMS[name]
    (reading,) = reading_of(norm)
    found = reading.norm
    assert (found.kind, found.gain, found.bias) == (kind, gain, bias)
    assert found.eps == pytest.approx(eps, rel=0.02)
    assert reading.epsilon == "inside"


def test_epsilon_outside_the_root_or_missing_is_said_so():
    (outside,) = reading_of(Formula(lambda x: x / (mean_square(x).sqrt() + 1e-3)))
    (missing,) = reading_of(Formula(lambda x: x / mean_square(x).sqrt()))
    assert (outside.epsilon, outside.eps) == ("outside", None)
    assert (missing.epsilon, missing.eps) == ("missing", 0.0)


def test_an_rms_norm_that_divides_by_the_deviation_is_of_neither_kind():
    (reading,) = reading_of(Formula(lambda x: x / x.std(-1, keepdim=True)))
    assert (reading.kind, reading.norm) == ("deviation", None)


def test_a_norm_that_multiplies_shows_its_power():
    (reading,) = reading_of(Formula(lambda x: x * mean_square(x).sqrt()))
    assert reading.power == pytest.approx(2, abs=1e-3)


@pytest.mark.parametrize("part", [nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Identity()], ids=str)
def test_what_grows_with_its_input_is_no_norm(part):
    assert not is_norm(part, torch.randn(2, 5, WIDTH))
    assert not reading_of(part)


# -- rotation ----------------------------------------------------------------------------------


def rotated(pairs, base, channels, *, length=48, divisor=1.0):
    """(N, T, d): vectors of which `pairs` of channels turn by base^(-i/len(pairs)) a position."""
    torch.manual_seed(0)
    x = torch.randn(6, 1, channels).expand(-1, length, -1).clone()
    low, high = torch.tensor(pairs).T
    frequencies = base ** (-torch.arange(len(pairs), dtype=torch.float64) / len(pairs)) / divisor
    angle = torch.arange(length)[:, None] * frequencies
    cos, sin = angle.cos().float(), angle.sin().float()
    a, b = x[..., low], x[..., high]
    x[..., low], x[..., high] = a * cos - b * sin, a * sin + b * cos
    return x


def half(width, offset=0):
    return [(offset + i, offset + i + width // 2) for i in range(width // 2)]


def interleaved(width, offset=0):
    return [(offset + i, offset + i + 1) for i in range(0, width, 2)]


@pytest.mark.parametrize("base", [100.0, 10_000.0, 500_000.0])
@pytest.mark.parametrize(("channels", "width", "offset"), [(8, 8, 0), (64, 64, 0), (16, 8, 4)])
@pytest.mark.parametrize("pairing", [half, interleaved])
def test_a_rotation_is_read(pairing, channels, width, offset, base):
    found = read_rotation(rotated(pairing(width, offset), base, channels))
    assert (found.pairing, found.width, found.offset) == (pairing.__name__, width, offset)
    assert found.base == pytest.approx(base, rel=1e-2)
    assert (found.scaling, found.factor) == ("none", 1.0)


def test_frequencies_that_are_all_divided_are_a_linear_scaling():
    found = read_rotation(rotated(half(16), 10_000.0, 16, divisor=4.0))
    assert found.scaling == "linear"
    assert found.factor == pytest.approx(4, rel=1e-3)


def test_slow_pairs_that_hardly_turn_belong_to_the_rotation_all_the_same():
    found = read_rotation(rotated(half(64), 1e12, 64))
    assert (found.pairing, found.width, len(found.frequencies)) == ("half", 64, 32)
    assert found.base == pytest.approx(1e12, rel=0.1)


def test_lengths_that_grow_with_position_are_left_out_of_account():
    x = rotated(half(8), 100.0, 8) * torch.linspace(1, 2, 48)[:, None]
    assert read_rotation(x).base == pytest.approx(100, rel=1e-3)


def test_what_stands_still_has_no_rotation_and_what_drifts_has_a_sentence():
    still = torch.randn(3, 1, 8).expand(-1, 20, -1)
    assert read_rotation(still) is None
    drifting = still + torch.randn(8) * torch.arange(20)[:, None]
    assert "not by a rotation" in read_rotation(drifting).reason


# -- sight -------------------------------------------------------------------------------------

ROW = torch.arange(12)
TRIANGLE = ROW[:, None] >= ROW


@pytest.mark.parametrize(
    ("visible", "sight"),
    [
        (TRIANGLE, Sight()),
        (TRIANGLE & (ROW[:, None] - ROW < 5), Sight(window=5)),
        (TRIANGLE & (ROW[:, None] // 4 == ROW // 4), Sight(chunk=4)),
    ],
    ids=["all", "window", "chunk"],
)
def test_what_a_query_sees_is_read(visible, sight):
    assert read_sight(visible) == sight


def test_gaps_in_what_a_query_sees_are_neither_window_nor_chunk():
    assert "unbroken" in read_sight(TRIANGLE & ((ROW[:, None] - ROW) % 2 == 0)).reason


# -- experts -----------------------------------------------------------------------------------


def test_linear_layers_of_different_shapes_in_a_list_are_no_experts():
    assert not has_experts(nn.ModuleList([nn.Linear(4, 16), nn.Linear(16, 4)]))


def test_experts_stand_in_lists_in_mappings_and_in_stacks():
    stacked = nn.ParameterDict({"up": torch.zeros(3, 4, 8), "down": torch.zeros(3, 8, 4)})
    listed = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
    named = nn.ModuleDict({f"expert_{i}": nn.Linear(4, 4) for i in range(3)})
    assert [len(*experts_in(holder)) for holder in (stacked, listed, named)] == [3, 3, 3]


# -- whole layers ------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, heads, shared, order):
        super().__init__()
        self.heads, self.shared, self.order = heads, shared, order
        size = WIDTH // heads
        self.wq, self.wo = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wk, self.wv = nn.Linear(WIDTH, shared * size), nn.Linear(WIDTH, shared * size)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (
            w(x).view(B, T, n, -1).transpose(1, 2)
            for w, n in ((self.wq, self.heads), (self.wk, self.shared), (self.wv, self.shared))
        )
        times = self.heads // self.shared
        if self.order == "grouped":
            k, v = (t.repeat_interleave(times, dim=1) for t in (k, v))
        else:
            k, v = (t.repeat(1, times, 1, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, WIDTH))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH), nn.Linear(WIDTH, 40)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, order):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention, self.ff = Attention(4, 2, order), SwiGLU()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.ff(self.norm2(x))


class Model(nn.Module):
    def __init__(self, order):
        super().__init__()
        self.table, self.norm = nn.Embedding(17, WIDTH), nn.RMSNorm(WIDTH)
        self.layers = nn.ModuleList(Block(order) for _ in range(2))
        self.head = nn.Linear(WIDTH, 17)

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def watched(order="grouped"):
    torch.manual_seed(0)
    model, ids = Model(order).eval(), torch.randint(17, (3, 11))
    with torch.no_grad():
        return model, watch(model, lambda: model(ids), ids)


@pytest.mark.parametrize(("order", "groups"), [("grouped", (0, 0, 1, 1)), ("tiled", (0, 1, 0, 1))])
def test_heads_that_share_a_key_are_told(order, groups):
    _, forward = watched(order)
    for call in forward.recording.calls:
        assert key_sharing(call) == groups
        assert order_of(key_sharing(call)) == order


def test_blocks_and_the_entrances_of_their_attention_are_found():
    _, forward = watched()
    blocks = blocks_of(forward)
    assert [block.branch for block in blocks] == ["layers.0.attention", "layers.1.attention"]
    assert last_of(forward, blocks) == "layers.1"
    assert sorted(entrances_of(forward)) == ["layers.0.attention", "layers.1.attention"]


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("model.layers.10.mlp.experts.3.up", "model.layers.10"),
        ("0.1.attn", "0"),
        ("h2.attn", "h2.attn"),
    ],
)
def test_a_layer_ends_at_the_first_index(path, layer):
    assert layer_path(path) == layer


def test_parts_are_called_by_what_they_do():
    model, forward = watched()
    kinds = {
        "table": "embedding",
        "layers.0.norm1": "norm",
        "layers.0.attention.wq": None,
        "layers.0.attention": "attention",
        "layers.1.ff": "feed_forward",
    }
    assert {path: kind_of(model, path, forward.recording) for path in kinds} == kinds


def test_feed_forward_networks_are_found_by_module_and_by_what_they_compute():
    _, forward = watched()
    found = list(feed_forwards(blocks_of(forward), forward))
    assert [network.path for network in found] == ["layers.0.ff", "layers.1.ff"]
    assert {role.name: role.linear for role in roles(found[0])} == {
        "w1.weight": False,
        "w2.weight": True,
        "w3.weight": True,
    }
    networks = networks_of(forward)
    assert list(networks) == ["layers.0", "layers.1"]
    for (network,) in networks.values():
        assert (network.activation, network.gated, network.width) == ("silu", True, 40)


def test_a_layer_is_pre_norm():
    _, forward = watched()
    norms = norm_calls(forward, WIDTH)
    assert len(norms) == 5
    for call, networks in zip(forward.recording.calls, networks_of(forward).values(), strict=True):
        attention = attention_branch(forward, call, WIDTH)
        fed = feed_forward_branch(forward, networks, attention.path, WIDTH)
        assembly = read_assembly(attention, fed, norms)
        assert (assembly.placement, assembly.parallel) == ("pre", False)


def test_a_configuration_names_its_scale():
    assert configured_scale({"query_pre_attn_scalar": 256}, 64, 0).value == 1 / 16
    assert configured_scale({"scale_attn_by_inverse_layer_idx": True}, 64, 1).value == 1 / 16
    assert configured_scale({}, 64, 0) is None
    assert math.isclose(configured_scale({"attn_config": {"softmax_scale": 0.3}}, 64, 0).value, 0.3)


def test_the_blocks_of_a_layer_that_is_a_group_are_no_experts():
    group = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6)) for _ in "ab")
    assert list(experts_in(group, itself=False)) == []
    assert len(*experts_in(group)) == 2


class FirstLesson(nn.Module):
    """One head of attention whose values go to the vocabulary, without an output projection."""

    def __init__(self, vocab_size=31, n_embd=12, block_size=16):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, n_embd)
        self.places = nn.Embedding(block_size, n_embd)
        self.query, self.key, self.value = (nn.Linear(n_embd, n_embd, bias=False) for _ in "qkv")
        self.head = nn.Linear(n_embd, vocab_size)

    def forward(self, ids):
        length = ids.shape[1]
        x = self.tokens(ids) + self.places(torch.arange(length))
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        hidden = torch.ones(length, length).triu(1).bool()
        return self.head(scores.masked_fill(hidden, float("-inf")).softmax(-1) @ self.value(x))


def test_attention_without_an_output_projection_needs_no_parameters_for_one():
    report = audit(FirstLesson, select="parameters")
    assert report.verdict == "pass", [check.message for check in report.failures]
