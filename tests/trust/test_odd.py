"""Right models that do one thing in their own way pass; what is wrong in them is still seen."""

import odd
import pytest
import torch
import torch.nn.functional as F

import theodolite
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
