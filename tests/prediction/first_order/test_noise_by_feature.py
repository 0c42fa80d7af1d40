"""Noise of every feature of every node in closed form: against Jacobians, products and draws."""

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F

import varigraph as vg
from prediction.networks import made, ring
from varigraph.errors import TooLargeError
from varigraph.moments import input_noise
from varigraph.prediction import memory
from varigraph.prediction.first_order import carried_noise


def uneven(nodes=6, scale=1.0, **kwargs):
    """A ring whose instruments differ: every reading has a variance of its own, some have none."""
    graph = ring(nodes, **kwargs)
    draw = torch.Generator().manual_seed(3)
    var = torch.rand(graph.x.shape, generator=draw).to(graph.x)
    graph.x_var = scale * torch.where(var < 0.2, 0, var)
    return graph


class Two(nn.Module):
    def __init__(self, first, second, act=F.relu, rate=0.0):
        super().__init__()
        self.first, self.second, self.act, self.rate = first, second, act, rate

    def forward(self, x, edge_index):
        x = self.act(self.first(x, edge_index))
        return self.second(F.dropout(x, self.rate, self.training), edge_index)


def straight(x):
    return x


LINEAR = {
    "SAGE": lambda: Two(gnn.SAGEConv(4, 5), gnn.SAGEConv(5, 3), straight),
    "GCN": lambda: Two(gnn.GCNConv(4, 5), gnn.GCNConv(5, 3), straight),
    "GIN": lambda: Two(gnn.GINConv(nn.Linear(4, 5)), gnn.GraphConv(5, 3), straight),
    "SGC": lambda: gnn.SGConv(4, 3, K=3),
}
BENT = {
    "SAGE": lambda: Two(gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3)),
    "GCN": lambda: Two(gnn.GCNConv(4, 8), gnn.GCNConv(8, 3), torch.tanh),
    "dropout": lambda: Two(gnn.SAGEConv(4, 8), gnn.GCNConv(8, 3), rate=0.3),
}


@pytest.mark.parametrize("make", LINEAR.values(), ids=LINEAR)
def test_linear_networks_have_the_variance_of_their_jacobian(make):
    graph, model = uneven(), made(make)
    jacobian = torch.autograd.functional.jacobian(lambda x: model(x, graph.edge_index), graph.x)
    want = (jacobian.square() * graph.x_var).sum((2, 3))
    got = vg.predict(model, graph, task="regression", method="first-order", samples=0)
    assert torch.allclose(got.total, want, rtol=1e-10)
    assert got.by_source["features"] is not None


@pytest.mark.parametrize("links", [None, "bernoulli", "removed"])
@pytest.mark.parametrize("make", BENT.values(), ids=BENT)
def test_a_product_written_out_has_the_answer_of_the_product(make, links, monkeypatch):
    """The same noise by the two ways: a narrow root, and one whose columns are the features."""
    graph, model = ring(), made(make)
    node, feature = torch.linspace(0.1, 1, 6).double(), torch.tensor([0.5, 0.0, 2.0, 1.0]).double()
    graph.x_var = torch.outer(node, feature)
    options = {"samples": 100 if model.rate else 0}
    if links is not None:
        graph.edge_prob = torch.linspace(0.6, 1, 6).double().repeat(2)
        options["links"] = links
    product = vg.predict(model, graph, method="first-order", **options)
    monkeypatch.setattr(input_noise, "by_node_and_feature", lambda var: None)
    written_out = vg.predict(model, graph, method="first-order", **options)
    assert torch.allclose(product.mean, written_out.mean, rtol=1e-6)
    assert torch.allclose(product.logits.var, written_out.logits.var, rtol=1e-8)
    for part, var in product.by_source.items():
        assert torch.allclose(var, written_out.by_source[part], rtol=1e-4, atol=1e-9), part


@pytest.mark.parametrize("layer", [gnn.SAGEConv, gnn.GCNConv])
def test_it_agrees_with_plain_draws(layer):
    """A smooth network under small noise, of which closed forms are right node by node."""
    graph, draws = uneven(scale=0.05), 20_000
    model = made(lambda: Two(layer(4, 8), layer(8, 3), torch.tanh))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        noise = torch.randn(draws, *graph.x.shape, generator=generator).double()
        x = graph.x + graph.x_var.sqrt() * noise
        drawn = torch.stack([model(each, graph.edge_index) for each in x])
    got = vg.predict(model, graph, samples=0)
    assert got.method.startswith("first-order")
    assert torch.allclose(got.logits.var, drawn.var(0), rtol=0.06)
    assert torch.allclose(got.total, drawn.softmax(-1).var(0), rtol=0.08)


def test_noise_lost_with_links_is_that_of_each_message():
    """One sum over coins: Var[b m] by hand, with a variance of its own in every message."""
    graph, model = uneven(), made(lambda: gnn.GraphConv(4, 3))
    graph.edge_prob = torch.full((12,), 0.7).double()
    got = vg.predict(
        model, graph, task="regression", method="first-order", links="bernoulli", samples=0
    )
    source, target = graph.edge_index
    weight = model.lin_rel.weight.detach()
    lost = 0.7 * 0.3 * (graph.x_var[source] @ weight.square().T)  # of each message
    want = torch.zeros(6, 3).double().index_add_(0, target, lost)
    assert torch.allclose(got.by_source["interactions"], want, rtol=1e-10)


def test_the_answer_does_not_depend_on_the_blocks(monkeypatch):
    graph, model = uneven(40), made(BENT["SAGE"])
    graph.edge_prob = torch.full((80,), 0.8).double()
    options = {"method": "first-order", "links": "bernoulli", "samples": 0}
    whole = vg.predict(model, graph, **options)
    monkeypatch.setattr(memory, "AT_ONCE", {"cpu": 1})
    pieces = vg.predict(model, graph, **options)
    for part, var in whole.by_source.items():
        assert torch.allclose(var, pieces.by_source[part], rtol=1e-6), part


def test_what_does_not_fit_is_refused():
    graph, model = (
        uneven(40_000, features=120, dtype=torch.float32),
        made(lambda: Two(gnn.SAGEConv(120, 4), gnn.SAGEConv(4, 3)), torch.float32),
    )
    options = {"memory": "48MiB", "samples": 0, "nodes": [0]}
    with pytest.raises(TooLargeError, match="differs by node and by feature"):
        vg.predict(model, graph, method="first-order", **options)


def test_carried_noise_between_maps_is_that_of_its_covariance():
    draw = torch.Generator().manual_seed(0)
    noise, left, right = (torch.rand(s, generator=draw).double() for s in ((5, 4), (3, 4), (3, 4)))
    pairs = carried_noise.Cotangents.identity(torch.arange(5), 5, noise, 3)
    source = carried_noise.CarriedNoise([(noise, left, right)], torch.zeros(5, 3).double())
    want = torch.einsum("ak,uk,bk->uab", left, noise, right)
    assert torch.allclose(source.seen(pairs), want)
