"""How every page is made: a folder's page.html in the layout, with styles, scripts and figures inside it."""

import base64
import math
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from form_invariance import __version__
from form_invariance.experiment.answers import FIXED, UNDEFINED, percent

_LAYOUT = Path(__file__).parent
_LINKS = {"report": "report.html", "explained": "explained.html", "browser": "browser/{}.html"}
"""The pages, relative to the folder of results."""


def make_page(folder: Path, **contents: Any) -> str:
    """A page that needs no other file.

    Args:
        folder: contains page.html, which extends layout.html, and page.css.
        contents: values that the template shows. Text is escaped; a missing name is an error.
    """
    loader = FileSystemLoader([folder, _LAYOUT])
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )

    def inside(name: str) -> Markup:
        """The text of a style or a script, as it is."""
        return Markup(loader.get_source(environment, name)[0])

    environment.globals |= {"inside": inside, "links": _LINKS, "fixed": FIXED, "version": __version__}
    environment.filters |= {"number": number, "percent": percent}
    return environment.get_template("page.html").render(contents)


def data_uri(content: bytes, kind: str = "image/svg+xml") -> str:
    """The data URI of a figure, or of another file, that a page contains."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def number(value: float | None) -> str:
    """A number with two decimals, or with two significant digits if it is small; words for None and NaN."""
    if value is None or math.isnan(value):
        return UNDEFINED
    text = f"{value:z.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"
    return text.replace("-", "−")
