"""Reports as text for other programs, each in a module with ``write(report) -> str``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from theodolite.report import Report


@dataclass(frozen=True)
class Format:
    """A way to write a report into a file.

    Attributes:
        name: Of its option, ``--name FILE``.
        module: Of this package: its ``write``.
        says: What it is, behind "write the report".
    """

    name: str
    module: str
    says: str

    @property
    def option(self) -> str:
        """The option that asks for it."""
        return f"--{self.name}"

    def write(self, report: Report) -> str:
        """The report as text."""
        text: str = import_module(f"{__name__}.{self.module}").write(report)
        return text


FORMATS = (
    Format("json", "document", "as JSON"),
    Format("junit", "junit", "as JUnit XML"),
    Format("html", "html", "as one HTML page, with pictures"),
    Format("sarif", "sarif", "as SARIF 2.1.0, which code scanning reads"),
    Format("code-quality", "code_quality", "as a GitLab code quality report"),
)
