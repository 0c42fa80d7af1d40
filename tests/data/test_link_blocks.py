from pathlib import Path

import pytest

from varigraph.data.link_tables import LinkBlock, is_number
from varigraph.errors import FileError


def block(*scores, certain=1.0):
    lines = range(11, 11 + len(scores))
    return LinkBlock(lines, ["a"] * len(scores), ["b"] * len(scores), scores, certain=certain)


def probabilities(*scores, certain=1.0, scale=None):
    return block(*scores, certain=certain).probabilities(Path("links"), scale).tolist()


def test_scores_become_probabilities():
    assert probabilities("0", "1", ".5", "25e-2", "+1.") == [0, 1, 0.5, 0.25, 1]
    assert probabilities("250", "1000", certain=1000) == [0.25, 1]
    assert probabilities("250", "500", certain=1000, scale=500) == [0.5, 1]
    assert probabilities() == []


@pytest.mark.parametrize(
    ("scores", "problem"),
    [
        (("0", "1", "1.7", "x"), "the score 'x' is not a number"),
        (("0", "1", "0.5", ""), "the score '' is not a number"),
        (("0", "1", "0.5", "-1", "2"), "the score '-1' makes a probability of -1,"),
        (("0", "1", "0.5", "nan"), "the score 'nan' makes a probability of nan,"),
    ],
)
def test_the_first_culprit_is_named(scores, problem):
    with pytest.raises(FileError) as caught:
        probabilities(*scores)
    assert problem in caught.value.problem
    assert caught.value.line == 14


def test_the_remedy_knows_what_counted_as_certain():
    with pytest.raises(FileError, match="another number than 1000, give that as scale="):
        probabilities("1001", certain=1000)
    with pytest.raises(FileError, match="another number than 10, give that as scale="):
        probabilities("11", certain=1000, scale=10)


@pytest.mark.parametrize(
    ("text", "expected"), [("1", True), ("-.5e3", True), ("nan", True), ("1_0", False), ("", False)]
)
def test_numbers_are_told_from_text(text, expected):
    assert is_number(text) is expected
