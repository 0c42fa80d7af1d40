"""Coins that silence messages: only where that has a meaning, and only on the links they are of."""

import itertools

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch_geometric.data import Data
from torch_geometric.utils import sort_edge_index

import varigraph as vg
from varigraph.errors import ModelError

ERRORS = 4
LINKS = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
CHANCE = torch.tensor([0.6, 0.6, 0.9, 0.9, 0.5, 0.5, 0.8, 0.8]).double()


def ring(**more):
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).double()
    return Data(x=x, edge_index=LINKS, edge_prob=CHANCE.clone(), **more)


def sampled(model, graph, **options):
    asked = {"samples": 1000, "task": "regression", "links": "bernoulli", **options}
    return vg.predict(model, graph, method="sampled", **asked)


def seeded(make):
    torch.manual_seed(0)
    return make().double().eval()


# ---- a message that is not sent is none of 0 ----


def copying(aggr):
    """What a node gets of its neighbours' features, as they are."""
    layer = gnn.SAGEConv(1, 1, aggr=aggr, root_weight=False, bias=False).double()
    nn.init.ones_(layer.lin_l.weight)
    return layer.eval()


def negative(chance):
    return Data(
        x=torch.tensor([[-1.0], [-1.0], [-5.0]]).double(),
        edge_index=torch.tensor([[0, 1], [2, 2]]),
        edge_prob=torch.tensor([1.0, chance]).double(),
    )


def test_the_largest_of_negative_messages_is_negative():
    """-1 from both neighbours, one of them for certain: that is -1, with no variance."""
    pred = sampled(copying("max"), negative(0.5))
    assert pred.mean[2].item() == -1
    assert pred.total[2].item() == 0


def test_the_smallest_of_positive_messages_is_positive():
    graph = negative(0.5)
    graph.x = -graph.x
    pred = sampled(copying("min"), graph)
    assert pred.mean[2].item() == 1
    assert pred.total[2].item() == 0


@pytest.mark.parametrize("together", [True, False], ids=["at once", "one by one"])
def test_a_maximum_is_that_of_the_closed_form(together, monkeypatch):
    shortcuts = vg.prediction.sampled.shortcuts
    monkeypatch.setattr(shortcuts, "SHORT", {"cpu": 2**15 if together else 0})
    graph = negative(0.5)
    graph.edge_prob[0] = 0.5  # none may come: then it is 0
    drawn, model = sampled(copying("max"), graph, samples=4000), copying("max")
    asked = {"task": "regression", "samples": 0, "links": "bernoulli"}
    closed = vg.predict(model, graph, method="diagonal", **asked)
    assert drawn.mean[2].item() == pytest.approx(-0.75, abs=4 * drawn.std_error.mean[2].item())
    assert closed.mean[2].item() == pytest.approx(-0.75, abs=0.02)
    assert drawn.total[2].item() == pytest.approx(3 / 16, abs=4 * drawn.std_error.total[2].item())


def largest_left(model, graph):
    """Mean and variance of EdgeConv over all that coins may show, written out."""
    chance = CHANCE[::2].tolist()
    found = []
    for shown in itertools.product([False, True], repeat=4):
        out = torch.zeros(4, 2).double()
        for node in range(4):
            sent = [
                model.nn(torch.cat([graph.x[v], graph.x[u] - graph.x[v]]))
                for (u, v), up in zip(LINKS.t().tolist(), [s for s in shown for _ in "ab"],
                                      strict=True)
                if v == node and up
            ]  # fmt: skip
            if sent:
                out[node] = torch.stack(sent).amax(0)
        weight = 1.0
        for up, p in zip(shown, chance, strict=True):
            weight *= p if up else 1 - p
        found.append((out.detach(), weight))
    mean = sum(weight * out for out, weight in found)
    return mean, sum(weight * (out - mean) ** 2 for out, weight in found)


def test_edge_convolutions_take_the_largest_of_those_that_are_sent():
    graph, model = ring(), seeded(lambda: gnn.EdgeConv(nn.Linear(6, 2)))
    nn.init.constant_(model.nn.bias, -20.0)  # all messages are far below 0
    mean, var = largest_left(model, graph)
    pred = sampled(model, graph)
    assert bool(((pred.mean - mean).abs() <= ERRORS * pred.std_error.mean + 1e-12).all())
    assert bool(((pred.total - var).abs() <= ERRORS * pred.std_error.total + 1e-12).all())


@pytest.mark.parametrize("aggr", ["std", "var", "softmax", "median", "mul", ["mean", "max"]])
def test_what_coins_cannot_silence_is_refused_with_what_can_be_done(aggr):
    graph, model = ring(), seeded(lambda: gnn.SAGEConv(3, 2, aggr=aggr))
    graph.edge_prob = torch.where(torch.arange(8) < 2, CHANCE, 1.0)  # some neighbour stays
    with pytest.raises(ModelError, match="does not add its messages up") as caught:
        sampled(model, graph)
    assert 'links="removed"' in caught.value.remedy
    assert float(sampled(model, graph, links="removed").total.max()) > 0
    with pytest.raises(ModelError, match="does not add its messages up"):
        vg.attribute(model, graph, 0, task="regression", output=0, links="bernoulli")


def test_slopes_of_a_maximum_by_coins_are_refused():
    with pytest.raises(ModelError, match="does not add its messages up"):
        vg.attribute(copying("max"), negative(0.5), 2, task="regression", links="bernoulli")


