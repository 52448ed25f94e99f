"""`theodolite.inspect` and ``theodolite inspect``: one anatomy, to read and to compute with."""

import json

import pytest

import theodolite
from theodolite import cli
from theodolite.fixtures.anatomy.measure import anatomy_of
from theodolite.fixtures.subject.subject import Subject
from theodolite.reference import GPT


def test_inspect_gives_the_anatomy_and_leaves_the_model_alone():
    model = GPT().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    anatomy = theodolite.inspect(model)
    assert isinstance(anatomy, theodolite.Anatomy)
    assert (anatomy.layers, anatomy.width, anatomy.positions) == (4, 128, "rotary")
    assert model.training
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())


def test_two_recorded_forwards_are_enough():
    subject = Subject.load("reference")
    before = subject.calls
    subject.views.sharpened  # noqa: B018 - made before the count begins
    assert anatomy_of(subject).layers == 4
    assert subject.calls - before == 2


def test_the_command_draws_a_table_and_marks_what_is_unusual(capsys):
    assert cli.main(["inspect", "--set", "config.vocabulary=74"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for part in ("810,624", "base 10,000", "4 heads of 32", "1/√d_head", "RMSNorm", "gated, silu"):
        assert part in shown
    assert "unusual: d_head is 32" in shown


def test_the_anatomy_as_json(capsys):
    assert cli.main(["inspect", "--json", "-"]) == 0
    anatomy = json.loads(capsys.readouterr().out)
    assert anatomy["layers"] == 4
    assert anatomy["attention"][0]["rotary"]["pairing"] == "interleaved"
    assert anatomy["parameters"]["counted"] == anatomy["parameters"]["predicted"] | {"other": 0}
    assert anatomy["unread"] == {}


def test_layers_that_differ_are_told_apart_in_the_table(capsys):
    pytest.importorskip("transformers")
    assert cli.main(["inspect", "hf:gemma3_text"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "the last 8 tokens (layers 0, 1)" in shown
    assert "all earlier tokens (layers 2)" in shown


def test_what_is_not_read_is_said_with_its_reason(capsys):
    pytest.importorskip("transformers")
    assert cli.main(["inspect", "hf:mamba"]) == 0
    assert "not read: attention: no product of activations" in capsys.readouterr().out.replace(
        "\n", " "
    )


def test_a_declaration_that_means_nothing_is_refused(capsys):
    assert cli.main(["inspect", "--declare", "windw=8"]) == 2
    assert "nothing is called 'windw'" in capsys.readouterr().err


def test_an_audit_reports_the_anatomy():
    report = theodolite.audit("reference", select="parameters.formula")
    assert report.to_dict()["anatomy"]["layers"] == 4
