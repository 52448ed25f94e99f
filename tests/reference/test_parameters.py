"""The closed formula against real modules."""

from hypothesis import strategies as st

from theodolite.fixtures.oracles.strategies import drawn
from theodolite.reference import GPT, GPTConfig, count_parameters, parameter_count


@st.composite
def configs(draw):
    kv_heads, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    heads, half = kv_heads * group, draw(st.integers(1, 4))
    return GPTConfig(
        vocabulary=draw(st.integers(1, 30)),
        width=heads * 2 * half,
        layers=draw(st.integers(1, 3)),
        heads=heads,
        kv_heads=draw(st.sampled_from([None, kv_heads])),
        head_width=draw(st.sampled_from([None, 2, 6])),
        feed_forward_width=draw(st.sampled_from([None, 5])),
        feed_forward=draw(st.sampled_from(["swiglu", "relu", "gelu"])),
        norm=draw(st.sampled_from(["rmsnorm", "layernorm"])),
        placement=draw(st.sampled_from(["pre", "post"])),
        positions=draw(st.sampled_from(["rotary", "learned", "sinusoidal", "none"])),
        context=draw(st.integers(1, 12)),
        bias=draw(st.booleans()),
        tied=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
    )


@drawn(60, config=configs())
def test_the_formula_counts_what_is_there(config):
    assert parameter_count(config).total == count_parameters(GPT(config))
