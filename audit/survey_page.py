"""A survey as one page, for a browser: no script, nothing from a network, light or dark."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, StrictUndefined

import theodolite
from theodolite.surveying import VERDICTS, Survey


def page(survey: Survey) -> str:
    """The page as HTML; all that subjects say is escaped."""
    text = files("theodolite").joinpath("pages/survey.html.jinja").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(text)
    return template.render(survey=survey, verdicts=VERDICTS, version=theodolite.__version__)
