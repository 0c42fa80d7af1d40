"""Draws of links side by side: the same draws as run by run, and only where they are the same."""

import importlib

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.data import Data
from torch_geometric.utils import degree

import varigraph as vg
from varigraph.moments import LinkProbabilities
from varigraph.prediction.sampled import shortcuts
from varigraph.prediction.sampled.neighbour_sums import LeftLinks, summed_messages
from varigraph.prediction.sampled.runs import FixedProducts, PlainRun
from varigraph.prediction.sampled.tosses import ROUND, Round, TossedLinks
from varigraph.sparse import Sparse, product, stand_in_for


def graph_of(nodes=40):
    """One-way links, links listed twice, loops, a node without links; chances of all kinds."""
    draw = torch.Generator().manual_seed(2)
    links = torch.randint(nodes - 1, (2, 3 * nodes), generator=draw)
    some = links[:, :nodes]
    links = torch.cat([links, some.flip(0), links[:, :3], torch.tensor([[4, 7], [4, 7]])], 1)
    graph = Data(x=torch.randn(nodes, 6, generator=draw).double(), edge_index=links)
    source, target = links
    graph.edge_prob = (0.5 + 0.5 * (source * target % 5) / 4).double()
    graph.x_var = 0.1
    return graph


@pytest.fixture
def ways(monkeypatch):
    """The ways that were found through networks."""
    method = importlib.import_module("varigraph.prediction.sampled.method")
    summed, found = method._summed, []

    def noted(explored, *more):
        found.append(explored)
        return summed(explored, *more)

    monkeypatch.setattr(method, "_summed", noted)
    return found


def assert_same_as_run_by_run(model, graph, monkeypatch, **options):
    model = model.double().eval()
    asked = {"method": "sampled", "samples": 40, **options}
    beside = vg.predict(model, graph, **asked)
    monkeypatch.setattr(shortcuts, "_tosses_sums", lambda network: False)
    alone = vg.predict(model, graph, **asked)
    for part, value in alone.by_source.items():
        assert torch.allclose(beside.by_source[part], value, atol=1e-10), part
    assert torch.allclose(beside.logits.var, alone.logits.var, rtol=1e-7, atol=1e-10)
    assert torch.allclose(beside.mean, alone.mean, atol=1e-10)


