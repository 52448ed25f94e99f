"""What a project says in pyproject.toml: every option of an audit, in this folder or above it."""

import json

import pytest

MODEL = """
from torch import nn


class Bigram(nn.Module):
    def __init__(self, vocab_size, scale=1.0):
        super().__init__()
        self.table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, ids):
        return self.table(ids)
"""


@pytest.fixture
def project(tmp_path):
    """Write a project's file beside a model."""

    def write(text, **more):
        (tmp_path / "bigram.py").write_text(MODEL, encoding="utf-8")
        (tmp_path / "pyproject.toml").write_text(text, **{"encoding": "utf-8", **more})
        return tmp_path

    return write


def test_a_project_is_found_above_and_its_paths_are_its_own(theodolite, project):
    root = project(
        '[tool.theodolite]\nsubject = "bigram.py:Bigram"\nset = { vocab_size = 31 }\n'
        'select = "causality.past"\njson = "report.json"\nbudget = "quick"\n'
    )
    below = root / "a" / "b"
    below.mkdir(parents=True)
    outcome = theodolite("audit", folder=below)
    assert outcome.status == 1, outcome.err
    report = json.loads((root / "report.json").read_text(encoding="utf-8"))
    assert [check["id"] for check in report["checks"]] == ["causality.past"]
    assert report["command"] == (
        "theodolite audit ../../bigram.py:Bigram --set vocab_size=31 --budget quick "
        "--select causality.past"
    )


def test_the_command_line_goes_before_the_project(theodolite, project):
    project(
        '[tool.theodolite]\nselect = ["causality", "batch"]\nset = { vocab_size = 31, scale = 2 }\n'
        "explore = true\n"
    )
    outcome = theodolite(
        "audit", "bigram.py:Bigram", "--set", "vocab_size=7", "--select", "causality.past",
        "--no-explore", "--json", "-",
    )  # fmt: skip
    assert outcome.json["command"] == (
        "theodolite audit bigram.py:Bigram --set vocab_size=7 --set scale=2 --select causality.past"
    )


def test_inspect_takes_the_subject_alone(theodolite, project):
    root = project('[tool.theodolite]\nset = { vocabulary = 31 }\njson = "report.json"\n')
    outcome = theodolite("inspect")
    assert outcome.status == 0, outcome.err
    assert "vocabulary 31" in outcome.out
    assert not (root / "report.json").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.theodolite]\nslect = 1", "no key 'slect'. Did you mean select"),
        ("[tool.theodolite]\nexpected_failures = 1", "Did you mean expected-failures"),
        ("[tool.theodolite]\ntime_limit = 1", "Did you mean time-limit"),
        ("[tool.theodolite]\ntime-limit = 0", "time-limit: '0' will not do: give seconds"),
        ("[tool.theodolite]\ntime-limit = inf", "time-limit: 'inf' will not do: give seconds"),
        ("[tool.theodolite]\ntime-limit = true", "time-limit is True; it must be a string or a"),
        ("[tool.theodolite]\nbudget = 'huge'", "budget: 'huge' is none of quick"),
        ("[tool.theodolite]\nsubject = ''", "subject is ''; it must name one"),
        ("[tool.theodolite]\nsubject = 3", "subject is 3; it must name one"),
        ("[tool.theodolite]\nset = 3", "set is 3; it must be a table"),
        ("[tool.theodolite]\ndeclare = { window = 0 }", "window is declared as 0"),
        ("[tool.theodolite]\nselect = [1]", "it must be a list of strings"),
        ("[tool.theodolite]\nselect = 'nothing'", "'nothing' is no check"),
        ("[tool.theodolite]\nexplore = 'yes'", "explore is 'yes'; it must be true or false"),
        ("[tool.theodolite]\njson = '/nowhere/report.json'", "give a file in a folder that exists"),
        ("[tool]\ntheodolite = 3", "tool.theodolite must be a table"),
        ("[tool.theodolite]\nexpected-failures = 3", "expected-failures must be a table"),
        (
            "[tool.theodolite.expected-failures]\n'causality.past' = ''",
            "the expected failure 'causality.past' needs a reason",
        ),
        (
            "[tool.theodolite.expected-failures]\n'causality.pst' = 'it is a bigram'",
            "an expected failure is called 'causality.pst', and no check is. Did you mean",
        ),
        ("[tool.theodolite.expected-failures]\ncausality = 'all'", "and no check is"),
        ("[tool.theodolite", "is not valid TOML"),
        ("[tool.theodolite]\nsubject = reference", "is not valid TOML"),
    ],
)
def test_a_project_that_says_what_it_cannot_is_named(theodolite, project, text, said):
    project(text)
    outcome = theodolite("audit")
    assert outcome.status == 2
    assert said in " ".join(outcome.err.split())


def test_a_project_in_another_encoding_is_named(theodolite, project):
    project("[tool.theodolite]\nsubject = 'é'", encoding="latin-1")
    outcome = theodolite("audit")
    assert outcome.status == 2
    assert "is not text in UTF-8" in outcome.err


def test_help_needs_no_project(theodolite, project):
    project("[tool.theodolite")
    assert theodolite("audit", "--help").status == 0
    assert theodolite("claims", "ATT-1").status == 0
