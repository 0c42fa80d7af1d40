import io

import pytest
import torch
from rich.console import Console

from varigraph.links import LinkQuality
from varigraph.reporting.tables import HEADER, header, link_quality, markdown, rows, terminal


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


def test_uncertain_links_get_a_column(levels, uncertain):
    assert header(levels) == HEADER
    assert header(uncertain) == (*HEADER, "links")
    assert [row[-1] for row in rows(uncertain)] == ["0", "0.0049", "0.0025"]
    assert [row[:-1] for row in rows(uncertain)] == rows(levels)
    assert "- links: " in markdown(uncertain, title="cora")
    assert "- links: " not in markdown(levels, title="cora")


@pytest.mark.parametrize("which", ["levels", "uncertain"])
def test_the_terminals_table_fits_80_columns(which, request):
    levels = request.getfixturevalue(which)
    screen = io.StringIO()
    Console(file=screen, width=80).print(terminal(levels, title="cora"))
    assert all(cell in screen.getvalue() for row in rows(levels) for cell in row)
    assert "…" not in screen.getvalue()


def test_the_quality_of_links_has_its_five_measures():
    quality = LinkQuality(
        torch.tensor([0.9, 0.7]),
        torch.tensor([0.2, 0.1]),
        method="seal",
        calibration=("scaled", "scaled"),
        odds="density",
    )
    screen = io.StringIO()
    Console(file=screen, width=80).print(link_quality(quality))
    lines = [line.split() for line in screen.getvalue().splitlines()]
    assert ["1.0000", "1.0000", "0.0375", "0.1750", "0.1976"] in lines
