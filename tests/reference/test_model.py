"""The assembled GPT: what goes in, what comes out, what is refused."""

import pytest
import torch
from hypothesis import strategies as st

from theodolite.fixtures.oracles import formulas as oracle
from theodolite.fixtures.oracles.strategies import drawn
from theodolite.reference import (
    GPT,
    GPTConfig,
    KeyValueCache,
    LearnedPositions,
    Rotary,
    SinusoidalPositions,
    gpt2_style,
    token_loss,
)

SMALL = {"vocabulary": 31, "width": 24, "layers": 3, "heads": 4}
KINDS = {
    "article": GPTConfig(**SMALL),
    "table": GPTConfig(**SMALL, context=20, rotary_pairing="half"),
    "grouped": GPTConfig(**SMALL, kv_heads=2, qk_norm=True, attention_softcap=5.0),
    "post": GPTConfig(**SMALL, placement="post", positions="sinusoidal", feed_forward="relu"),
    "unplaced": GPTConfig(**SMALL, positions="none", logit_softcap=3.0, fused=True),
    "gpt2": gpt2_style(vocabulary=31, width=24, context=20),
}
BOUND = 1e-11
"""Float64: some 10⁴ roundings of 1e-16 between ids and logits of unit size, with room to grow."""
SPREAD = 6 / (2 * 64 * 64) ** 0.5
"""Six standard errors of a standard deviation estimated from at least 64·64 weights."""


def build(kind, **changes):
    torch.manual_seed(0)
    model = GPT(KINDS[kind])
    for parameter in model.parameters():  # far from uniform attention, so that positions count
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return model.double().eval()


