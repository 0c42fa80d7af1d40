import io

from rich.console import Console

from varigraph.report.tables import HEADER, markdown, rows, terminal


def test_ours_stands_next_to_the_papers(levels):
    assert rows(levels)[1] == (
        *("12 %", "74.00", "61.22", "0.900", "1.64", "1e+03", "-0.23"),
        *("0.0200", "0.57", "0.0196", "4e-04"),
    )


def test_what_is_not_known_is_a_dash(levels):
    assert rows(levels)[0][5:9] == ("–", "–", "0", "–")
    assert rows(levels)[2][2] == "–"


def test_markdown_has_a_row_per_level_and_the_notes(levels):
    text = markdown(levels, title="cora", notes=("a note",))
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert text.startswith("# cora\n")
    assert len(table) == 2 + len(levels)
    assert {line.count("|") for line in table} == {len(HEADER) + 1}
    assert "- a note\n" in text


def test_the_terminals_table_fits_80_columns(levels):
    screen = io.StringIO()
    Console(file=screen, width=80).print(terminal(levels, title="cora"))
    assert all(cell in screen.getvalue() for row in rows(levels) for cell in row)
    assert "…" not in screen.getvalue()
