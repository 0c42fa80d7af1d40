"""Whatever way ``auto`` goes over uncertain links, its variance is the one of all their outcomes.

The truth goes through all outcomes of seven coins, with the layers written out in dense matrices.
"""

import itertools

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch_geometric.data import Data

import varigraph as vg

PAIRS = torch.tensor([[0, 1, 2, 3, 0, 1, 4], [1, 2, 3, 4, 4, 3, 5]])
PROB = torch.tensor([0.8, 0.9, 0.7, 0.85, 0.6, 0.95, 0.75], dtype=torch.double)
NODES = 6


def graph():
    x = torch.randn(NODES, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    both = torch.cat([PAIRS, PAIRS.flip(0)], 1)
    return Data(x=x, edge_index=both, edge_prob=PROB.repeat(2))


def normalised(links, degree):
    scale = (degree + 1).rsqrt()
    return scale[:, None] * (links + torch.eye(NODES, dtype=torch.double)) * scale


class Stack(nn.Module):
    """Two layers with a ReLU between them."""

    def __init__(self, make):
        super().__init__()
        self.first, self.last = make(3, 8), make(8, 2)

    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index).relu(), edge_index)


class Propagated(nn.Module):
    """A map, and many steps behind it."""

    def __init__(self, steps):
        super().__init__()
        self.lin, self.steps = nn.Linear(3, 2), steps

    def forward(self, x, edge_index):
        return self.steps(self.lin(x), edge_index)


def gin(width, out):
    return gnn.GINConv(nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, out)))


def written_out(layer, x, links, degree):
    """What a layer answers, by matrices."""
    if isinstance(layer, gnn.GINConv):
        return layer.nn(links @ x + x)
    if isinstance(layer, gnn.GraphConv):
        return layer.lin_rel(links @ x) + layer.lin_root(x)
    hat = normalised(links, degree)
    if isinstance(layer, gnn.SGConv):
        return layer.lin(torch.linalg.matrix_power(hat, layer.K) @ x)
    out = x
    for _ in range(layer.K):
        out = (1 - layer.alpha) * (hat @ out) + layer.alpha * x
    return out


def by_matrices(model, x, links, degree):
    if isinstance(model, Stack):
        hidden = written_out(model.first, x, links, degree).relu()
        return written_out(model.last, hidden, links, degree)
    if isinstance(model, Propagated):
        return written_out(model.steps, model.lin(x), links, degree)
    return written_out(model, x, links, degree)


def variance_of_all_outcomes(model, x, reading):
    """Where messages are silenced, degrees stay those of all links."""
    whole, values, chances = None, [], []
    for shown in itertools.product([1, 0], repeat=len(PROB)):
        coins = torch.tensor(shown, dtype=torch.double)
        links = torch.zeros(NODES, NODES, dtype=torch.double)
        links[PAIRS[0], PAIRS[1]] = links[PAIRS[1], PAIRS[0]] = coins
        whole = links.sum(1) if whole is None else whole
        degree = links.sum(1) if reading == "removed" else whole
        with torch.no_grad():
            values.append(by_matrices(model, x, links, degree))
        chances.append(torch.where(coins > 0, PROB, 1 - PROB).prod())
    values, chances = torch.stack(values), torch.stack(chances)[:, None, None]
    mean = (chances * values).sum(0)
    return (chances * (values - mean).square()).sum(0)


NETWORKS = {
    "GIN": lambda: Stack(gin),
    "GraphConv": lambda: Stack(gnn.GraphConv),
    "APPNP": lambda: Propagated(gnn.APPNP(K=5, alpha=0.1)),
    "SGC": lambda: gnn.SGConv(3, 2, K=3),
}


@pytest.mark.parametrize("reading", ["removed", "bernoulli"])
@pytest.mark.parametrize("name", NETWORKS)
def test_auto_has_the_variance_of_all_outcomes(name, reading):
    torch.manual_seed(1)
    model, data = NETWORKS[name]().double().eval(), graph()
    pred = vg.predict(model, data, links=reading, samples=1000, task="regression",
                      sources=["links"])  # fmt: skip
    ratio = pred.total / variance_of_all_outcomes(model, data.x, reading)
    assert 0.9 < float(ratio.median()) < 1.1, pred.method
    assert 0.8 < float(ratio.mean()) < 1.2, pred.method


@pytest.mark.parametrize("name", ["APPNP", "SGC"])
def test_the_closed_form_of_many_steps_is_too_low_where_degrees_are_those_of_what_is_left(name):
    """Which is why it is not believed: if it is mended one day, this test can go."""
    torch.manual_seed(1)
    model, data = NETWORKS[name]().double().eval(), graph()
    asked = {"sources": ["links"], "task": "regression", "samples": 0}
    closed = vg.predict(model, data, method="first-order", **asked)
    ratio = closed.total / variance_of_all_outcomes(model, data.x, "removed")
    assert float(ratio.median()) < 0.9
    assert vg.predict(model, data, **asked).method.startswith("sampled: the rule of ")
