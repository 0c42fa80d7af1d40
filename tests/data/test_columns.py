from pathlib import Path

import pytest

from varigraph.data.delimited import Columns, FirstRow, Wanted
from varigraph.errors import FileError

STRING = ["protein1", "protein2", "fusion", "combined_score"]


def columns(fields, score=None, ends=(0, 1), *, names_columns=False):
    return FirstRow(Path("f"), 3, fields, names_columns).columns(Wanted(score, ends))


def refusal(*args, **options):
    with pytest.raises(FileError) as caught:
        columns(*args, **options)
    assert caught.value.line == 3
    return caught.value


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((["a", "b", "1"],), Columns(0, 1, 2, 3, False, 1)),
        ((["a", "b", "x", "1"], 3), Columns(0, 1, 3, 4, False, 1)),
        ((["a", "x", "b", "1"], 3, (2, 0)), Columns(2, 0, 3, 4, False, 1)),
        ((["p", "u", "v"], "p", ("v", "u")), Columns(2, 1, 0, 3, True, 1)),
        ((["p", "u", "v"], 0, ("u", 2)), Columns(1, 2, 0, 3, True, 1)),
        ((["u", "v", "1"], "1"), Columns(0, 1, 2, 3, True, 1)),
        ((STRING,), Columns(0, 1, 3, 4, True, 1000)),
        ((STRING, "fusion"), Columns(0, 1, 2, 4, True, 1000)),
        ((STRING, 2), Columns(0, 1, 2, 4, True, 1000)),
        ((["protein1", "protein2", "p"], "p"), Columns(0, 1, 2, 3, True, 1)),
        ((["0", "1"], False), Columns(0, 1, None, 2, False, 1)),
        ((["0", "1", "x"], False, (2, 0)), Columns(2, 0, None, 3, False, 1)),
        ((["1", "2"], False, ("1", "2")), Columns(0, 1, None, 2, True, 1)),
        ((STRING, False), Columns(0, 1, None, 4, True, 1000)),
    ],
)
def test_columns_are_found_by_name_or_number(args, expected):
    assert columns(*args) == expected


def test_a_table_with_a_header_may_be_asked_by_numbers():
    found = columns(["u", "v", "x", "p"], 3, names_columns=True)
    assert found == Columns(0, 1, 3, 4, True, 1)


@pytest.mark.parametrize(
    ("args", "problem", "remedy"),
    [
        ((["u", "v", "p"], "q"), "no column is called 'q'; there are 'u', 'v', 'p'", "names"),
        ((["u", "v", "p"], "p", ("u", "w")), "no column is called 'w'", "names"),
        ((["u", "v", "p", "p"], "p"), "more than one column is called 'p'", "number"),
        ((["a", "b", "1"], 3), "there is no column 3; there are 3", "from 0 to 2"),
        ((["a", "b"],), "2 columns instead of three: 'a b'", "score=3"),
        ((["a", "b", "1", "1"],), "4 columns instead of three", "score=3"),
        ((["a,b,0.5"],), "1 columns instead of three: 'a,b,0.5'", ".csv"),
        ((["a", "b"], False, (1, 1)), "the ends are columns 1 and 1", "different"),
        ((["a"], 0), "there is no column 1", "from 0 to 0"),
        ((["u", "v", "p"], "v"), "the score is column 1", "three different"),
        ((["a", "b", "1"], None, (0, 2)), "the ends are columns 0 and 2", "three different"),
    ],
)
def test_columns_that_are_not_there_are_named(args, problem, remedy):
    error = refusal(*args)
    assert problem in error.problem
    assert remedy in error.remedy


def test_a_header_leaves_the_score_open():
    error = refusal(["u", "v", "p"], names_columns=True)
    assert "unclear which column is the score; there are 'u', 'v', 'p'" in error.problem
    assert error.remedy == "say which: score='p', or score=False if none is"


def test_a_first_link_is_not_taken_for_a_header():
    error = refusal(["a", "b", "0.9"], 2, names_columns=True)
    assert "not the number 0.9" in error.problem
    assert "from,to,confidence" in error.remedy
    assert "not the number 17" in refusal(["17", "4"], False, names_columns=True).problem


def test_many_columns_are_not_all_listed():
    error = refusal([f"c{n}" for n in range(1000)], "p")
    assert "'c19', ..." in error.problem
    assert "c20" not in error.problem
