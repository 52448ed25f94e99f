"""A report as a JSON document (`theodolite-report/2`)."""

from __future__ import annotations

import json

from theodolite.report import Report


def write(report: Report) -> str:
    """The document as text."""
    return json.dumps(report.to_dict(), indent=2, ensure_ascii=False) + "\n"
