import dataclasses

import pytest

from varigraph.data import Reading

PLAIN = Reading(lines=9, links=9, duplicates=0, conflicts=0, self_links=0, impossible=0)


@pytest.mark.parametrize(
    ("change", "text", "lossless"),
    [
        ({}, "9 lines, 9 links", True),
        ({"lines": 1, "links": 1}, "1 line, 1 link", True),
        ({"duplicates": 1}, "9 lines, 9 links, 1 duplicate merged", True),
        ({"self_links": 2}, "9 lines, 9 links, 2 self links dropped", False),
        ({"impossible": 1}, "9 lines, 9 links, 1 link of score 0 dropped", False),
        (
            {"duplicates": 3, "conflicts": 2},
            "9 lines, 9 links, 3 duplicates merged, "
            "2 of them with a lower score, which was dropped",
            False,
        ),
    ],
)
def test_counts_in_words(change, text, lossless):
    reading = dataclasses.replace(PLAIN, **change)
    assert str(reading) == text
    assert reading.lossless is lossless
