import csv
import io

import numpy as np
import pytest

from varigraph.errors import FileError
from varigraph.files import csv_text, write_csv


def cells(text):
    return [row[0] for row in csv.reader(io.StringIO(text, newline=""))][1:]


@pytest.mark.parametrize(
    "name",
    [
        *("=1+2", '=HYPERLINK("http://x")', "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "--1", "-"),
        *("\t=1", "\r=1", "\n=1", "+", "-1e", "+1.2.3", "-1\n"),
    ],
)
def test_a_text_that_begins_like_a_formula_gets_an_apostrophe(name):
    assert cells(csv_text(["name"], [[name]])) == [f"'{name}"]


@pytest.mark.parametrize(
    "name", ["P53", "a=b", "5' end", "-7", "+0.5", "-1e-9", "-.5", "3-4", "", "'q'", " =1", "é"]
)
def test_other_texts_stay_as_they_are(name):
    assert cells(csv_text(["name", "x"], [[name, 0]])) == [name]


def test_numbers_stay_numbers():
    numbers = [-1, -0.5, np.float32(-0.83), np.float64(-1e-30), -np.inf, np.int64(-3), None]
    written = cells(csv_text(["x", "y"], [[number, 0] for number in numbers]))
    assert written == ["-1", "-0.5", "-0.83", "-1e-30", "-inf", "-3", ""]


def test_names_of_columns_are_texts_too():
    assert csv_text(["=1"], []) == "'=1\r\n"


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_name_of_two_lines_does_not_begin_a_row(end):
    assert cells(csv_text(["name", "x"], [[f"a{end}=1", 0]])) == [f"a{end}=1"]


def test_a_file_has_the_same_text(tmp_path):
    rows = [["=1", 2.5], ['say "é"', -1]]
    write_csv(tmp_path / "a.csv", ["name", "mean"], iter(rows))
    assert (tmp_path / "a.csv").read_bytes().decode() == csv_text(["name", "mean"], rows)


def test_a_disk_without_room_leaves_nothing(tmp_path, small_disk):
    rows = ([number, "name" * 10] for number in range(10_000))
    with small_disk(), pytest.raises(FileError, match="File too large"):
        write_csv(tmp_path / "a.csv", ["node", "name"], rows)
    assert list(tmp_path.iterdir()) == []
