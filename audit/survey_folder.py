"""The folder of a survey: a line of JSON for each subject as it ends, and the reports."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from theodolite.fixtures.errors import UsageError
from theodolite.journal import Reader, Writer
from theodolite.outputs import write_text

LINES, REPORTS, INDEX = "survey.jsonl", "reports", "index.html"

_LONGEST_NAME = 80


class SurveyFolder:
    """What a survey has found so far, on disk; a context manager that keeps other surveys out.

    A line is on the disk before the next subject is told, and after its report: what has a line has
    a report, whatever becomes of the process that writes them.

    Args:
        path: The folder; made if it is new.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> SurveyFolder:
        """Make the folder, or take over what stands in it.

        Raises:
            UsageError: If it cannot be written, holds something else, or another survey is at it.
        """
        try:
            if self.path.is_dir() and any(self.path.iterdir()) and not self._lines.is_file():
                raise UsageError(
                    f"--out {self.path} holds what no survey wrote: give a new folder, or that of "
                    "a survey, to go on with it"
                )
            (self.path / REPORTS).mkdir(parents=True, exist_ok=True)
            self._lock = self._locked()
            self._writer = Writer(self._lines, lasting=True)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"--out {self.path} cannot be written: {why}") from error
        return self

    def __exit__(self, *_: object) -> None:
        """Let other surveys in."""
        self._writer.close()
        os.close(self._lock)

    def lines(self) -> dict[str, dict[str, Any]]:
        """The last line of each subject, by what names it; lines that were cut off are left out."""
        read = Reader(self._lines).events()
        whole = [line for line in read if isinstance(line, dict) and "subject" in line]
        return {line["subject"]: line for line in whole}

    def has_report(self, line: Mapping[str, Any]) -> bool:
        """Whether the report that a line tells of is there."""
        return self.path.joinpath(line["report"]).is_file()

    def add(self, line: Mapping[str, Any], report: Mapping[str, Any], page: str) -> dict[str, Any]:
        """Write a report and its page, then the line that tells of them; that line, whole."""
        place = f"{REPORTS}/{_name(line['subject'])}"
        self._write_whole(f"{place}.html", page)
        self._write_whole(f"{place}.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
        told = {**line, "report": f"{place}.json", "page": f"{place}.html"}
        self._writer.write(told)
        return told

    def write_index(self, text: str) -> None:
        """Write the page that shows all."""
        self._write_whole(INDEX, text)

    @property
    def _lines(self) -> Path:
        return self.path / LINES

    def _write_whole(self, name: str, text: str) -> None:
        """Write a file so that it is there whole or not at all."""
        file = self.path / name
        new = file.with_name(f".{file.name}.new")
        write_text(text, new)
        with new.open("rb") as written:
            os.fsync(written.fileno())
        new.replace(file)

    def _locked(self) -> int:
        """An open file that no other survey can have as long as this process lives."""
        file = os.open(self._lines, os.O_RDWR | os.O_CREAT, 0o666)
        with contextlib.suppress(ImportError):  # there is no such lock on Windows
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                raise UsageError(
                    f"--out {self.path}: another survey is writing there; wait for it, or give "
                    "another folder"
                ) from None
        return file


def _name(subject: str) -> str:
    """A file name that is the subject's alone, and tells a person whose."""
    told = re.sub(r"[^A-Za-z0-9]+", "-", subject).strip("-")[-_LONGEST_NAME:]
    return f"{told}-{sha256(subject.encode(errors='backslashreplace')).hexdigest()[:8]}"
