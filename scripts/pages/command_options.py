"""Tables of options, read from the commands themselves while the site is built.

A hook of mkdocs. ``<!-- options: study paper -->`` is where the table of that command goes.
"""

from __future__ import annotations

import re
from typing import Any

import typer

from varigraph.cli import app

MARK = re.compile(r"^<!-- options: (.+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return MARK.sub(lambda found: table(found[1].split()), markdown)


def table(verbs: list[str]) -> str:
    command: Any = typer.main.get_command(app)
    for verb in verbs:
        command = command.commands[verb]
    rows = [row(parameter) for parameter in command.params if not getattr(parameter, "hidden", 0)]
    return "\n".join(["| option | default | |", "|---|---|---|", *rows])


def row(parameter: Any) -> str:
    argument = parameter.param_type_name == "argument"
    name = (parameter.metavar or parameter.name.upper()) if argument else parameter.opts[0]
    text = (parameter.help or "").replace("|", r"\|")
    return f"| `{name.replace('|', ' or ')}` | {default(parameter)} | {text} |"


def default(parameter: Any) -> str:
    if parameter.required:
        return "needed"
    if isinstance(parameter.show_default, str):
        return parameter.show_default.replace("|", r"\|")
    if parameter.default is None or callable(parameter.default):
        return ""
    if getattr(parameter, "is_flag", False):
        return "off"
    return f"`{parameter.default}`"
