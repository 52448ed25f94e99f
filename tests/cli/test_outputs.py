"""What cannot be written is said before an audit starts, and nothing of others is overwritten."""

import json

import pytest

BIGRAM = """
from torch import nn


class Bigram(nn.Module):
    def __init__(self, vocab_size):
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, ids):
        return self.table(ids)
"""
AUDIT = ("audit", "bigram.py:Bigram", "--select", "causality.past")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bigram.py").write_text(BIGRAM, encoding="utf-8")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "README.md").write_text("mine", encoding="utf-8")
    return tmp_path


@pytest.fixture
def no_model(monkeypatch):
    """Nothing may be loaded: the audit has not started."""

    def load(*_arguments, **_keywords):
        pytest.fail("a model was loaded")

    monkeypatch.setattr("theodolite.fixtures.subject.subject.load", load)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "nowhere/report.json"], "give a file in a folder that exists"),
        (["--json", "taken"], "--json taken is a folder"),
        (["--json", ""], "--json is empty"),
        (["--json", "a\0b"], "--json 'a\\x00b' is no path"),
        (["--json", "x" * 300], "cannot be written: File name too long"),
        (["--json", "bigram.py"], "--json bigram.py is the subject itself"),
        (["--json", "out", "--junit", "./out"], "--json and --junit would both write"),
        (["--json", "-", "--junit", "-"], "--json and --junit would both write"),
        (["--junit", "nowhere/report.xml"], "give a file in a folder that exists"),
        (["--junit", "bigram.py/report.xml"], "give a file in a folder that exists"),
        (["--reproduce", "taken"], "taken holds README.md, which Theodolite did not write"),
        (["--reproduce", "."], "'.' is no new folder"),
        (["--reproduce", ""], "is no new folder"),
        (["--reproduce", "bigram.py"], "--reproduce bigram.py is a file"),
        (["--reproduce", "bigram.py/scripts"], "bigram.py is a file"),
    ],
)
def test_what_cannot_be_written_is_said_first(theodolite, folder, no_model, words, said):
    outcome = theodolite(*AUDIT, *words)
    assert outcome.status == 2
    assert said in " ".join(outcome.err.split())
    assert (folder / "taken" / "README.md").read_text(encoding="utf-8") == "mine"
    assert (folder / "bigram.py").read_text(encoding="utf-8") == BIGRAM
    assert sorted(path.name for path in folder.iterdir()) == ["bigram.py", "taken"]


def test_scripts_are_written_anew_into_a_folder_of_their_own(theodolite, folder):
    words = [*AUDIT, "--reproduce", "failures"]
    assert theodolite(*words).status == 1
    failures = folder / "failures"
    assert {"README.md", "causality.past.py"} <= {path.name for path in failures.iterdir()}
    (failures / "notes.txt").write_text("mine", encoding="utf-8")
    assert theodolite("audit", "bigram.py:Bigram", *words[2:], "--select", "logits").status == 1
    assert theodolite(*words[:2], "--select", "logits", *words[4:]).status == 0
    assert {path.name for path in failures.iterdir()} == {
        ".theodolite-scripts", "README.md", "notes.txt",
    }  # fmt: skip


def test_a_stranger_that_joins_the_scripts_is_left_alone(theodolite, folder):
    words = [*AUDIT, "--reproduce", "failures"]
    assert theodolite(*words).status == 1
    (folder / "failures" / "cache.steps.py").write_text("mine", encoding="utf-8")
    outcome = theodolite(*words)
    assert outcome.status == 2
    assert "cache.steps.py, which Theodolite did not write" in outcome.err
    assert (folder / "failures" / "cache.steps.py").read_text(encoding="utf-8") == "mine"


def test_an_empty_folder_is_as_good_as_a_new_one(theodolite, folder):
    (folder / "empty").mkdir()
    assert theodolite(*AUDIT, "--reproduce", "empty").status == 1
    assert (folder / "empty" / "causality.past.py").is_file()


def test_the_report_goes_to_standard_output_alone(theodolite, folder):
    outcome = theodolite(*AUDIT, "--junit", "-")
    assert outcome.out.startswith("<?xml")
    assert "FAIL" in outcome.err
    assert json.loads(theodolite(*AUDIT, "--json", "-").out)["verdict"] == "fail"
