"""Docstrings of the reference: reStructuredText as our docstrings have it, turned into Markdown.

An extension of griffe, which reads the docstrings for mkdocstrings.
"""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

import griffe

import varigraph

BLOCK = re.compile(r"^( *)\.\. math::(.*(?:\n\1 +\S.*)*)", re.MULTILINE)
ROLE = re.compile(r":(\w+):`~?([^`]+)`")
LINK = re.compile(r"`([^`<]+?)\s*<([^`>]+)>`_")
LITERAL = re.compile(r"``(.+?)``", re.DOTALL)
EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)  # the plural is a section of its own


class Markdown(griffe.Extension):
    """Rewrites every docstring before its sections are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(docstring: str) -> str:
    text = BLOCK.sub(lambda found: display(found[1], found[2]), docstring)
    text = LINK.sub(lambda found: f"[{' '.join(found[1].split())}]({found[2]})", text)
    text = ROLE.sub(lambda found: role(found[1], found[2]), text)
    text = EXAMPLE.sub(r"\1Examples:", text)
    return LITERAL.sub(r"`\1`", text)


def display(indent: str, formula: str) -> str:
    lines = dedent(formula.replace("\n" + indent, "\n")).strip().splitlines()
    return "\n".join(indent + line.strip() for line in ["$$", *lines, "$$"])


def role(kind: str, target: str) -> str:
    if kind == "math":
        return f"${' '.join(target.split())}$"
    shown = target.rsplit(".", 1)[-1] if target.startswith("varigraph.") else target
    home = homes().get(shown)
    return f"[`{shown}`][{home}]" if home else f"`{shown}`"


def homes() -> dict[str, str]:
    """Where each public name is defined: the anchor of its entry in the reference."""
    modules = (varigraph, varigraph.metrics)
    named = ((name, getattr(module, name)) for module in modules for name in module.__all__)
    return {
        name: f"{thing.__module__}.{thing.__qualname__}"
        for name, thing in named
        if hasattr(thing, "__qualname__")
    }
