"""``theodolite survey``: many subjects, their lines, their table and their page."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import theodolite
from theodolite.fixtures.errors import UsageError
from theodolite.survey_folder import SurveyFolder

ASKED = ("--select", "causality.past", "--select", "shape.runs", "--budget", "quick")
BIGRAM = """
from torch import nn
from sizes import VOCABULARY


class Bigram(nn.Module):
    def __init__(self, vocab=VOCABULARY):
        super().__init__()
        self.table = nn.Embedding(vocab, vocab)

    def forward(self, ids):
        return self.table(ids)
"""
LIST = """
# what the course has handed in
reference
./reference.py/../bigram.py:Bigram --set vocab=17   # with a vocabulary of its own
bigram.py:Bigram --set vocab=17
a <b>missing</b>.py
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which a survey was made: one passes, one fails, one is not there."""
    folder = tmp_path_factory.mktemp("course")
    (folder / "bigram.py").write_text(BIGRAM, encoding="utf-8")
    (folder / "sizes.py").write_text("VOCABULARY = 19\n", encoding="utf-8")
    (folder / "list.txt").write_text(LIST, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def survey(folder):
    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "theodolite", "survey", "--out", "found", *words],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def first(survey):
    return survey("--from", "list.txt", "--jobs", "2", "--json", "survey.json", *ASKED)


def lines(folder):
    return (folder / "found" / "survey.jsonl").read_text("utf-8").splitlines()


def test_each_subject_is_in_the_table_once_with_its_verdict(first, folder):
    assert first.returncode == 1
    verdicts = [line.split()[0] for line in first.stdout.splitlines() if "│" in line]
    assert [word for word in verdicts if word.isalpha()] == ["pass", "fail", "error"]
    assert "3 subjects: 1 passed, 1 failed, 1 in error" in first.stdout
    assert "bigram.py:Bigram --set vocab=17 was named 2 times and is audited once" in first.stdout
    assert "fail       bigram.py:Bigram --set vocab=17 (" in first.stderr


def test_the_document_tells_all(first, folder):
    document = json.loads((folder / "survey.json").read_text("utf-8"))
    assert document["schema"] == "theodolite-survey/1"
    assert document["verdicts"] == {"fail": 1, "error": 1, "incomplete": 0, "pass": 1}
    reference, bigram, missing = document["subjects"]
    assert reference["subject"] == "reference"
    assert bigram["failed"][0]["check"] == "causality.past"
    assert "There is no file" in missing["says"]
    assert bigram["tries"] == 1
    assert bigram["causes"][0]["component"] == "attention"
    assert re.match(r"attention, bigram\.py:\d+: ", bigram["says"])
    report = json.loads((folder / "found" / bigram["report"]).read_text("utf-8"))
    assert report["command"] == bigram["command"]
    assert "--set vocab=17" in report["command"]
    assert report["summary"] == bigram["summary"]
    assert "causality.past" in (folder / "found" / bigram["page"]).read_text("utf-8")


def test_the_page_shows_all_and_asks_nothing_of_a_network(first, folder):
    page = (folder / "found" / "index.html").read_text("utf-8")
    assert "<b>missing" not in page
    assert "&lt;b&gt;missing&lt;/b&gt;" in page
    assert page.count('<td class="verdict ') == 3
    assert "prefers-color-scheme: dark" in page
    assert "http" not in page
    assert "<script" not in page


def test_what_was_audited_is_not_audited_again(first, survey, folder):
    before = lines(folder)
    again = survey("--from", "list.txt", "-q", *ASKED)
    assert again.returncode == 1
    assert lines(folder) == before
    assert again.stdout.splitlines()[0] == "FAIL  3 subjects: 1 passed, 1 failed, 1 in error"
    assert again.stderr == ""


def test_a_subject_whose_files_have_changed_is_audited_anew(first, survey, folder):
    before = lines(folder)
    (folder / "sizes.py").write_text("VOCABULARY = 23\n", encoding="utf-8")
    again = survey("--from", "list.txt", *ASKED)
    new = [json.loads(line) for line in lines(folder)[len(before) :]]
    assert [line["subject"] for line in new] == ["bigram.py:Bigram --set vocab=17"]
    assert "2 of 3 had been audited before" in again.stdout
    assert "as their files have changed: bigram.py:Bigram --set vocab=17" in again.stdout
    assert "3 subjects: 1 passed, 1 failed, 1 in error" in again.stdout


def test_a_line_that_was_cut_off_is_as_if_it_were_not_there(tmp_path):
    line = {"subject": "a.py", "verdict": "pass"}
    with SurveyFolder(tmp_path / "found") as folder:
        folder.add(line, {"whole": True}, "")
    with (tmp_path / "found" / "survey.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"subject": "b.py", "verd')
    with SurveyFolder(tmp_path / "found") as folder:
        assert set(folder.lines()) == {"a.py"}
        folder.add({"subject": "c.py", "verdict": "fail"}, {}, "")
        assert set(folder.lines()) == {"a.py", "c.py"}


def test_two_surveys_do_not_write_into_one_folder(tmp_path):
    with SurveyFolder(tmp_path), pytest.raises(UsageError, match="another survey is writing"):
        SurveyFolder(tmp_path).__enter__()


SLEEPER = """
import time
from pathlib import Path
from torch import nn


