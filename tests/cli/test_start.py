"""What the command costs before it does anything, and how it ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "rich", "pytest", "numpy", "hypothesis"}


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["audit", "--help"], ["survey", "--help"], ["nothing"]]
)
def test_help_and_versions_import_nothing_heavy(words):
    program = (
        "import sys; from theodolite.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stderr.split())


def test_no_command_is_a_sentence(theodolite):
    outcome = theodolite()
    assert outcome.status == 2
    assert "name a command: audit, inspect" in outcome.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["audti"], "no command 'audti'. Did you mean audit?"),
        (["audit", "--selct", "rope"], "no option --selct. Did you mean --select"),
        (["audit", "--budget", "quik"], "none of quick, standard, thorough. Did you mean quick?"),
        (["audit", "--select", "caus"], "'caus' is no check, group or claim. Did you mean"),
        (["audit", "--skip", "cache.stps"], "Did you mean cache.steps"),
        (["audit", "--select", "ROPE4"], "Did you mean ROPE-4"),
        (["audit", "--select", "AVG-1"], "it is about mathematics"),
        (["audit", "--declare", "windw=3"], "Did you mean window or width?"),
        (["audit", "refrence"], "Did you mean reference?"),
        (["audit", "HF:llama"], "Did you mean hf:llama?"),
        (["audit", "modle.py"], "Did you mean model.py?"),
        (["audit", "modle:GPT"], "There is no module modle"),
        (["claims", "ROEP"], "Did you mean ROPE"),
        (["claims", "cache.stps"], "Did you mean cache.steps"),
        (["mutants", "no-scal", "--list"], "Did you mean no-scale"),
        (["audit", "reference", "two"], "'two' is one word too many"),
    ],
)
def test_what_was_meant_is_offered(theodolite, tmp_path, words, said):
    (tmp_path / "model.py").write_text("", encoding="utf-8")
    outcome = theodolite(*words)
    assert outcome.status in (2, 3)
    assert said in " ".join(outcome.err.split())


def test_an_error_of_theodolite_is_not_told_as_a_fault_of_the_model(theodolite, monkeypatch):
    def broken(_arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("theodolite.claims_command.run", broken)
    outcome = theodolite("claims")
    assert outcome.status == 4
    assert "an error of Theodolite, not of the model" in outcome.err
    assert "ZeroDivisionError" in outcome.err


def test_debug_shows_the_traceback_and_keeps_the_status(theodolite):
    for words in (["audit", "--debug", ""], ["--debug", "audit", ""]):
        outcome = theodolite(*words)
        assert outcome.status == 2
        assert "Traceback" in outcome.err
        assert "SUBJECT is empty" in outcome.err


def test_a_reader_that_goes_away_ends_it_quietly():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "theodolite", "claims"],
        stdout=write, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_an_output_that_is_full_is_a_sentence():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "theodolite", "claims"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "standard output cannot be written: No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_output_that_knows_ascii_alone_is_written(process):
    outcome = process("claims", "ATT-1", PYTHONIOENCODING="ascii")
    assert outcome.status == 0
    assert "ATT-1" in outcome.out
