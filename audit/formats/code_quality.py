"""A report as GitLab reads code quality: the format of Code Climate, cut down to what it uses."""

from __future__ import annotations

import json

from theodolite.formats.problems import problems
from theodolite.report import Report

_SEVERITIES = {"error": "critical", "warning": "minor", "note": "info"}


def write(report: Report) -> str:
    """A list with an entry for each problem; what stands in no file is laid to pyproject.toml."""
    entries = [
        {
            "check_name": problem.code,
            "description": problem.says,
            "severity": _SEVERITIES[problem.level],
            "fingerprint": problem.fingerprint,
            "location": {
                "path": problem.file or "pyproject.toml",
                "lines": {"begin": problem.line or 1},
            },
        }
        for problem in problems(report)
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"
