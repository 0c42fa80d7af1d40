import io

import pytest
from rich.console import Console

from varigraph.cli.terminal import cell, stdout


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("P53", "P53"),
        ("two\nlines\t\x1b[31m", "two lines  [31m"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("x" * 40, "x" * 29 + "…"),
    ],
)
def test_text_of_others_is_shown_and_not_obeyed(text, shown):
    screen = io.StringIO()
    Console(file=screen, width=100, force_terminal=True, highlight=False).print(cell(text), end="")
    assert screen.getvalue() == shown


def test_nothing_is_cut_off_where_nobody_watches(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    stdout().print("x" * 180)
    assert capsys.readouterr().out == "x" * 180 + "\n"
