import io

import torch
from rich.console import Console

from varigraph.links import LinkQuality
from varigraph.reporting.tables import level_table, link_quality


def test_a_row_has_the_scores_and_every_source(levels):
    table = level_table(levels, title="cora", notes=("a note",))
    assert table.header == (
        *("noise", "accuracy", "loss", "variance"),
        *("features", "links", "weights", "interactions"),
    )
    assert table.rows[1] == ("12 %", "74.00", "0.900", "0.0200", "0.0196", "0", "4e-04", "0")
    assert table.rows[0] == ("0 %", "85.00", "0.500", "0", "0", "0", "0", "0")
    assert table.notes[-1] == "a note"
    assert any(note.startswith("variance: ") for note in table.notes)


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
