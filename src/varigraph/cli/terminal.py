"""Standard output: as wide as the terminal, or wide enough where there is none."""

from __future__ import annotations

import os

from rich.console import Console

#: Columns of a file or a pipe, where nothing needs to be cut off.
WIDE = 200


def stdout() -> Console:
    """Standard output, without colour where nobody watches; text is shown as it is.

    Names and paths of users may hold ``[/y]`` or ``:x:``, which rich would obey.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    return console


def cell(text: str, *, width: int = 30) -> str:
    """Text of others in one line of at most ``width`` signs, none of which commands the terminal.

    Args:
        text: a name of a node, say.
        width: signs to show.
    """
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    return line if len(line) <= width else f"{line[: width - 1]}…"
