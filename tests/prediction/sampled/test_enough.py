"""Draws end where rounds of them say the same."""

import pytest
import torch
from torch_geometric import nn as gnn
from torch_geometric.data import Data

import varigraph as vg
from varigraph.prediction.sampled.draws import Design
from varigraph.prediction.sampled.enough import MOST_ROUNDS, SEEN, Enough, not_known
from varigraph.prediction.sampled.estimates import SampledMoments
from varigraph.prediction.sampled.tosses import ROUND


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
    enough = Enough(least=100, most=404)
    assert enough.reached(drawn(2))
    assert not enough.reached(drawn(1))
    assert not enough.reached(drawn(2, spread=4.0))
    assert not Enough(least=250, most=404).reached(drawn(2))
    assert enough.reached(SEEN / 2 * drawn(2, spread=4.0).sign())  # too small to be seen


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


@pytest.mark.parametrize(("prob", "nodes", "draws"), [(0.8, [0], 2), (0.98, None, MOST_ROUNDS)])
def test_auto_draws_as_often_as_it_takes(prob, nodes, draws):
    torch.manual_seed(1)
    model = gnn.GraphSAGE(3, 4, 2, 2).eval()
    asked = {"nodes": nodes, "sources": ("links",)}
    pred = vg.predict(model, star(prob), **asked)
    assert pred.samples == draws * ROUND
    true = vg.predict(model, star(prob), method="sampled", samples=10_000, seed=4, **asked)
    ratio = (pred.total / true.total)[true.total > SEEN]
    assert bool(((ratio - 1).abs() < 0.6).all())
    assert float(ratio.median()) == pytest.approx(1, abs=0.2)


def test_who_asks_for_more_draws_is_given_them():
    torch.manual_seed(1)
    model = gnn.GraphSAGE(3, 4, 2, 2).eval()
    pred = vg.predict(model, star(0.8), nodes=[0], samples=500, sources=("links",))
    assert pred.samples == 5 * ROUND
