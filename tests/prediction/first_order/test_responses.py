"""Cotangents on pairs of nodes against Jacobians of the rest of the model."""

import operator
from functools import reduce

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F

import varigraph as vg
from prediction.first_order.test_method import Two, uncertain
from prediction.networks import made, noisy_ring, ring
from varigraph.errors import MissingRuleError
from varigraph.prediction import memory
from varigraph.prediction.first_order.method import FirstOrder
from varigraph.prediction.first_order.responses import all_sums, sums_on_the_way, walk_back
from varigraph.prediction.linearised import linearised
from varigraph.prediction.predict import ask

PARTS = ("features", "links", "weights", "interactions")


class Staged(nn.Module):
    """A network in stages, so that the rest of it from any stage on is a function by itself."""

    def __init__(self, *stages):
        super().__init__()
        self.layers = nn.ModuleList([stage for stage in stages if isinstance(stage, nn.Module)])
        self.stages = stages

    def forward(self, x, edge_index, start=0, end=None):
        return reduce(lambda h, stage: step(stage, h, edge_index), self.stages[start:end], x)


def step(stage, h, edge_index):
    return stage(h, edge_index) if isinstance(stage, gnn.MessagePassing) else stage(h)


def doubled(h):
    return torch.cat([h, 0.5 * h - 1], dim=1)


def pooled(h):
    return gnn.global_add_pool(h, torch.tensor([0, 0, 0, 1, 1, 1]))


def norm():
    layer = nn.BatchNorm1d(5)
    layer.running_mean += torch.arange(5)
    layer.running_var += torch.arange(5)
    return layer


LINEAR = {
    "sage gcn": (lambda: gnn.SAGEConv(4, 5), lambda: gnn.GCNConv(5, 3)),
    "gin": (lambda: gnn.GINConv(nn.Linear(4, 5), eps=0.3), lambda: gnn.GraphConv(5, 3)),
    "dense": (lambda: nn.Linear(4, 5), lambda: gnn.SAGEConv(5, 4), lambda: nn.Linear(4, 3)),
    "columns": (lambda: gnn.GCNConv(4, 3), lambda: doubled, lambda: gnn.SAGEConv(6, 3)),
    "norm": (lambda: gnn.SAGEConv(4, 5), norm, lambda: nn.Linear(5, 3)),
    "pooled": (lambda: gnn.SAGEConv(4, 5), lambda: gnn.GCNConv(5, 3), lambda: pooled),
    "picked": (lambda: gnn.SAGEConv(4, 3), lambda: lambda h: h[[5, 0, 2, 0]]),
}
BENT = {
    "tanh": (lambda: gnn.SAGEConv(4, 5), lambda: torch.tanh, lambda: gnn.GCNConv(5, 3)),
    "four": (lambda: gnn.GCNConv(4, 5), lambda: F.softplus, lambda: doubled,
             lambda: gnn.SAGEConv(10, 4), lambda: torch.tanh, lambda: nn.Linear(4, 3)),
}  # fmt: skip
NETWORKS = {**LINEAR, **BENT}


def recorded(name):
    """A network, its graph without noise, and the record of one pass."""
    graph, model = ring(), made(lambda: Staged(*[build() for build in NETWORKS[name]]))
    with torch.no_grad():
        return model, graph, linearised(ask(model, graph, samples=0))


def written_out(pairs):  # [pairs, outputs, features] -> [rows, outputs, nodes, features]
    """The cotangents as one array; no pair may be listed twice."""
    assert len(pairs.keys.unique()) == len(pairs.keys)
    _, outputs, features = pairs.values.shape
    dense = torch.zeros(pairs.rows, pairs.nodes, outputs, features).double()
    dense[pairs.row, pairs.column] = pairs.values.detach()
    return dense.transpose(1, 2)


@pytest.mark.parametrize("name", NETWORKS)
def test_cotangents_are_jacobians_of_the_rest(name):
    model, graph, whole = recorded(name)
    rows = torch.tensor([1, 0]) if name == "pooled" else torch.tensor([3, 0, 2])
    for end in range(len(model.stages) + 1):
        here = model(graph.x, graph.edge_index, end=end).detach()
        value = last_with_mean(whole.tape, here)
        jacobian = torch.func.jacrev(lambda h, end=end: model(h, graph.edge_index, start=end))(here)
        found = walk_back(whole.tape, whole.output, rows, until={value.number})
        got = written_out(found.of[value.number])
        assert torch.allclose(got, jacobian.detach()[rows], rtol=1e-7, atol=1e-9), end


