"""No malformed command line ends in a traceback, or as if a model had been judged."""

import pytest
from malformed import lines, prepare

FEW, LOADING, MANY = 56, 6, 500


@pytest.fixture
def folder(tmp_path):
    prepare(tmp_path)
    return tmp_path


def wrong_with(outcome):
    """What is wrong with how a malformed line was answered; "" if nothing is."""
    if outcome.status not in (2, 3):
        return f"status {outcome.status}"
    if "Traceback" in outcome.err + outcome.out:
        return "a traceback"
    if "PASS" in outcome.out + outcome.err:
        return "a verdict"
    said = outcome.err.strip()
    return "" if said.startswith("theodolite: ") and said.endswith((".", "?")) else "no sentence"


def answered(run, folder, line):
    project = folder / "pyproject.toml"
    project.unlink(missing_ok=True)
    if line.project is not None:
        project.write_text(line.project, encoding="utf-8")
    return run(*line.words, folder=folder)


@pytest.mark.parametrize("line", [*lines(FEW, loading=False), *lines(LOADING, seed=3)], ids=str)
def test_a_malformed_line_is_answered_by_a_sentence(theodolite, folder, line):
    outcome = answered(theodolite, folder, line)
    assert wrong_with(outcome) == "", outcome.err
    assert (folder / "mine" / "README.md").read_text(encoding="utf-8") == "mine"


@pytest.mark.slow
def test_hundreds_of_malformed_lines_are_answered_by_a_sentence(theodolite, folder):
    wrong = []
    for line in lines(MANY, seed=1):
        outcome = answered(theodolite, folder, line)
        if told := wrong_with(outcome):
            wrong.append(f"{told}: {line}\n    {outcome.err.strip()[-300:]}")
    assert not wrong, "\n".join(wrong)
    assert (folder / "mine" / "README.md").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("line", lines(5, seed=2), ids=str)
def test_a_process_answers_as_well(process, folder, line):
    assert wrong_with(answered(process, folder, line)) == ""
