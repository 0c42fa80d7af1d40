"""Every network of the corpus: how it is answered for, against brute force; laws that all obey."""

from collections import Counter

import pytest

from corpus import NETWORKS
from corpus.asking import SOURCES
from corpus.judgement import judged
from corpus.laws import check_left_alone
from corpus.states import STATES

CASES = [(name, source) for name in NETWORKS for source in SOURCES]


def state(name, source):
    return STATES[name][SOURCES.index(source)]


@pytest.mark.parametrize(("name", "source"), CASES)
def test_the_state_is_what_the_table_says(name, source):
    verdict = judged(NETWORKS[name], source)
    assert verdict.state == state(name, source), f"{verdict}; see python -m corpus --write"


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_left_alone(name):
    check_left_alone(NETWORKS[name])


@pytest.mark.parametrize(
    ("source", "closed", "answered"), [("features", 94, 114), ("links", 11, 116)]
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
