"""Every network of the corpus: how it is answered for, against brute force; laws that all obey."""

from collections import Counter

import pytest

from corpus import NETWORKS
from corpus.asking import SOURCES
from corpus.judgement import judged
from corpus.laws import check_left_alone
from corpus.states import STATES


def state(name, source):
    return STATES[name][SOURCES.index(source)]


@pytest.mark.parametrize("name", NETWORKS)
def test_answers_are_what_the_table_says_and_the_network_is_left_alone(name):
    """One test for all that is asked about a network, which is trained and drawn only once."""
    verdicts = [judged(NETWORKS[name], source) for source in SOURCES]
    for verdict, known in zip(verdicts, STATES[name], strict=True):
        as_before = verdict.state == known or (verdict.near and "off" in (verdict.state, known))
        assert as_before, f"{verdict}; see python -m corpus --write"
    check_left_alone(NETWORKS[name])


@pytest.mark.parametrize(
    ("source", "closed", "answered"), [("features", 96, 118), ("links", 7, 118)]
)
def test_there_are_no_fewer_than_there_were(source, closed, answered):
    counts = Counter(state(name, source) for name in NETWORKS)
    assert counts["closed"] + counts["differentiated"] >= closed
    assert counts.total() - counts["refused"] - counts["off"] - counts["crashed"] >= answered


def test_there_are_enough_networks_of_enough_styles():
    chapters = Counter(network.chapter for network in NETWORKS.values())
    assert len(NETWORKS) >= 60
    assert len(chapters) >= 10
    assert set(STATES) == set(NETWORKS)
