import io
import re

import pytest
from rich.console import Console

from varigraph.reporting.text_table import (
    TextTable,
    escaped,
    latex,
    latex_document,
    markdown,
    terminal,
)

TABLE = TextTable(
    "5 % & more",
    ("noise", "x_var", "loss"),
    (("2.5 %", "a_b", "0.45 ± 0.01"), ("12 %", "#1", "–")),
    words=2,
    notes=("50 % of it.",),
)


def test_markdown_has_a_heading_a_rule_and_the_notes():
    assert markdown(TABLE).splitlines() == [
        "## 5 % & more",
        "",
        "| noise | x_var | loss |",
        "| --- | --- | ---: |",
        "| 2.5 % | a_b | 0.45 ± 0.01 |",
        "| 12 % | #1 | – |",
        "",
        "- 50 % of it.",
    ]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("100 %", r"100 \%"),
        ("a_b & c#", r"a\_b \& c\#"),
        ("1 ± 2 – 3", r"1 $\pm$ 2 -- 3"),
        ("{x}^2 ~ $", r"\{x\}\textasciicircum{}2 \textasciitilde{} \$"),
        ("\\n", r"\textbackslash{}n"),
    ],
)
def test_signs_that_latex_would_obey_are_escaped(text, safe):
    assert escaped(text) == safe


def test_every_row_of_latex_has_as_many_cells_as_there_are_columns():
    lines = latex(TABLE).splitlines()
    (columns,) = re.findall(r"begin\{tabular\}\{(\w+)\}", latex(TABLE))
    assert columns == "llr"
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) == 3
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {2}
    assert latex(TABLE).isascii()


def test_what_begins_in_the_document_ends_and_nothing_is_a_comment():
    text = latex_document([TABLE, TABLE])
    for name in ("document", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}")
    assert text.count(r"\begin{tabular}") == 2
    assert not re.search(r"(?<!\\)%", text)
    assert text.count("{") == text.count("}")


def test_the_terminal_shows_every_cell():
    screen = io.StringIO()
    Console(file=screen, width=80).print(terminal(TABLE))
    assert all(cell in screen.getvalue() for row in TABLE.rows for cell in row)
