"""Formulas of the site as MathML, made while it is built: a reader needs no script and no network.

A hook of mkdocs. TeX between dollars, in pages and in docstrings, comes here marked by the
Markdown extension arithmatex.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    content = DISPLAY.sub(lambda found: mathml(found[1], display=True), content)
    return INLINE.sub(lambda found: mathml(found[1], display=False), content)


def mathml(tex: str, *, display: bool) -> str:
    known = re.sub(r"\\arg\b", r"\\operatorname{arg}", html.unescape(tex).strip())
    formula = convert(known, display="block" if display else "inline")
    return f'<div class="formula">{formula}</div>' if display else formula
