import pytest

from varigraph.studies.comparison.pieces import LinkPiece, NetworkPiece
from varigraph.studies.comparison.workers import Clock, cost


def test_the_time_left_follows_the_pace_that_was_seen():
    networks = [NetworkPiece("held-out", "cora", seed) for seed in range(4)]
    clock = Clock(networks, jobs=2)
    assert clock.seconds_left == pytest.approx(4 * cost(networks[0]) / 2)
    clock.made(networks[0], 3 * cost(networks[0]))
    assert clock.done == 1
    assert clock.seconds_left == pytest.approx(3 * 3 * cost(networks[0]) / 2)
    for network in networks[1:]:
        clock.made(network, 1.0)
    assert (clock.done, clock.seconds_left) == (4, 0)


def test_one_piece_is_not_shared_by_two_processes():
    piece = LinkPiece("pubmed")
    assert Clock([piece], jobs=2).seconds_left == cost(piece)
