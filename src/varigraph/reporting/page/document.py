"""The page itself: a template, a style, scripts and data in one text."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from torch import Tensor

from varigraph.errors import OptionError

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


#: What would end a script, open a comment or break a line of one.
_UNSAFE = {sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def rounded(values: Tensor, digits: int = 4) -> list[float]:
    """Numbers rounded to some significant digits, as one flat list.

    Args:
        values: finite numbers of any shape.
        digits: how many to keep.

    Example:
        >>> import torch
        >>> rounded(torch.tensor([[0.0123456, 98764.0], [0.0, -1.0]]).double())
        [0.01235, 98760.0, 0.0, -1.0]
    """
    flat = values.detach().cpu().double().flatten().numpy()
    size = np.floor(np.log10(np.abs(flat), where=flat != 0, out=np.zeros_like(flat)))
    # Far below what a page shows a power of ten would overflow.
    scale = 10.0 ** np.clip(digits - 1 - size, -300, 300)
    short: list[float] = (np.round(flat * scale) / scale).tolist()
    return short


def embedded(value: Any) -> str:
    r"""JSON without spaces in which nothing can end the script element that holds it.

    Args:
        value: of names, finite numbers, lists and dicts.

    Example:
        >>> print(embedded({"name": "</script>"}))
        {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, code in _UNSAFE.items():
        text = text.replace(sign, code)
    return text