def last_with_mean(tape, mean):
    """The value of a stage is found by its mean, which no other value of its shape has."""
    values = [entry.value for entry in tape.entries if entry.value.mean.shape == mean.shape]
    return [value for value in values if torch.allclose(value.mean, mean)][-1]


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_on_the_boundary_leads_to_the_whole_jacobian(name):
    """Every walk to the features leaves the nonlinear part of the network exactly once."""
    model, graph, whole = recorded(name)
    nodes = len(whole.output.mean)
    found = walk_back(whole.tape, whole.output, torch.arange(nodes), until=set())
    total = 0
    for leaf, pairs in found.boundary:
        for path, term in leaf.maps.items():
            mapped = pairs.with_values(pairs.values @ term)
            total = total + written_out(leaf.noise.spread(mapped, path))
    jacobian = torch.func.jacrev(lambda x: model(x, graph.edge_index))(graph.x)
    assert torch.allclose(total, jacobian.detach(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_only_what_is_wanted_is_kept(name):
    _, _, whole = recorded(name)
    wanted = {entry.value.number for entry in whole.tape.entries[1::2]}
    rows = torch.arange(len(whole.output.mean))
    found = walk_back(whole.tape, whole.output, rows, until=wanted)
    assert set(found.of) == wanted
    assert wanted <= set(found.visited)
    for key, pairs in found.of.items():
        assert torch.equal(pairs.keys, found.visited[key].keys)
        assert found.visited[key].values.numel() == 0


def test_rows_do_not_depend_on_each_other():
    _, _, whole = recorded("four")
    wanted = {entry.value.number for entry in whole.tape.entries}
    together = walk_back(whole.tape, whole.output, torch.arange(6), until=wanted)
    for row in range(6):
        alone = walk_back(whole.tape, whole.output, torch.tensor([row]), until=wanted)
        for key, pairs in together.of.items():
            assert torch.allclose(written_out(alone.of[key])[0], written_out(pairs)[row])


def test_steps_without_a_response_are_named():
    class Chosen(nn.Module):
        def forward(self, x, edge_index):
            return x.t().contiguous()[:2].t()

    with torch.no_grad():
        whole = linearised(ask(Chosen(), ring(), samples=0, task="regression"))
    with pytest.raises(MissingRuleError, match="no first-order response") as caught:
        walk_back(whole.tape, whole.output, torch.arange(2), until=set())
    assert 'method="sampled"' in caught.value.remedy


def test_sums_on_the_longest_way():
    model = made(lambda: gnn.GCN(4, 5, 3, 3, jk="cat"))
    with torch.no_grad():
        whole = linearised(ask(model, ring(), samples=0))
    every = [links.expected for _, _, links in all_sums(whole.tape)]
    assert len(every) == 3
    chain = sums_on_the_way(whole.tape, whole.output)
    assert all(map(operator.is_, chain, reversed(every)))
    features = whole.tape.entries[0].value
    assert sums_on_the_way(whole.tape, features) == []


# ---- blocks of output nodes ----

IN_BLOCKS = {
    "relu": lambda: Two(gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3), F.relu, 0.3),
    "linear": lambda: Two(gnn.GCNConv(4, 8), gnn.SAGEConv(8, 3), None, 0.3),
    "jumping": lambda: gnn.GraphSAGE(4, 8, 3, 3, jk="cat", act="tanh", dropout=0.3),
}
#: Bytes of a block that hold few of their nodes.
LITTLE = 40_000


def large_ring():
    return uncertain(noisy_ring(nodes=30), 0.8)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("name", IN_BLOCKS)
def test_the_answer_does_not_depend_on_the_blocks(name, task, monkeypatch):
    options = {"method": "first-order", "task": task}
    whole = vg.predict(made(IN_BLOCKS[name]), large_ring(), **options)
    monkeypatch.setattr(memory, "AT_ONCE", {"cpu": LITTLE})
    pieces = vg.predict(made(IN_BLOCKS[name]), large_ring(), **options)
    assert torch.allclose(pieces.mean, whole.mean, rtol=1e-6)
    for part in PARTS:
        got, want = pieces.by_source[part], whole.by_source[part]
        assert torch.allclose(got, want, rtol=1e-6, atol=1e-9), part


@torch.no_grad()
@pytest.mark.parametrize("name", IN_BLOCKS)
def test_less_at_once_is_more_blocks(name, monkeypatch):
    question = ask(made(IN_BLOCKS[name]), large_ring())
    network = FirstOrder.of(question)
    assert len(list(network.blocks())) == 1
    monkeypatch.setattr(memory, "AT_ONCE", {"cpu": LITTLE})
    blocks = list(network.blocks())
    assert len(blocks) > 5
    assert sum(len(block.mean) for block in blocks) == 30
