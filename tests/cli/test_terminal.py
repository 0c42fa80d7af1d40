import pytest

from varigraph.cli.terminal import cell, stdout


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("P53", "P53"),
        ("two\nlines\t\x1b[31m", "two lines  [31m"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("a[/y]b", "a[/y]b"),
        ("a:heart:b", "a:heart:b"),
        ("x" * 40, "x" * 29 + "…"),
    ],
)
def test_text_of_others_is_shown_and_not_obeyed(text, shown, capsys):
    stdout().print(cell(text), end="")
    assert capsys.readouterr().out == shown


def test_nothing_is_cut_off_where_nobody_watches(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    stdout().print("x" * 180)
    assert capsys.readouterr().out == "x" * 180 + "\n"
