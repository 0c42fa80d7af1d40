import csv

import numpy as np
import pytest

from varigraph.data.delimited import LENGTH, Wanted, delimited
from varigraph.errors import FileError

FIRST_TWO = (0, 1)


def write(folder, text):
    path = folder / "links"
    path.write_text(text, encoding="utf-8")
    return path


def rows_of(path, score=None, *, ends=FIRST_TWO, commas=False):
    """(line, source, target, score) of each link, and the scores of certain links."""
    blocks = list(delimited(path, Wanted(score, ends), commas=commas))
    assert len({block.certain for block in blocks}) <= 1
    return [
        row
        for block in blocks
        for row in zip(block.lines, block.sources, block.targets, block.scores, strict=True)
    ]


def refusal(path, *args, **options):
    with pytest.raises(FileError) as caught:
        rows_of(path, *args, **options)
    return caught.value


def test_white_space_of_any_kind_separates(tmp_path):
    path = write(tmp_path, "a b 0.1\n  c   d\t0.2  \n\n# e f 1\n\u00e9 g 0.3")
    expected = [(1, "a", "b", "0.1"), (2, "c", "d", "0.2"), (5, "\u00e9", "g", "0.3")]
    assert rows_of(path) == expected


def test_tabs_in_the_first_line_let_names_have_spaces(tmp_path):
    path = write(tmp_path, "#\nheat shock\tMg 2\t0.1\nc \t d\t0.2\r\n")
    assert rows_of(path) == [(2, "heat shock", "Mg 2", "0.1"), (3, "c", "d", "0.2")]


def test_quotes_protect_separators(tmp_path):
    text = 'from,to,p\n"a, b", c ,0.1\n"say ""x""",5" nail,0.2\n#"\n"#1",d,0.3\n'
    expected = [(2, "a, b", "c", "0.1"), (3, 'say "x"', '5" nail', "0.2"), (5, "#1", "d", "0.3")]
    assert rows_of(write(tmp_path, text), "p", commas=True) == expected


@pytest.mark.parametrize("rows", [1, LENGTH - 1, LENGTH, 2 * LENGTH + 3])
def test_wide_tables_agree_with_the_csv_module(tmp_path, rows):
    path, draw = tmp_path / "links", np.random.default_rng(rows)
    table = draw.integers(0, 99, (rows, 6)).astype(str)
    fields = ["id", "from", "note", "to", "p", "q"]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
        writer.writerow(fields)
        writer.writerows(table)
    with path.open(newline="", encoding="utf-8") as stream:
        oracle = [
            (number, row["from"], row["to"], row["q"])
            for number, row in enumerate(csv.DictReader(stream), 2)
        ]
    assert rows_of(path, "q", ends=("from", "to"), commas=True) == oracle
    assert rows_of(path, 5, ends=("from", 3), commas=True) == oracle


@pytest.mark.parametrize("commas", [False, True])
@pytest.mark.parametrize("place", [2, 3, LENGTH + 9])
def test_rows_of_another_length_are_named(tmp_path, place, commas):
    lines = ["from,to,p"] + ["a,b,0.5"] * (LENGTH + 20)
    for wrong, few in (("a,b", "few"), ("a,b,0.5,x", "many")):
        broken = [*lines[: place - 1], wrong, *lines[place:]]
        text = "\n".join(broken)
        path = write(tmp_path, text if commas else text.replace(",", " "))
        error = refusal(path, "p", commas=commas)
        assert error.line == place
        assert f"too {few} fields: {wrong.count(',') + 1} instead of 3" in error.problem


@pytest.mark.parametrize("line", ['"a,b,0.5', '"a"x,b,0.5', '"a\nb",c,0.5'])
@pytest.mark.parametrize("after", [0, 5, 2 * LENGTH])
def test_quotes_that_do_not_close_are_named(tmp_path, line, after):
    text = "from,to,p\n" + "a,b,0.5\n" * 7 + line + "\n" + 'a,"b",0.5\n' * after
    error = refusal(write(tmp_path, text), "p", commas=True)
    assert error.line == 9
    assert "cannot be split into fields" in error.problem


@pytest.mark.parametrize(("line", "text"), [(2, ",b,0.5"), (2, "a, ,0.5")])
def test_ends_without_a_name_are_refused(tmp_path, line, text):
    error = refusal(write(tmp_path, f"from,to,p\n{text}\n"), "p", commas=True)
    assert error.line == line
    assert "end without a name" in error.problem
