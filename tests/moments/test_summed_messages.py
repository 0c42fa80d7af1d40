"""Layers that are followed as written, over links that may be gone: sums, means, GCN's degrees.

The truth goes through all outcomes of the coins of small graphs, with the layers as they are.
"""

import itertools

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch_geometric.data import Data

import varigraph as vg
from varigraph.errors import MissingRuleError

#: A ring of five with a chord and a tail; one coin for both directions of a link.
PAIRS = torch.tensor([[0, 1, 2, 3, 0, 1, 4], [1, 2, 3, 4, 4, 3, 5]])
PROB = torch.tensor([0.8, 0.9, 0.7, 0.85, 0.6, 0.95, 0.75], dtype=torch.double)


def graph():
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    both = torch.cat([PAIRS, PAIRS.flip(0)], 1)
    return Data(x=x, edge_index=both, edge_prob=PROB.repeat(2))


def enumerated(run, data):
    """Mean and variance over all outcomes of the coins."""
    values, chances = [], []
    for shown in itertools.product([0, 1], repeat=len(PROB)):
        coins = torch.tensor(shown).bool()
        with torch.no_grad():
            values.append(run(data.x, data.edge_index[:, coins.repeat(2)]))
        chances.append(torch.where(coins, PROB, 1 - PROB).prod())
    values, chances = torch.stack(values), torch.stack(chances)[:, None, None]
    mean = (chances * values).sum(0)
    return mean, (chances * (values - mean).square()).sum(0)


class Net(nn.Module):
    """A layer, and whatever comes behind it."""

    def __init__(self, conv, after=None):
        super().__init__()
        torch.manual_seed(1)
        self.conv, self.after = conv(), after() if after else nn.Identity()

    def forward(self, x, edge_index):
        return self.after(self.conv(x, edge_index))


class OwnSum(gnn.MessagePassing):
    """Of one's own: what neighbours send, mapped."""

    def __init__(self, aggr="sum", factor=1.0):
        super().__init__(aggr=aggr)
        self.lin, self.factor = nn.Linear(3, 2), factor

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j):
        return self.factor * x_j


class BothEnds(OwnSum):
    """A message that knows who receives it."""

    def message(self, x_j, x_i):
        return x_j - 0.5 * x_i


class Pair(nn.Module):
    """A layer that is called with both ends."""

    def __init__(self):
        super().__init__()
        self.conv = gnn.SAGEConv((3, 3), 2)

    def forward(self, x, edge_index):
        return self.conv((x, x), edge_index)


def predicted(model, data, **options):
    return vg.predict(
        model.double().eval(), data, method="first-order", task="regression",
        sources=["links"], **options,
    )  # fmt: skip


class ByKind(nn.Module):
    """RGCN with the kind of each link in its ends."""

    def __init__(self):
        super().__init__()
        self.conv = gnn.RGCNConv(3, 2, 2)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index, edge_index.sum(0) % 2)


EXACT = {
    "own sum": lambda: Net(OwnSum),
    "own mean": lambda: Net(lambda: OwnSum("mean")),
    "simple": lambda: Net(gnn.SimpleConv),
    "simple mean": lambda: Net(lambda: gnn.SimpleConv("mean")),
    "both ends given": Pair,
    "several kinds of links": lambda: Net(ByKind),
}


@pytest.mark.parametrize("name", EXACT)
def test_one_layer_is_exact(name):
    model, data = EXACT[name](), graph()
    pred = predicted(model, data)
    mean, var = enumerated(model, data)
    torch.testing.assert_close(pred.mean, mean)
    torch.testing.assert_close(pred.total, var, rtol=2e-6, atol=1e-9)  # means are integrals
    assert len(pred.as_written) == 1


@pytest.mark.parametrize("conv", [gnn.LGConv, lambda: gnn.TAGConv(3, 2, K=1)])
def test_degrees_that_links_give_are_those_of_what_is_left(conv):
    model, data = Net(conv), graph()
    pred = predicted(model, data)
    mean, var = enumerated(model, data)
    assert float((pred.mean - mean).abs().max()) < 0.03 * float(mean.abs().max())
    assert float(pred.total.sum() / var.sum()) == pytest.approx(1, abs=0.05)


def test_silenced_messages_keep_the_degrees():
    model, data = Net(gnn.LGConv).double(), graph()
    pred = predicted(model, data, links="bernoulli")
    degree = data.edge_index[1].bincount().double()
    source, target = data.edge_index
    weight = (degree[source] * degree[target]).rsqrt()
    var = torch.zeros(6, 3, dtype=torch.double)
    spread = data.edge_prob * (1 - data.edge_prob) * weight.square()
    var.index_add_(0, target, spread[:, None] * data.x[source].square())
    torch.testing.assert_close(pred.total, var)


@pytest.mark.parametrize("layer", [BothEnds, lambda: OwnSum("max"), lambda: OwnSum(factor=2.0)])
def test_what_is_no_plain_sum_is_not_taken_for_one(layer):
    with pytest.raises(MissingRuleError, match="no moment rule for links that may not be real"):
        predicted(Net(layer), graph())


def test_pairs_that_are_scored_are_no_messages():
    torch.manual_seed(1)
    model, data = gnn.GraphConv(3, 2).double(), graph()
    pairs = torch.cat([data.edge_index, torch.tensor([[0, 2], [3, 5]])], 1)

    def score(x, edge_index):
        out = model(x, edge_index)
        return out[pairs[0]] - out[pairs[1]]

    pred = predicted(model, data, forward=lambda m, x, d: score(x, d.edge_index))
    mean, var = enumerated(score, data)
    torch.testing.assert_close(pred.mean, mean)
    torch.testing.assert_close(pred.total, var)


def test_messages_by_hand_are_still_not_followed():
    def own(model, x, data):
        source, target = data.edge_index
        count = torch.bincount(target, minlength=len(x))[:, None].double()
        return model(x)[source][: len(x)] / count

    with pytest.raises(MissingRuleError, match="makes more of its links"):
        predicted(nn.Linear(3, 2), graph(), forward=own)
