"""A model that does not have what its configuration, or a person, says: the check that is for it
fails, with the right component; and the model that has it passes."""

from dataclasses import replace

import pytest
import torch

import theodolite
from theodolite.fixtures.errors import UsageError
from theodolite.fixtures.judging.judgement import NotApplicable, PropertyFailure
from theodolite.fixtures.subject.subject import Subject
from theodolite.properties.checks import test_declared, test_parameters
from theodolite.properties.mutants import load_hosts, load_mutants
from theodolite.reference import GPT, GPTConfig

pytest.importorskip("transformers")
MUTANTS = {each.name: each for each in load_mutants()}
LIBRARY = next(host for host in load_hosts() if host.name == "library")


CHECKS = [
    *(check for name, check in vars(test_declared).items() if name.startswith("test_")),
    test_parameters.test_parameters_are_as_many_as_the_anatomy_predicts,
]


def failures(subject, **declare):
    """What the checks of declarations find, by their ids."""
    if not isinstance(subject, Subject):
        subject = Subject.load(subject, declarations=declare)
    found = {}
    for function in CHECKS:
        (marker,) = [mark for mark in function.pytestmark if mark.name == "claim"]
        try:
            function(subject)
        except PropertyFailure as failure:
            judgement = failure.judgement
            accused = judgement.component or marker.kwargs["component"]
            found[marker.kwargs["check"]] = replace(judgement, component=accused)
        except NotApplicable:
            continue
    return found


def only(found, check):
    assert list(found) == [check]
    return found[check]


def of_library(name):
    """What the checks of declarations find of the fault, and the sources of what is declared."""
    with MUTANTS[name].applied(LIBRARY):
        subject = LIBRARY.subject(MUTANTS[name])
        return failures(subject), subject.sources


YARN = {
    "rope_theta": 500_000.0, "rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
LATENT = MUTANTS["latent-attention-without-its-factor"].settings


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ("hf:llama", {"rope_parameters": {"rope_theta": 500_000.0}}),
        (
            "hf:llama",
            {"rope_parameters": {"rope_theta": 500_000.0, "rope_type": "linear", "factor": 4.0}},
        ),
        ("hf:llama", {"rope_parameters": YARN, "head_dim": 16}),
        ("hf:mistral", {"attn_implementation": "eager"}),
        ("hf:mistral", {"attn_implementation": "sdpa"}),
        ("hf:mistral", {"sliding_window": 90, "max_position_embeddings": 256}),
        ("hf:deepseek_v3", {key: value for key, value in LATENT.items() if key != "model"}),
        ("hf:llama", {"tie_word_embeddings": True}),
    ],
    ids=str,
)
def test_a_correct_model_has_all_that_its_configuration_says(spec, settings):
    subject = Subject.load(spec, settings=settings)
    assert failures(subject) == {}
    if settings.get("rope_parameters") == {"rope_theta": 500_000.0}:
        assert subject.sources["rope_frequencies"] == "rope_theta = 500000"


@pytest.mark.parametrize(
    ("name", "check", "cause"),
    [
        ("configured-base-ignored", "declared.rope", None),
        ("configured-interpolation-ignored", "declared.rope", None),
        ("partial-rotation-ignored", "declared.rope", "rope-width"),
        ("attention-factor-dropped", "declared.rope", "rope-magnitude-differs"),
        ("attention-factor-squared", "declared.rope", "rope-magnitude-differs"),
        ("configured-window-ignored", "declared.window", "window-ignored"),
        ("configured-soft-cap-dropped", "declared.soft_cap", "soft-cap-ignored"),
        ("configured-scale-ignored", "declared.scale", None),
        ("latent-attention-without-its-factor", "declared.scale", None),
        ("configured-activation-ignored", "declared.feed_forward", None),
        ("configured-experts-ignored", "declared.feed_forward", "active-experts-differs"),
    ],
)
def test_one_check_alone_sees_what_the_library_ignores(name, check, cause):
    found, _ = of_library(name)
    judgement = only(found, check)
    assert judgement.component == MUTANTS[name].component
    assert cause in {None, judgement.cause}
    if name == "configured-base-ignored":
        assert "rope_theta = 500000" in str(judgement)
        assert judgement.where["pair"] == 1
    measured = {"partial-rotation-ignored": 8, "configured-activation-ignored": "gelu"}
    assert name not in measured or judgement.where["measured"] == measured[name]


def test_a_window_that_is_wider_than_the_usual_sequence():
    settings = {"sliding_window": 90, "max_position_embeddings": 256}
    subject = Subject.load("hf:mistral", settings=settings, declarations={"window": 91})
    assert only(failures(subject), "declared.window").cause == "window-differs"


def test_a_tie_that_is_ignored():
    subject = Subject.load("hf:llama", settings={"tie_word_embeddings": True})
    model = subject.model
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    untied = Subject.load(model, declarations={"tied": True})
    check = only(failures(untied), "declared.tied")
    assert (check.component, check.cause) == ("tying", "tie-ignored")


def test_layers_in_a_plain_list_are_not_registered():
    mutant = MUTANTS["blocks-in-a-list"]
    with mutant.applied():
        check = only(
            failures(GPT(GPTConfig(width=24, layers=2, vocabulary=31))), "parameters.formula"
        )
    assert (check.component, check.cause) == ("parameters", "parameters-unregistered")


@pytest.mark.parametrize(
    ("declare", "check"),
    [
        ({"profile": "llama"}, None),
        ({"profile": "llama", "activation": "gelu"}, "declared.feed_forward"),
        ({"profile": "gpt2"}, "declared.positions"),
        ({"positions": "rotary", "rope_base": 10_000, "rope_pairing": "interleaved"}, None),
        ({"positions": "alibi"}, "declared.positions"),
        ({"rope_pairing": "half"}, "declared.rope"),
        ({"rope_base": 500_000.0}, "declared.rope"),
        ({"scale": 0.125}, "declared.scale"),
        ({"window": 8}, "declared.window"),
        ({"window": None, "soft_cap": None}, None),
        ({"soft_cap": 30.0}, "declared.soft_cap"),
        ({"tied": True}, "declared.tied"),
        ({"bias": True}, "declared.norm"),
        ({"norm": "layer"}, "declared.norm"),
        ({"norm_eps": 1e-6}, "declared.norm"),
        ({"norm_eps": 1e-5, "placement": "pre", "parallel": False}, None),
        ({"experts": 8}, "declared.feed_forward"),
        ({"heads": 4, "kv_heads": 4, "layers": 4, "width": 128, "head_width": 32}, None),
        ({"kv_heads": 2}, "declared.shape"),
        ({"parameters": 810_624}, None),
        ({"parameters": 810_625}, "parameters.formula"),
    ],
    ids=str,
)
def test_what_a_person_declares_is_held_against_the_reference(declare, check):
    found = failures("reference", **declare)
    assert check in found if check else found == {}


@pytest.mark.parametrize(
    ("declare", "sentence"),
    [
        ({"windw": 8}, "nothing is called 'windw'"),
        ({"window": "wide"}, "window is declared as 'wide'"),
        ({"positions": "rope"}, "positions is declared as 'rope'"),
        ({"scale": -1.0}, "scale is declared as -1.0"),
        ({"tied": "yes"}, "tied is declared as 'yes'"),
    ],
)
def test_what_means_nothing_is_refused_by_a_sentence(declare, sentence):
    with pytest.raises(UsageError, match=sentence):
        theodolite.audit("reference", declare=declare)
