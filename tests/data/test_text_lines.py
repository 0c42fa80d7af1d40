import gzip

import pytest

from varigraph.data.delimited import LENGTH, text_lines
from varigraph.errors import FileError


def lines_of(path):
    """Numbered lines that have a content."""
    blocks = list(text_lines(path))
    assert [block.start for block in blocks] == [1 + LENGTH * n for n in range(len(blocks))]
    numbered = [
        (number, line) for block in blocks for number, line in enumerate(block.lines, block.start)
    ]
    return {number: line.rstrip("\n") for number, line in numbered if line}


@pytest.mark.parametrize("count", [1, LENGTH - 1, LENGTH, LENGTH + 1, 3 * LENGTH + 5])
def test_every_line_has_its_number(tmp_path, count):
    path = tmp_path / "file.txt"
    path.write_text("".join(f"line {n}\n" for n in range(1, count + 1)))
    assert lines_of(path) == {n: f"line {n}" for n in range(1, count + 1)}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_comments_and_blanks_keep_their_place_but_are_empty(tmp_path, end):
    path = tmp_path / "file.txt"
    text = end.join(["# head", "a # b", "", " \t", "  # indented", "c", "é#"])
    path.write_bytes(text.encode())
    assert lines_of(path) == {2: "a # b", 6: "c", 7: "é#"}


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"\xef\xbb\xbfa b\n")
    assert lines_of(path) == {1: "a b"}


@pytest.mark.parametrize("number", [1, 2, LENGTH + 7])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path, number, pack):
    path = tmp_path / "file.txt"
    good = ["π b 0.5\n".encode()] * (2 * LENGTH)
    good[number - 1] = b"M\xfcller b 0.5\n"
    path.write_bytes(pack(b"".join(good)))
    with pytest.raises(FileError) as caught:
        list(text_lines(path))
    assert caught.value.line == number
    assert "byte 0xfc after 1 characters is not UTF-8" in caught.value.problem


def test_utf16_is_refused(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("a b 0.5\n", encoding="utf-16")
    with pytest.raises(FileError, match="byte 0xff"):
        list(text_lines(path))
