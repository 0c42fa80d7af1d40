"""Draws end where rounds of them say the same."""

import pytest
import torch
from torch_geometric import nn as gnn
from torch_geometric.data import Data

import varigraph as vg
from varigraph.prediction.sampled import shortcuts, tosses
from varigraph.prediction.sampled.draws import Design
from varigraph.prediction.sampled.estimates import SampledMoments
from varigraph.prediction.sampled.tosses import MOST_ROUNDS, ROUND, SEEN, Enough, not_known


def drawn(rounds, *, spread=1.0):
    """Variances of 101 Gaussian draws in each round, around the same truth."""
    draw = torch.Generator().manual_seed(rounds)
    draws = torch.randn(rounds, ROUND, 300, 7, generator=draw).double()
    return 0.01 * (1 + spread * (draws.var(1) - 1))


@pytest.mark.parametrize("rounds", [2, 3, 8])
def test_what_is_not_known_is_how_far_nine_in_ten_are_off(rounds):
    by_round = drawn(rounds)
    off = (by_round.mean(0) / 0.01 - 1).abs()
    assert not_known(by_round) == pytest.approx(float(off.quantile(0.9)), rel=0.1)


def test_rounds_that_agree_are_enough_and_one_alone_never_is():
    wanted = Enough(least=100, most=404)
    assert wanted.reached(drawn(2))
    assert not wanted.reached(drawn(1))
    assert not wanted.reached(drawn(2, spread=4.0))
    assert not Enough(least=250, most=404).reached(drawn(2))
    assert wanted.reached(SEEN / 2 * drawn(2, spread=4.0).sign())  # too small to be seen


def test_who_goes_side_by_side_may_go_on():
    assert Enough(least=100, most=404).rounds(beside=False) == 4
    assert Enough(least=100, most=404).rounds(beside=True) == MOST_ROUNDS
    assert Enough(least=1000, most=404).rounds(beside=True) == 10


def test_variances_by_round_are_those_of_their_draws():
    runs = torch.randn(3 * ROUND, 5, 2, generator=torch.Generator().manual_seed(0)).double()
    moments = SampledMoments(runs[0], Design(("links",), 5 * ROUND, 5))
    for part in runs.split((30, 71, 101, 50, 51)):
        moments.add(part)
    want = runs.view(3, ROUND, 5, 2).var(1, unbiased=False)
    assert torch.allclose(moments.by_round(3, ROUND), want)
    moments.end()  # the other two rounds never come
    assert torch.allclose(moments.mean.value, runs.mean(0))
    assert torch.allclose(moments.total.value, runs.var(0))
    assert torch.allclose(moments.total.error, 2**0.5 * runs.var(0) / 303**0.5, rtol=0.9)


def star(prob, *, leaves=30):
    """A node with many links, and one beside it with one."""
    ends = torch.stack([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.long)])
    ends = torch.cat([ends, ends.flip(0)], 1)
    x = torch.randn(leaves + 1, 3, generator=torch.Generator().manual_seed(0))
    return Data(x=x, edge_index=ends, edge_prob=torch.full((ends.shape[1],), prob))


def asked(prob, **options):
    torch.manual_seed(1)
    model = gnn.GraphSAGE(3, 4, 2, 2).eval()
    return vg.predict(model, star(prob), nodes=[0], sources=("links",), **options)


def test_auto_stops_where_rounds_agree():
    pred = asked(0.8)
    assert pred.samples == 2 * ROUND
    true = asked(0.8, method="sampled", samples=10_000, seed=4)
    assert float((pred.total / true.total - 1).abs().max()) < 0.25


@pytest.mark.parametrize(("beside", "rounds"), [(True, MOST_ROUNDS), (False, 4)])
def test_auto_goes_on_where_they_do_not(beside, rounds, monkeypatch):
    monkeypatch.setattr(tosses, "not_known", lambda by_round: 1.0)
    if not beside:
        monkeypatch.setattr(shortcuts, "SHORT", {"cpu": 0})
        monkeypatch.setattr(shortcuts, "_tosses_sums", lambda network: False)
    assert asked(0.95).samples == rounds * ROUND


def test_who_asks_for_more_draws_is_given_them():
    assert asked(0.8, samples=500).samples == 5 * ROUND


def test_how_often_does_not_depend_on_who_is_asked_about():
    torch.manual_seed(1)
    model, graph = gnn.GraphSAGE(3, 4, 2, 2).eval(), star(0.95)
    whole, one = (vg.predict(model, graph, nodes=n, sources=("links",)) for n in (None, [5]))
    assert whole.samples == one.samples
    assert torch.allclose(whole.total[[5]], one.total)