def random_ids(batch=3, length=11):
    return torch.randint(31, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
def test_logits_for_every_position_and_a_loss_where_targets_are_given(kind):
    model, ids = build(kind), random_ids()
    logits = model(ids)
    assert logits.shape == (3, 11, 31)
    again, loss = model(ids, ids)
    assert torch.equal(again, logits)
    assert torch.equal(loss, token_loss(logits, ids))


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_token_never_changes_an_earlier_logit(kind):
    model, ids = build(kind), random_ids()
    for cut in (1, 4, 7):
        changed = ids.clone()
        changed[:, cut:] = (changed[:, cut:] + 1) % 31
        assert torch.equal(model(changed)[:, :cut], model(ids)[:, :cut])
        assert not torch.equal(model(changed)[:, cut:], model(ids)[:, cut:])


@drawn(
    15,
    kind=st.sampled_from(sorted(KINDS)),
    chunks=st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_chunks_through_a_cache_give_the_full_forward(kind, chunks):
    model, ids = build(kind), random_ids(length=sum(chunks))
    cache = model.new_cache()
    pieces = [model(chunk, cache=cache) for chunk in ids.split(chunks, dim=1)]
    assert cache.length == sum(chunks)
    assert (torch.cat(pieces, dim=1) - model(ids)).abs().max() <= BOUND


@pytest.mark.parametrize("fused", [False, True])
def test_fused_attention_changes_nothing(fused):
    torch.manual_seed(0)
    written = GPT(GPTConfig(**SMALL, kv_heads=2)).double()
    other = GPT(GPTConfig(**SMALL, kv_heads=2, fused=fused)).double()
    other.load_state_dict(written.state_dict())
    ids = random_ids()
    padding = (torch.arange(11) >= torch.tensor([[0], [3], [5]])).long()
    for mask in (None, padding):
        distance = other(ids, attention_mask=mask) - written(ids, attention_mask=mask)
        assert distance.abs().max() <= BOUND


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_no_real_token(kind, side):
    model, ids = build(kind), random_ids()
    pad, ones = random_ids(length=4), torch.ones(3, 11, dtype=torch.long)
    zeros = torch.zeros(3, 4, dtype=torch.long)
    order = (lambda a, b: (b, a)) if side == "left" else (lambda a, b: (a, b))
    padded, mask = torch.cat(order(ids, pad), dim=1), torch.cat(order(ones, zeros), dim=1)
    logits = model(padded, attention_mask=mask)
    real = logits[:, 4:] if side == "left" else logits[:, :11]
    assert logits.isfinite().all()
    assert (real - model(ids)).abs().max() <= BOUND
    assert (model(ids, attention_mask=ones) - model(ids)).abs().max() <= BOUND


def test_left_padded_rows_decode_through_a_cache():
    model, ids = build("gpt2"), random_ids()
    padding = (torch.arange(11) >= torch.tensor([[0], [3], [5]])).long()
    cache = model.new_cache()
    first = model(ids[:, :7], cache=cache, attention_mask=padding[:, :7])
    second = model(ids[:, 7:], cache=cache, attention_mask=padding)
    whole = model(ids, attention_mask=padding)
    assert (torch.cat((first, second), dim=1) - whole).abs().max() <= BOUND


def test_shifted_positions_move_absolute_models_and_not_rotary_ones():
    ids, shifted = random_ids(), torch.arange(11) + 9
    rotary, learned = build("table"), build("gpt2")
    assert (rotary(ids, positions=shifted) - rotary(ids)).abs().max() <= BOUND
    per_row = shifted.expand(3, 11)
    assert (rotary(ids, positions=per_row) - rotary(ids)).abs().max() <= BOUND
    assert (learned(ids, positions=shifted) - learned(ids)).abs().max() > 0.1


def test_soft_caps_bend_scores_and_logits():
    model, ids = build("unplaced"), random_ids()
    assert model(ids).abs().max() < 3
    model.config = GPTConfig(**SMALL, positions="none")
    uncapped = model(ids)
    assert uncapped.abs().max() > 3
    assert (3 * (uncapped / 3).tanh() - build("unplaced")(ids)).abs().max() <= BOUND

    layer, x = build("grouped").blocks[0].attention, torch.randn(2, 5, 24).double()
    query, key, value = layer.project(x)
    key, value = (part.repeat_interleave(2, dim=1) for part in (key, value))
    joined = oracle.attention(
        *(part.detach() for part in (query, key, value)), causal=True, softcap=5
    )
    expected = layer.output(torch.from_numpy(joined).transpose(1, 2).flatten(2))
    assert (layer(x) - expected).abs().max() <= BOUND


def test_a_model_is_the_articles_unless_told_otherwise():
    assert GPT().config == GPTConfig()
    assert GPT().head.bias is None


def test_each_way_to_tell_positions_has_its_part_and_no_other():
    built = {kind: GPT(config) for kind, config in KINDS.items()}
    parts = {kind: (type(m.positions), type(m.rotary)) for kind, m in built.items()}
    nothing = type(None)
    assert parts["article"] == parts["table"] == parts["grouped"] == (nothing, Rotary)
    assert parts["post"] == (SinusoidalPositions, nothing)
    assert parts["gpt2"] == (LearnedPositions, nothing)
    assert parts["unplaced"] == (nothing, nothing)


def test_rotary_positions_are_those_of_the_configuration():
    told = GPTConfig(
        **SMALL, rotary_base=500.0, rotary_pairing="half", rotary_interpolation=4.0, context=20
    )
    rotary = GPT(told).rotary
    assert (rotary.width, rotary.base, rotary.pairing) == (6, 500.0, "half")
    assert (rotary.interpolation, rotary.length) == (4.0, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_keeps_its_type(kind):
    assert GPT(KINDS[kind])(random_ids()).dtype == torch.float32


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_known_without_values(kind):
    model, ids = GPT(KINDS[kind]).to("meta"), torch.zeros(3, 11, dtype=torch.long, device="meta")
    assert model(ids).shape == model(ids, attention_mask=torch.ones_like(ids)).shape == (3, 11, 31)


def test_an_empty_batch_gives_nothing_and_a_full_context_is_read():
    model = build("table")
    assert model(random_ids(batch=0)).shape == (0, 11, 31)
    assert model(random_ids(length=20)).shape == (3, 20, 31)


def test_biases_begin_at_zero_where_the_spread_of_weights_is_told():
    biases = [p for name, p in GPT(KINDS["gpt2"]).named_parameters() if name.endswith("bias")]
    assert biases
    assert not any(bias.any() for bias in biases)


def test_an_id_outside_the_vocabulary_is_refused():
    for outside in (31, -1):
        for ids in ([[0, outside]], [[outside]]):
            with pytest.raises(IndexError, match=f"Token id {outside} is outside.*from 0 to 30"):
                build("article")(torch.tensor(ids))


def test_what_does_not_fit_is_refused():
    model = build("table")
    with pytest.raises(ValueError, match="give whole numbers of shape"):
        model(torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="21 tokens long and the context holds 20: give the last"):
        model(random_ids(length=21))
    with pytest.raises(ValueError, match=r"give one entry for every token.*3, 11"):
        model(random_ids(), attention_mask=torch.ones(3, 10))
    with pytest.raises(ValueError, match="give one position for each token"):
        model(random_ids(), positions=torch.arange(10))
    with pytest.raises(ValueError, match=r"begin one with model.new_cache\(\)"):
        model(random_ids(), cache=KeyValueCache(2))
    cache = model.new_cache()
    model(random_ids(), cache=cache)
    with pytest.raises(ValueError, match="begin a new cache for a new batch"):
        model(random_ids(batch=2, length=1), cache=cache)


def test_an_exported_model_gives_the_same_logits():
    model, ids = build("article"), random_ids()
    exported = torch.export.export(model, (ids,)).module()
    assert (exported(ids) - model(ids)).abs().max() <= BOUND


def test_weights_that_write_into_the_stream_start_smaller_by_the_depth():
    torch.manual_seed(0)
    model = GPT(GPTConfig(width=64, layers=8, initial_std=0.1))
    block = model.blocks[0]
    for written in (block.attention.output, block.feed_forward.down):
        assert abs(written.weight.std() * 4 / 0.1 - 1) <= SPREAD
    for read in (block.attention.qkv, block.feed_forward.up, model.embedding):
        assert abs(read.weight.std() / 0.1 - 1) <= SPREAD


def test_a_tied_head_starts_near_the_uniform_guess():
    torch.manual_seed(0)
    model = GPT(GPTConfig(**SMALL, tied=True))
    # logits are unit-RMS states times weights of std 0.02: std 0.02·√24 = 0.1
    assert model(random_ids()).std() <= 0.2
