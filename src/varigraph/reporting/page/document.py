"""The page itself: a template, a style, scripts and data in one text."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from varigraph.errors import OptionError
from varigraph.reporting.page.compact import embedded

SCRIPTS = (
    "content.js",
    "charts.js",
    "neighbourhood.js",
    "node.js",
    "table.js",
    "start.js",
)


def document(content: dict[str, Any], *, title: str, plotly: str) -> str:
    """HTML that needs nothing but itself.

    Args:
        content: what the scripts show.
        title: of the page.
        plotly: the script that draws charts.
    """
    folder = files("varigraph.reporting.page") / "assets"
    scripts = [(folder / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return Template((folder / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        style=(folder / "page.css").read_text(encoding="utf-8"),
        plotly=plotly,
        data=embedded(content),
        script="\n".join(scripts),
    )


def plotly_script() -> str:
    """The script that draws charts, as plotly ships it.

    Raises:
        OptionError: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise OptionError(
            "a report needs plotly, which is not installed", 'pip install "varigraph[report]"'
        ) from error
    script: str = get_plotlyjs()
    return script
