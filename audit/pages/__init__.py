"""Pages for a browser: no program, nothing from a network, light or dark, all text escaped."""

from __future__ import annotations

from typing import Any

import theodolite


def render(name: str, **values: Any) -> str:
    """The page that the template ``name.html.jinja`` makes of `values`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__name__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template(f"{name}.html.jinja")
    page: str = template.render(version=theodolite.__version__, **values)
    return page
