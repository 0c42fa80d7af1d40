import csv
import io

import pytest

from varigraph.reporting.sensitivity import sensitivity_csv, sensitivity_table, shown_parts
from varigraph.reporting.text_table import markdown


def test_a_source_that_causes_nothing_has_no_column(rungs):
    assert shown_parts(rungs) == ["features", "weights", "interactions"]
    assert shown_parts(rungs[:1]) == ["weights"]


def test_the_table_has_a_row_for_each_rung(rungs):
    table = sensitivity_table(rungs, ladder="noise", title="cora", notes=("a remark.",))
    assert table.header[0] == "noise"
    assert "links" not in table.header
    assert [row[0] for row in table.rows] == ["0 %", "1 %", "4 %", "16 %"]
    assert {len(row) for row in table.rows} == {len(table.header)}
    first = dict(zip(table.header, table.rows[0], strict=True))
    assert first["accuracy"] == "90.00"
    assert first["features"] == "0"
    assert first["variance"] == first["weights"] == "0.0040"
    assert "- a remark." in markdown(table)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123, "0.0123"), (3e-6, "3e-06"), (-2e-5, "-2e-05")]
)
def test_small_variances_keep_a_digit(rungs, value, text):
    rungs[1].by_source["links"] = value
    table = sensitivity_table(rungs, ladder="noise", title="cora")
    assert [row[table.header.index("links")] for row in table.rows] == ["0", text, "0", "0"]


def test_csv_has_every_number_in_full(rungs):
    lines = list(csv.DictReader(io.StringIO(sensitivity_csv({"noise": rungs, "doubt": rungs[:1]}))))
    assert [line["ladder"] for line in lines] == ["noise"] * 4 + ["doubt"]
    for line, rung in zip(lines, rungs, strict=False):
        for name in ("level", "input_var", "accuracy", "cross_entropy", "brier", "ece", "total"):
            assert float(line[name]) == getattr(rung, name)
        for name, value in rung.by_source.items():
            assert float(line[name]) == value
