"""A report as SARIF 2.1.0 (OASIS standard), which code scanning of GitHub and editors read."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import theodolite
from theodolite.formats.problems import Problem, problems
from theodolite.properties.explanations import Explanation, explanation_of, sections
from theodolite.report import Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HOME = "https://pypi.org/project/theodolite/"


def write(report: Report) -> str:
    """One run: a rule for each code, a result for each problem.

    An audit that could not be carried out is an invocation that did not succeed.
    """
    found = list(problems(report))
    codes = list(dict.fromkeys(problem.code for problem in found))
    run = {
        "tool": {
            "driver": {
                "name": "Theodolite",
                "version": theodolite.__version__,
                "informationUri": _HOME,
                "rules": [_rule(code, found) for code in codes],
            }
        },
        "invocations": [
            {"executionSuccessful": report.error is None, "commandLine": report.command}
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem, codes) for problem in found],
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str, found: list[Problem]) -> dict[str, Any]:
    first = next(problem for problem in found if problem.code == code)
    rule = {
        "id": code,
        "shortDescription": {"text": first.says},
        "defaultConfiguration": {"level": first.level},
    }
    explanation = explanation_of(code) or explanation_of(code.partition(".")[2])
    return rule if explanation is None else rule | {"help": _help(explanation)}


def _help(explanation: Explanation) -> dict[str, str]:
    """What `theodolite explain` says, plain and as Markdown."""
    plain, marked = [], []
    for part in sections(explanation):
        said = [*part.texts, *(": ".join(filter(None, (n.name, n.says))) for n in part.names)]
        code = [part.code] if part.code else []
        plain += [part.title, *said, *code, ""]
        marked += [f"**{part.title}**", "", *(f"- {text}" for text in said), ""]
        marked += ["```python", part.code, "```", ""] if part.code else []
    return {"text": "\n".join(plain).strip(), "markdown": "\n".join(marked).strip()}


def _result(problem: Problem, codes: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": codes.index(problem.code),
        "level": problem.level,
        "message": {"text": problem.says},
        "partialFingerprints": {"theodolite/v1": problem.fingerprint},
    }
    if problem.file is not None:
        physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(problem.file)}}
        physical["region"] = {"startLine": problem.line or 1}
        location: dict[str, Any] = {"physicalLocation": physical}
        if problem.function:
            location["logicalLocations"] = [{"fullyQualifiedName": problem.function}]
        result["locations"] = [location]
    return result


def _uri(file: str) -> str:
    """A URI, relative to the current folder where the file lies under it."""
    path = PurePosixPath(file)
    if path.is_absolute():
        return Path(file).as_uri()
    return Path("/", file).as_uri().removeprefix("file:///")