class Sleeper(nn.Module):
    def __init__(self):
        super().__init__()
        Path("asleep").touch()
        time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_survey_keeps_what_it_has_and_leaves_nothing_running(tmp_path, number):
    (tmp_path / "sleeper.py").write_text(SLEEPER, encoding="utf-8")
    words = ("absent.py", "sleeper.py:Sleeper", "--jobs", "1", *ASKED)
    process = subprocess.Popen(
        [sys.executable, "-m", "theodolite", "survey", *words],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "asleep").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "2 subjects: 1 in error, 1 left to audit" in out
    assert "Traceback" not in err
    assert "sleeper.py:Sleeper" in (tmp_path / "survey" / "index.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a SUBJECT, or a list of them"),
        (["*.nowhere"], "*.nowhere meets no file"),
        ([""], "a SUBJECT is empty"),
        (["--from", "missing.txt"], "--from missing.txt cannot be read"),
        (["--from", "odd.txt"], "odd.txt, line 1: theodolite survey has no option --st. Did you"),
        (["a.py", "--jobs", "0"], "give a whole number, 1 or more"),
        (["a.py", "--out", "odd.txt"], "--out odd.txt cannot be written"),
        (["a.py", "--out", "."], "holds what no survey wrote"),
        (["a.py", "--select", "caus"], "'caus' is no check"),
        (["a.py", "--declare", "windw=3"], "Did you mean window"),
        (["a.py", "--dask", "nonsense"], "--dask nonsense is no address"),
        (["a.py", "--dask", "tcp://here:1", "--jobs", "2"], "--jobs is for this machine"),
    ],
)
def test_a_wrong_word_is_a_sentence(theodolite, tmp_path, words, said):
    (tmp_path / "odd.txt").write_text("a.py --st x=1\n", encoding="utf-8")
    outcome = theodolite("survey", *words)
    assert outcome.status == 2
    assert said in outcome.err


def test_a_survey_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bigram.py").write_text(BIGRAM, encoding="utf-8")
    (tmp_path / "sizes.py").write_text("VOCABULARY = 19\n", encoding="utf-8")
    seen = []
    found = theodolite.survey(
        ["*.py:Bigram"],
        settings={"vocab": 17},
        select=["causality.past"],
        budget="quick",
        told=lambda line, done, planned: seen.append((line["subject"], done, planned)),
    )
    assert {name for name, _, _ in seen} == {"bigram.py:Bigram", "sizes.py:Bigram"}
    assert [counts for _, *counts in seen] == [[1, 2], [2, 2]]
    assert found.verdict == "fail"
    assert found.verdicts["fail"] == 1
    assert (tmp_path / "survey" / "index.html").is_file()
    with pytest.raises(AssertionError, match=r"bigram\.py:Bigram: fail"):
        found.raise_for_failures()
