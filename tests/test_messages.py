"""Whatever fails is told as a sentence of what happened."""

import ast
import re
from pathlib import Path

import pytest

from theodolite import properties

CHECKS = sorted((Path(properties.__file__).parent / "checks").glob("test_*.py"))
JUDGING = {
    "judge", "judge_differs", "at_most", "at_least", "exactly", "none_of", "require", "fail",
    "same", "differ",
}  # fmt: skip


def judgements_in(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            if name in JUDGING and any(each.arg == "remedy" or each.arg for each in node.keywords):
                yield node


def told(node, option):
    return next((each.value for each in node.keywords if each.arg == option), None)


def beginning(node):
    """The first literal words of a text, however it is put together."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return text
        case ast.BinOp(left=left):
            return beginning(left)
        case ast.IfExp(body=body):
            return beginning(body)
    return ""


@pytest.mark.parametrize("path", CHECKS, ids=lambda path: path.stem)
def test_every_judgement_says_what_happened_where_it_fails(path):
    for node in judgements_in(path):
        said = told(node, "fails")
        assert said is not None, f"{path.name}, line {node.lineno}: say it by fails="
        words = beginning(said)
        assert not words or re.match(r"[A-Z{]", words) or words[0].isupper(), words
        assert not words.startswith("Expected")


@pytest.mark.parametrize("path", CHECKS, ids=lambda path: path.stem)
def test_a_sentence_of_what_happened_has_no_end_of_its_own(path):
    for node in judgements_in(path):
        texts = [n.value for n in ast.walk(told(node, "fails")) if isinstance(n, ast.Constant)]
        assert not str(texts[-1]).endswith("."), texts