class Two(nn.Module):
    """Two layers of a kind."""

    def __init__(self, build):
        super().__init__()
        self.first, self.second = build(6, 5), build(5, 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


LAYERS = {
    "SAGE": gnn.SAGEConv,
    "SAGE, sum": lambda i, o: gnn.SAGEConv(i, o, aggr="sum"),
    "GCN": gnn.GCNConv,
    "GCN without loops": lambda i, o: gnn.GCNConv(i, o, add_self_loops=False),
    "GCN, not normalised": lambda i, o: gnn.GCNConv(i, o, normalize=False),
    "GCN, cached": lambda i, o: gnn.GCNConv(i, o, cached=True),
    "SGC": lambda i, o: gnn.SGConv(i, o, K=2),
    "GraphConv": gnn.GraphConv,
    "GraphConv, mean": lambda i, o: gnn.GraphConv(i, o, aggr="mean"),
    "GIN": lambda i, o: gnn.GINConv(nn.Sequential(nn.Linear(i, o), nn.Tanh())),
}


@pytest.mark.parametrize("links", ["bernoulli", "removed"])
@pytest.mark.parametrize("sources", [("links",), ("features", "links")])
@pytest.mark.parametrize("layer", LAYERS)
def test_draws_are_the_same_as_run_by_run(layer, sources, links, ways, monkeypatch):
    torch.manual_seed(0)
    model, options = Two(LAYERS[layer]), {"sources": sources, "links": links}
    assert_same_as_run_by_run(model, graph_of(), monkeypatch, **options)
    assert [way.batched for way in ways] == [True, links == "bernoulli"]
    assert ways[0].network.removed is None


@pytest.mark.parametrize("links", ["bernoulli", "removed"])
def test_masks_are_drawn_beside_links(links, ways, monkeypatch):
    torch.manual_seed(0)
    model = gnn.GraphSAGE(6, 5, 2, 3, dropout=0.4)
    assert_same_as_run_by_run(model, graph_of(), monkeypatch, links=links)
    assert ways[0].batched


class CountsItself(Two):
    def forward(self, x, edge_index):
        count = degree(edge_index[1], len(x)).to(x)
        return super().forward(x, edge_index) / (1 + count)[:, None]


class Weighs(Two):
    def forward(self, x, edge_index):
        weight = (1 + edge_index.sum(0) % 3).to(x)
        return self.second(self.first(x, edge_index, weight).relu(), edge_index, weight)


@pytest.mark.parametrize("chance", [0.995, 0.6], ids=["gone in few draws", "gone in many"])
@pytest.mark.parametrize("build", [lambda: CountsItself(gnn.SAGEConv), lambda: Weighs(gnn.GCNConv)])
def test_who_makes_more_of_the_graph_than_sums_is_given_the_graph(build, chance, ways, monkeypatch):
    torch.manual_seed(0)
    graph = graph_of()
    graph.edge_prob = torch.where(graph.edge_prob < 1, chance, 1.0).double()
    assert_same_as_run_by_run(build(), graph, monkeypatch, links="removed")
    assert ways[0].network.removed is not None


def test_links_that_are_left_have_the_weights_of_what_is_left():
    edge_index = torch.tensor([[1, 2, 3, 0], [0, 0, 0, 1]])
    links = LeftLinks(LinkProbabilities(edge_index, torch.full((4,), 0.5), 4, "removed"))
    layer, x = gnn.SAGEConv(4, 4, bias=False), torch.eye(4)
    with torch.no_grad(), summed_messages(layer, links), PlainRun({}):
        links.show(torch.tensor([1.0, 0.0, 1.0, 0.0]))
        found = layer(x, edge_index)
    with torch.no_grad():
        assert torch.allclose(found, layer(x, edge_index[:, [0, 2]]))


# ---- what it is made of ----


def test_a_round_is_whole_numbers():
    step, start = torch.arange(1, ROUND).repeat(ROUND), torch.arange(ROUND).repeat_interleave(100)
    shown = (start * 7 + step) % (ROUND + 1)
    round_of = Round(*(each.to(torch.int16) for each in (step, start, shown)))
    draws = list(range(ROUND))
    want = (torch.tensor(draws)[:, None] * step + start) % ROUND < shown
    assert torch.equal(round_of.there(draws), want)


def test_many_draws_are_those_one_by_one():
    links = TossedLinks()
    links._links = LinkProbabilities(torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.full((3,), 0.6), 3)
    samples = [99, 100, 101, 102, 3, 3]
    each = torch.stack([links.draw(sample, seed=5) for sample in samples])
    assert torch.equal(links.draws(samples, seed=5), each)


@pytest.mark.parametrize("own", [True, False], ids=["own x", "one x"])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_many_matrices_of_one_pattern(own, reduce):
    rows, columns = torch.tensor([0, 0, 2, 2, 2]), torch.tensor([1, 3, 0, 1, 2])
    values = torch.randn(4, 5, dtype=torch.float64)
    x = torch.randn(4, 4, 3, dtype=torch.float64) if own else torch.randn(4, 3).double()

    def one(values, x):
        return product(stand_in_for(Sparse(rows, columns, values, (3, 4))), x, reduce)

    with torch.no_grad():
        found = torch.vmap(one, in_dims=(0, 0 if own else None))(values, x)
    dense = torch.zeros(4, 3, 4).double()
    dense[:, rows, columns] = values
    divisor = torch.tensor([2, 1, 3]).double()[:, None] if reduce == "mean" else 1
    assert torch.allclose(found, dense @ x / divisor)


def test_maps_of_features_that_stay_are_computed_once():
    x, weight, bias = torch.randn(5, 4), torch.randn(3, 4), torch.randn(3)
    fixed = FixedProducts(x)
    with torch.no_grad():
        first = fixed.linear(x, weight, bias)
        assert torch.equal(first, F.linear(x, weight, bias))
        assert fixed.linear(x, weight, bias) is first
        assert fixed.bytes == first.nbytes
        assert fixed.linear(x.clone(), weight, bias) is not first
        first.mul_(2)  # by a network that writes on what it is given
        assert torch.equal(fixed.linear(x, weight, bias), F.linear(x, weight, bias))
        weight.mul_(2)
        assert torch.equal(fixed.linear(x, weight, bias), F.linear(x, weight, bias))
