"""``theodolite mutants``: known faults in known-good models."""

import json
import os

import pytest

from theodolite.cli import main
from theodolite.diagnosis import Diagnostician
from theodolite.fleet import Machine
from theodolite.kill_matrix import page
from theodolite.knowledge import digest, faults_of, trials_of
from theodolite.trials import Pair, run_trials

PAIR = ["mutants", "no-scale", "--host", "nano", "--jobs", "1"]


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    file = tmp_path_factory.mktemp("mutants") / "mutants.json"
    assert main([*PAIR, "--json", str(file)]) == 0
    return json.loads(file.read_text(encoding="utf-8"))


def test_a_fault_is_caught_and_the_model_without_it_passes(document):
    sound, faulty = document["trials"]
    assert (sound["mutant"], sound["host"], sound["verdict"]) == (None, "nano", "pass")
    assert (faulty["mutant"], faulty["host"], faulty["verdict"]) == ("no-scale", "nano", "fail")
    assert faulty["checks"]["inside.scale"].startswith("scale")


def test_the_page_tells_what_was_caught(document):
    text = page(document)
    assert "| nano | 1 | 1 | 1 | 1 | 1 |" in text
    assert "| inside.scale | 1 | no-scale |" in text


def test_what_was_seen_becomes_knowledge(document):
    symptoms = document["trials"][1]["checks"]
    known = digest(document)
    first = Diagnostician(faults_of(known), trials_of(known)).suspects(symptoms)[0]
    assert (first.component, first.cause) == ("scale", "no-scale")


class _Fatal(Pair):
    """A pair that ends the process which it is sent to."""

    def __reduce__(self):
        return (os._exit, (1,))


def test_a_process_that_dies_costs_its_own_trial_only():
    plan = [_Fatal("no-scale", "nano"), Pair("no-scale", "nano")]
    fatal, other = run_trials(plan, Machine(1))
    assert (fatal["verdict"], fatal["checks"]) == ("error", {})
    assert fatal["errors"] == ["the process that worked on it ended itself with exit status 1"]
    assert other["verdict"] == "fail"


def test_what_was_tried_is_kept_when_interrupted(tmp_path, monkeypatch, document, capsys):
    def interrupted(plan, fleet):
        yield document["trials"][0]
        raise KeyboardInterrupt

    monkeypatch.setattr("theodolite.trials.run_trials", interrupted)
    file = tmp_path / "mutants.json"
    assert main([*PAIR, "--json", str(file)]) == 130
    assert json.loads(file.read_text(encoding="utf-8"))["trials"] == document["trials"][:1]
    assert "1 of 2 were tried" in capsys.readouterr().err


def test_faults_are_listed_without_trying_them(capsys):
    assert main(["mutants", "--component", "tying", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "tying" in shown
    assert "caught" not in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-fault"], "no mutant is called 'no-such-fault'"),
        (["--host", "bert"], "no host is called 'bert'; there are: reference"),
        (["--component", "colour"], "no component is called 'colour'"),
        (["--jobs", "0"], "--jobs: '0' will not do: give a whole number, 1 or more"),
    ],
)
def test_a_wrong_word_is_a_sentence(words, said, capsys):
    assert main(["mutants", *words]) == 2
    assert said in capsys.readouterr().err