class OwnSum(gnn.MessagePassing):
    """Adds its messages up in code of its own."""

    def __init__(self):
        super().__init__(aggr="max")
        self.lin = nn.Linear(3, 2)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x))

    def aggregate(self, inputs, index, dim_size=None):
        return inputs.new_zeros(dim_size, 2).index_add(0, index, inputs)


def test_what_adds_up_is_found_by_its_numbers_not_by_its_name():
    graph, layer = ring(), seeded(OwnSum)
    both = seeded(lambda: gnn.SAGEConv(3, 2, aggr=["sum", "mean"]))
    assert float(sampled(both, graph).total.max()) > 0
    plain = gnn.SimpleConv("sum")
    sent = layer.lin(graph.x).detach()
    own, known = sampled(layer, graph), sampled(plain, graph, forward=lambda m, x, d: m(
        layer.lin(x), d.edge_index))  # fmt: skip
    torch.testing.assert_close(own.mean, known.mean)
    torch.testing.assert_close(own.total, known.total)
    exact = sum(
        p * (1 - p) * sent[u] ** 2
        for (u, v), p in zip(LINKS.t().tolist(), CHANCE.tolist(), strict=True)
        if v == 0
    )
    assert bool(((own.total[0] - exact).abs() <= ERRORS * own.std_error.total[0]).all())


# ---- a coin decides about the link that it is of ----


class Pooling(nn.Module):
    def __init__(self, pool):
        super().__init__()
        self.first, self.pool, self.second = gnn.GCNConv(3, 4), pool, gnn.GCNConv(4, 2)

    def forward(self, x, edge_index):
        x = self.first(x, edge_index).relu()
        batch = torch.zeros(len(x), dtype=torch.long)
        x, edge_index = self.pool(x, edge_index, batch=batch)[:2]
        return self.second(x, edge_index)


POOLS = {
    "top k": lambda: gnn.TopKPooling(4, 0.5),
    "attention": lambda: gnn.SAGPooling(4, 0.5),
    "edges": lambda: gnn.EdgePooling(4),
}


@pytest.mark.parametrize("reading", ["bernoulli", "weight"])
@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_nodes_that_were_numbered_anew_are_refused(pool, reading):
    graph, model = ring(), seeded(lambda: Pooling(pool()))
    with pytest.raises(ModelError, match=r"layer second works on \d nodes") as caught:
        sampled(model, graph, links=reading)
    assert 'links="removed"' in caught.value.remedy


def test_links_that_are_certain_get_no_variance():
    """The coin of 0 - 1 is none of the pooled nodes 0 and 1: they are 2 and 3."""

    class Second(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = gnn.SAGEConv(3, 2)

        def forward(self, x, edge_index):
            kept = (edge_index >= 2).all(0)
            return self.conv(x[2:], edge_index[:, kept] - 2)

    graph = ring()
    graph.edge_prob = torch.tensor([0.5, 0.5, 1, 1, 1, 1, 1, 1]).double()
    model = seeded(Second)
    with pytest.raises(ModelError, match="works on 2 nodes"):
        sampled(model, graph)
    assert float(sampled(model, graph, links="removed").total.max()) == 0


class Shuffled(nn.Module):
    """All nodes stay, in the order of a score: each link of a complete graph becomes another."""

    def __init__(self):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(3, 4), gnn.SAGEConv(4, 2)

    def forward(self, x, edge_index):
        x = self.first(x, edge_index).tanh()
        order = x[:, 0].argsort()
        number = torch.empty_like(order).scatter_(0, order, torch.arange(len(x)))
        return self.second(x[order], number[edge_index])[number]


def test_a_new_order_of_all_nodes_is_refused():
    graph = ring()
    graph.edge_index = (torch.ones(4, 4) - torch.eye(4)).nonzero().t()
    shuffle = torch.randperm(12, generator=torch.Generator().manual_seed(2))
    graph.edge_index = graph.edge_index[:, shuffle]
    graph.edge_prob = torch.linspace(0.5, 1, 12).double()
    with pytest.raises(ModelError, match="in another order from run to run") as caught:
        sampled(seeded(Shuffled), graph)
    assert 'links="removed"' in caught.value.remedy


CHANGES = {
    "sorted by source": sort_edge_index,
    "sorted by target": lambda links: sort_edge_index(links, sort_by_row=False),
    "some left out": lambda links: links[:, links[0] != 2],
    "turned around": lambda links: links.flip(0),
    "with loops": lambda links: torch.cat([links, torch.arange(4).expand(2, 4)], 1),
    "as they are": lambda links: links.clone(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_links_in_another_order_are_still_known(change):
    graph, model = ring(), seeded(lambda: gnn.GraphConv(3, 2))
    shuffle = torch.randperm(8, generator=torch.Generator().manual_seed(2))
    graph.edge_index, graph.edge_prob = LINKS[:, shuffle], CHANCE[shuffle]
    found = sampled(model, graph, forward=lambda m, x, data: m(x, change(data.edge_index)))
    weight = model.lin_rel.weight.detach()
    links = change(graph.edge_index)
    for node in range(4):
        want = 0
        for u, v in links.t().tolist():
            if v == node and u != v:
                p = float(CHANCE[((LINKS[0] == u) & (LINKS[1] == v)).nonzero()[0, 0]])
                want = want + p * (1 - p) * (graph.x[u] @ weight.T) ** 2
        error = ERRORS * found.std_error.total[node] + 1e-12
        assert bool(((found.total[node] - want).abs() <= error).all())
