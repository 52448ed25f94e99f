"""Failures that were there before: kept in an earlier report, listed, and no reason to fail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from theodolite.fixtures.errors import UsageError

_SCHEMA = "theodolite-report/"


def known_failures(file: str) -> dict[str, str]:
    """The checks that failed in the report that ``--json`` wrote into `file`, and why they may.

    Raises:
        UsageError: If the file cannot be read or is no report; says what to do.
    """
    return {
        check["id"]: f"known from {file}"
        for check in _report(file)["checks"]
        if check["outcome"] == "failed"
    }


def _report(file: str) -> Mapping[str, Any]:
    try:
        document = json.loads(Path(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"there is no baseline {file}: write one with --baseline {file} --update-baseline"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"the baseline {file} cannot be read: {error}") from error
    if not isinstance(document, dict) or not str(document.get("schema")).startswith(_SCHEMA):
        raise UsageError(
            f"the baseline {file} is no report of an audit: write one with --baseline {file} "
            "--update-baseline"
        )
    return document
