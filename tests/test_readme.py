"""What the README shows works as it stands."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from theodolite.audit_command import add_arguments
from theodolite.cli import COMMANDS
from theodolite.properties.source import find_properties
from theodolite.settings import project_settings

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8") if README.exists() else ""


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_python_example_prints_what_it_says():
    (example,) = blocks("python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "README.md", "exec"), {})
    said = [line.partition("# ")[2] for line in example.splitlines() if "print(" in line]
    for line, comment in zip(printed.getvalue().splitlines(), said, strict=True):
        assert comment.startswith(line)


def test_the_configuration_example_is_read(tmp_path):
    (example,) = blocks("toml")
    (tmp_path / "pyproject.toml").write_text(example, encoding="utf-8")
    settings = project_settings(tmp_path)
    assert settings.options["subject"] == "my_gpt.py:GPT"
    assert settings.options["declare"] == {"longest": 1024}
    assert "vocabulary.range" in settings.expected_failures


def test_every_command_shown_exists():
    shown = set(re.findall(r"^theodolite (\w+)", "\n".join(blocks("console")), flags=re.MULTILINE))
    assert shown
    assert shown <= set(COMMANDS)


@pytest.mark.parametrize(
    "line", re.findall(r"theodolite audit([^\n#|&]*)", "\n".join(blocks("console")))
)
def test_every_audit_command_shown_is_understood(line):
    import argparse

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.parse_args(line.split())


def test_the_table_of_groups_has_every_group_of_checks():
    rows = re.findall(r"^\| ([a-z_, ]+) \| .*\?.*\|$", TEXT, flags=re.MULTILINE)
    named = {group for row in rows for group in row.split(", ")}
    assert named == {each.check.partition(".")[0] for each in find_properties() if each.check}
