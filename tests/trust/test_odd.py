"""Right models that do one thing in their own way pass; what is wrong in them is still seen."""

import odd
import pytest
import torch
import torch.nn.functional as F

import theodolite
from theodolite.fixtures.anatomy.blocks import blocks_in
from theodolite.fixtures.anatomy.feed_forward import feed_forwards
from theodolite.fixtures.serving.finding_decoder import decoder_of
from theodolite.fixtures.subject.subject import Subject

RIGHT = (
    odd.NoEpsilon,
    odd.sequential,
    odd.Empty,
    odd.Wordless,
    odd.Dynamic,
    odd.Detached,
    odd.Remembers,
    odd.OneRow,
    odd.OnlyNew,
    odd.Biased,
    odd.Penalised,
    odd.Merging,
    odd.Sinks,
    odd.Inline,
)


def made(make):
    torch.manual_seed(0)
    return make()


@pytest.mark.parametrize("make", RIGHT, ids=lambda make: make.__name__)
@pytest.mark.parametrize("how", ["live", pytest.param("built", marks=pytest.mark.slow)])
def test_a_right_model_passes(make, how):
    report = theodolite.audit(made(make) if how == "live" else make)
    assert report.verdict == "pass", [check.message for check in report.failures]


def failed(model, *select):
    report = theodolite.audit(model, select=list(select))
    return {check.id for check in report.failures}


def test_what_is_detached_in_both_modes_is_a_fault():
    class Always(odd.Detached):
        def forward(self, ids):
            weight = (self.head.weight + (self.down @ self.up).T).detach()
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
            return F.linear(self.norm(self.blocks(x)), weight, self.head.bias)

    found = failed(made(Always), "gradient")
    assert "gradient.every_parameter" in found


def test_a_rotation_that_is_faster_in_long_sequences_is_no_design():
    class Faster(odd.Dynamic):
        def forward(self, ids):
            length = ids.shape[1]
            angles = self.angles[:length] * (1.2 if length > 32 else 1.0)
            x = self.tokens(ids)
            for layer in self.layers:
                x = layer(x, angles)
            return self.head(self.norm(x))

    assert "length.longest" in failed(made(Faster), "length")


def test_a_cache_that_the_caller_joins_is_driven_so():
    subject = Subject.load(made(odd.OnlyNew))
    assert decoder_of(subject).joins
    assert any("the caller joins it" in note for note in subject.notes)


def test_a_cache_that_loses_a_token_is_not_joined_into_a_right_one():
    class Loses(odd.OnlyNew):
        def forward(self, ids, past_key_values=None):
            logits, news = super().forward(ids, past_key_values)
            if past_key_values is None:
                return logits, news
            return logits, [(old[0][:, :, 1:], old[1][:, :, 1:]) for old in past_key_values]

    assert "cache.steps" in failed(made(Loses), "cache")


def test_a_wrong_temperature_is_told_beside_a_penalty():
    class Squared(odd.Penalised):
        def generate(
            self, ids, max_new_tokens, temperature=1.0, top_k=None, repetition_penalty=1.3
        ):
            return super().generate(ids, max_new_tokens, 1 / temperature, top_k, repetition_penalty)

    assert "generation.temperature" in failed(made(Squared), "generation")


def test_adapters_that_are_merged_wrongly_are_seen():
    class Forgets(odd.Adapted):
        def forward(self, x):
            return F.linear(x, self.weight)

    model = made(odd.Merging)
    for layer in model.layers:
        layer.attention.q = Forgets(odd.WIDTH)
    assert "backend.modes" in failed(model, "backend")


def test_a_network_beside_attention_that_is_written_in_the_block_is_judged():
    report = theodolite.audit(made(odd.Inline), select="feed_forward")
    judged = [check for check in report.checks if check.id != "feed_forward.form"]  # of gates alone
    assert {check.outcome for check in judged} == {"passed"}
    model = made(odd.Inline)
    for block in model.blocks:
        block.network[1] = torch.nn.Identity()
    assert "feed_forward.nonlinear" in failed(model, "feed_forward")


def test_a_sink_that_counts_twice_is_no_design():
    class Twice(odd.SinkAttention):
        def forward(self, x):
            with torch.no_grad():
                self.sinks.mul_(2)
            mixed = super().forward(x)
            with torch.no_grad():
                self.sinks.div_(2)
            return mixed

    model = made(odd.Sinks)
    for block in model.blocks:
        block.attention.__class__ = Twice
    assert "inside.sinks" in failed(model, "inside", "positions")


def test_a_layer_that_reads_what_another_has_kept_is_told():
    class First(odd.OnlyNew):
        def forward(self, ids, past_key_values=None):
            past = past_key_values and [past_key_values[0]] * len(past_key_values)
            return super().forward(ids, past)

    report = theodolite.audit(made(First), select="cache.steps")
    (failure,) = report.failures
    assert failure.cause == "cache-of-another-layer"
    assert "Layer 1 reads the keys and values that layer 0 has kept" in failure.message


class Cancels(odd.Lectures):
    """A head that takes the small difference of large sums, and so rounds more than others."""

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        y = self.norm(self.blocks(x)) + 1000.0
        return self.head(y) - self.head(torch.full_like(y, 1000.0))


def test_what_a_model_rounds_itself_is_no_difference():
    view = Subject.load(made(lambda: Cancels(64))).views.sharpened
    logits = view.logits(view.random_ids(2))
    off = 3 * view.relation_bound
    assert 2 * off < view.own_noise < 0.1 * view.spread
    view.same(logits + off, logits, "two ways of computing the logits agree")
    with pytest.raises(AssertionError, match="agree"):
        view.same(logits + 2 * view.own_noise, logits, "two ways of computing the logits agree")


def test_a_model_that_rounds_little_has_no_such_excuse():
    view = Subject.load(made(lambda: odd.Lectures(64))).views.sharpened
    logits = view.logits(view.random_ids(2))
    assert view.own_noise < view.relation_bound
    with pytest.raises(AssertionError, match="agree"):
        view.same(logits + 1.1 * view.relation_bound, logits, "two ways to the logits agree")


def test_a_second_attention_in_a_block_is_no_feed_forward_network():
    found = feed_forwards(*blocks_in(Subject.load(made(odd.Crossed)).views.as_given))
    assert [network.path for network in found] == ["blocks.0.network", "blocks.1.network"]
