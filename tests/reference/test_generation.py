"""Writing on."""

import pytest
import torch
from hypothesis import strategies as st

from theodolite.fixtures.oracles.strategies import drawn
from theodolite.reference import GPT, GPTConfig, distribution, generate, gpt2_style

PROMPT = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


def build(**choices):
    torch.manual_seed(0)
    return GPT(GPTConfig(vocabulary=23, width=16, layers=2, heads=2, **choices)).double()


def seeded(seed=7):
    return torch.Generator().manual_seed(seed)


def test_the_prompt_stays_and_the_same_generator_gives_the_same_tokens():
    model = build()
    written = generate(model, PROMPT, 6, generator=seeded())
    assert written.shape == (2, 11)
    assert torch.equal(written[:, :5], PROMPT)
    assert written.max() < 23
    assert torch.equal(written, generate(model, PROMPT, 6, generator=seeded()))
    assert torch.equal(generate(model, PROMPT, 0), PROMPT)


@drawn(
    12,
    length=st.integers(1, 5),
    new_tokens=st.integers(1, 7),
    context=st.sampled_from([None, 1, 3, 6]),
    temperature=st.sampled_from([0.0, 1.0]),
)
def test_a_cache_changes_no_token(length, new_tokens, context, temperature):
    model, prompt = build(), PROMPT[:, :length]
    plain, cached = (
        generate(
            model,
            prompt,
            new_tokens,
            context=context,
            temperature=temperature,
            generator=seeded(),
            use_cache=use_cache,
        )
        for use_cache in (False, True)
    )
    assert torch.equal(plain, cached)


def test_generation_goes_on_past_a_context_that_ends():
    torch.manual_seed(0)
    model = GPT(gpt2_style(context=6))
    assert generate(model, PROMPT, 8, use_cache=True).shape == (2, 13)


def test_tokens_before_the_context_change_nothing():
    model, other = build(), PROMPT.clone()
    other[:, :2] = 0
    one, two = (generate(model, ids, 6, context=3, generator=seeded()) for ids in (PROMPT, other))
    assert torch.equal(one[:, 5:], two[:, 5:])


def test_temperature_zero_takes_the_likeliest():
    model = build()
    written = generate(model, PROMPT, 4, temperature=0)
    assert torch.equal(written[:, 5:], model(written).argmax(-1)[:, 4:-1])


def test_a_row_that_has_ended_stays_ended_and_all_ended_stops():
    model = build()
    greedy = generate(model, PROMPT, 8, temperature=0)
    end = int(greedy[0, 5])
    written = generate(model, PROMPT, 8, temperature=0, end_token=end)
    assert (written[0, 5:] == end).all()
    assert generate(model, PROMPT[:1], 8, temperature=0, end_token=end).shape == (1, 6)


def test_top_k_keeps_k_and_renormalises():
    logits = torch.tensor([[0.4, 0.1, 0.3, 0.2]]).log()
    expected = torch.tensor([[4 / 7, 0, 3 / 7, 0]])
    assert torch.allclose(distribution(logits, top_k=2), expected)
    assert torch.equal(distribution(logits, top_k=9), distribution(logits))


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.05, 1), (0.39, 1), (0.45, 2), (0.75, 3), (0.95, 4), (1.0, 4)]
)
def test_top_p_keeps_the_token_that_crosses(top_p, kept):
    logits = torch.tensor([[0.4, 0.1, 0.3, 0.2]]).log()
    probabilities = distribution(logits, top_p=top_p)
    assert int((probabilities > 0).sum()) == kept
    assert torch.allclose(probabilities.sum(), torch.tensor(1.0))


def test_top_p_stops_where_the_probabilities_reach_it_exactly():
    quarters = distribution(torch.zeros(1, 4), top_p=0.5)
    assert sorted(quarters[0].tolist()) == [0.0, 0.0, 0.5, 0.5]


def test_each_row_is_filtered_and_sums_to_one_by_itself():
    logits = torch.tensor([[0.4, 0.1, 0.3, 0.2], [0.1, 0.7, 0.1, 0.1]]).log()
    for choices in ({}, {"top_k": 2}, {"top_p": 0.6}, {"top_k": 3, "top_p": 0.6}):
        together = distribution(logits, **choices)
        assert torch.allclose(together.sum(-1), torch.ones(2))
        alone = [distribution(logits[row : row + 1], **choices) for row in range(2)]
        assert torch.equal(together, torch.cat(alone))


def test_temperature_divides_the_logits():
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    assert torch.allclose(distribution(logits, temperature=0.5), (logits * 2).softmax(-1))


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"temperature": -1.0}, "temperature is -1.0: give 0"),
        ({"top_k": 0}, "top_k is 0: give at least 1"),
        ({"top_p": 0.0}, "top_p is 0.0: give a probability"),
        ({"top_p": 1.5}, "top_p is 1.5: give a probability"),
        ({"context": 0}, "context is 0: give at least 1 token"),
        ({"new_tokens": -1}, "new_tokens is -1: give 0 or more"),
        ({"ids": PROMPT[:, :0]}, "with at least 1 token"),
    ],
)
def test_arguments_out_of_range_are_refused(choices, sentence):
    arguments = {"ids": PROMPT, "new_tokens": 1} | choices
    with pytest.raises(ValueError, match=sentence):
        generate(build(), **arguments)


@pytest.mark.parametrize("temperature", [0, -1.0])
def test_a_distribution_has_a_temperature_above_zero(temperature):
    with pytest.raises(ValueError, match=f"temperature is {temperature}"):
        distribution(torch.zeros(1, 3), temperature=temperature)
