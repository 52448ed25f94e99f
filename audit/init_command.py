"""Set a project up: its settings, a test and a GitHub workflow that audit a model.

Examples:
  theodolite init my_gpt.py:GPT
  theodolite init package.model:Transformer --no-workflow
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from theodolite.fixtures.errors import UsageError
from theodolite.outputs import write_text
from theodolite.settings import project_settings

_SETTINGS = """\
[tool.theodolite]
subject = {subject}
# declare = {{ longest = 1024 }}           # what is known of the model; it is held to it
# budget = "quick"                        # quick, standard or thorough
# strict = true                           # hazards fail the audit, too

# [tool.theodolite.expected-failures]     # check id = why it is meant; one that passes is told
# "vocabulary.range" = "ids are clamped on purpose"
"""

_TEST = '''\
"""The model is a sound Transformer: `pytest {file}`."""

from theodolite.testing import assert_sound


def test_the_model_is_sound():
    assert_sound({subject})
'''

_WORKFLOW = """\
name: Theodolite
on: [push, pull_request]
jobs:
  audit:
    runs-on: ubuntu-latest
    permissions:
      contents: read
      security-events: write      # for the alerts under Security
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: python -m pip install torch --index-url https://download.pytorch.org/whl/cpu
      - run: python -m pip install theodolite      # and what the model imports
      - run: theodolite audit --github --sarif theodolite.sarif
      - if: always() && hashFiles('theodolite.sarif') != ''
        uses: github/codeql-action/upload-sarif@v3
        with:
          sarif_file: theodolite.sarif
          category: theodolite
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "subject",
        metavar="SUBJECT",
        help="FILE.py:NAME, package.module:NAME, hf:NAME or a folder; see `theodolite audit`",
    )
    parser.add_argument(
        "--workflow",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write .github/workflows/theodolite.yml, too",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write what is not there yet; say what was written and what was left; return the status."""
    subject = arguments.subject.strip()
    if not subject:
        raise UsageError("SUBJECT is empty: name the model, as in my_gpt.py:GPT")
    for what, is_new in _written(subject, workflow=arguments.workflow):
        sys.stdout.write(f"{'wrote' if is_new else 'left as it is:'} {what}\n")
    sys.stdout.write("Now run `theodolite audit`.\n")
    return 0


def _written(subject: str, *, workflow: bool) -> Iterator[tuple[str, bool]]:
    """Each thing that a project needs, and whether it was written; what is there stays."""
    known = project_settings(Path.cwd())
    if known.file is not None:
        yield f"[tool.theodolite] in {known.file}", False
    else:
        _add_settings(Path("pyproject.toml"), _SETTINGS.format(subject=_quoted(subject)))
        yield "[tool.theodolite] in pyproject.toml", True
    file = Path("tests", f"test_{_name_of(subject)}_is_sound.py")
    yield _new(file, _TEST.format(file=file.as_posix(), subject=_quoted(subject)))
    if workflow:
        yield _new(Path(".github", "workflows", "theodolite.yml"), _WORKFLOW)


def _add_settings(file: Path, text: str) -> None:
    there = file.exists() and file.stat().st_size > 0
    write_text(f"\n{text}" if there else text, file, mode="a")


def _new(file: Path, text: str) -> tuple[str, bool]:
    if file.exists():
        return str(file), False
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{file.parent} cannot be made: {error.strerror}") from error
    write_text(text, file)
    return str(file), True


def _name_of(subject: str) -> str:
    last = re.split(r"[:/\\]", subject.removesuffix(".py").removesuffix(".ipynb"))[-1]
    return re.sub(r"\W+", "_", last.removesuffix(".py")).strip("_").lower() or "model"


def _quoted(text: str) -> str:
    """A string as TOML and Python both write it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
