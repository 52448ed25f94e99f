"""A survey as one page, for a browser."""

from __future__ import annotations

from theodolite.pages import render
from theodolite.surveying import VERDICTS, Survey


def page(survey: Survey) -> str:
    """The page as HTML; all that subjects say is escaped."""
    return render("survey", survey=survey, verdicts=VERDICTS)
