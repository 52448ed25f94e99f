"""``theodolite init``: a project is set up, and nothing that is there is touched."""

import ast

import pytest

from theodolite.settings import project_settings


def test_a_project_is_set_up(theodolite, tmp_path):
    outcome = theodolite("init", "my_gpt.py:GPT")
    assert outcome.status == 0, outcome.err
    assert project_settings(tmp_path).options == {"subject": "my_gpt.py:GPT"}
    test = (tmp_path / "tests" / "test_gpt_is_sound.py").read_text(encoding="utf-8")
    assert 'assert_sound("my_gpt.py:GPT")' in ast.unparse(ast.parse(test)).replace("'", '"')
    workflow = (tmp_path / ".github" / "workflows" / "theodolite.yml").read_text(encoding="utf-8")
    assert "theodolite audit --github --sarif theodolite.sarif" in workflow
    assert all(word in outcome.out for word in ("pyproject.toml", "test_gpt_is", "theodolite.yml"))


def test_what_is_there_stays(theodolite, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"', encoding="utf-8")
    assert theodolite("init", "gpt.py", "--no-workflow").status == 0
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert before[tmp_path / "pyproject.toml"].startswith(b'[project]\nname = "mine"\n')
    assert not (tmp_path / ".github").exists()
    again = theodolite("init", "another.py:Model")
    assert "left as it is: [tool.theodolite]" in again.out
    assert all(file.read_bytes() == text for file, text in before.items())


@pytest.mark.parametrize("subject", ['od"d.py:GPT', "back\\slash.py", "hf:llama", "."])
def test_any_name_can_be_written(theodolite, tmp_path, subject):
    assert theodolite("init", subject, "--no-workflow").status == 0
    (test,) = (tmp_path / "tests").iterdir()
    ast.parse(test.read_text(encoding="utf-8"))
    assert project_settings(tmp_path).file == tmp_path / "pyproject.toml"


def test_an_empty_subject_is_refused(theodolite):
    outcome = theodolite("init", " ")
    assert outcome.status == 2
    assert "SUBJECT is empty" in outcome.err
