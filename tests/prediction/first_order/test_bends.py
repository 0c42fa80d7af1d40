"""The second order of the logits against Hessians of the unmodified model, and brute force."""

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F

from prediction.first_order.test_method import Two
from prediction.networks import made, ring
from varigraph.prediction.first_order import noise_root
from varigraph.prediction.first_order.method import FirstOrder
from varigraph.prediction.first_order.noise_root import from_bends, to_features
from varigraph.prediction.predict import ask

#: Noise so small that averaged slopes and bends are plain derivatives.
SMALL = 1e-6
NOISE = {
    "number": torch.tensor(SMALL).double(),
    "by node": SMALL * torch.arange(6)[:, None].double() / 5,
    "by feature": SMALL * torch.arange(1, 4).double(),
}


class Jumping(nn.Module):
    """All layers side by side in front of dense ones."""

    def __init__(self):
        super().__init__()
        self.first, self.second = gnn.SAGEConv(3, 4), gnn.GCNConv(4, 5)
        self.jump, self.head = gnn.JumpingKnowledge("cat"), gnn.MLP([9, 5, 2], norm=None, act="elu")

    def forward(self, x, edge_index):
        first = self.first(x, edge_index).tanh()
        second = F.softplus(self.second(first, edge_index))
        return self.head(self.jump([first, second]))


class Residual(nn.Module):
    """The features themselves beside what is made of them, and one value on two ways."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = gnn.SAGEConv(3, 3), gnn.GCNConv(3, 3), nn.Linear(6, 2)

    def forward(self, x, edge_index):
        hidden = x + self.first(x, edge_index).tanh()
        hidden = hidden - 0.5 * self.second(hidden, edge_index).sigmoid()
        return self.head(torch.cat([x, hidden], dim=1))


def dense(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, outputs))


NETWORKS = {
    "sage": lambda: Two(gnn.SAGEConv(3, 4), gnn.SAGEConv(4, 2), torch.tanh),
    "gcn": lambda: Two(gnn.GCNConv(3, 4), gnn.GCNConv(4, 2), F.softplus),
    "three gcn": lambda: gnn.GCN(3, 4, 3, 2, act="tanh"),
    "gin": lambda: Two(gnn.GINConv(dense(3, 4)), gnn.GINConv(dense(4, 2), eps=0.2), F.softplus),
    "sgc": lambda: Two(gnn.SGConv(3, 4, K=2), gnn.SGConv(4, 2, K=2), torch.tanh),
    "jumping": Jumping,
    "residual": Residual,
}


def graph(noise):
    """A ring of six nodes with a chord."""
    graph = ring(6, 3)
    graph.edge_index = torch.cat([graph.edge_index, torch.tensor([[0, 3], [3, 0]])], 1)
    graph.x_var = noise
    return graph


def network(model, data, **options):
    question = ask(model, data, sources=("features",), samples=0, **options)
    with torch.no_grad():
        return FirstOrder.of(question)


@torch.no_grad()
def logits_of(model, data):
    (logits,) = network(model, data).blocks()
    return logits


@torch.no_grad()
def bends_of(found, rows):
    responses = found.responses(rows, found.wanted)
    noise = to_features(responses, found.root)
    return from_bends(found.whole.tape, responses, noise, found.root)


def derivatives(model, data):
    """Jacobian and Hessian of all outputs in all inputs, ``[nodes, classes, inputs(, inputs)]``."""
    run = lambda x: model(x, data.edge_index)  # noqa: E731
    jacobian, hessian = torch.func.jacrev(run)(data.x), torch.func.hessian(run)(data.x)
    inputs = data.x.numel()
    return (
        jacobian.detach().flatten(2),
        hessian.detach().reshape(*jacobian.shape[:2], inputs, inputs),
    )


def expected_bends(model, data):
    """K_abc = (J_b S) H_a (S J_c')."""
    jacobian, hessian = derivatives(model, data)
    seen = jacobian * data.x_var.expand_as(data.x).flatten()
    return torch.einsum("nbi,naij,ncj->nabc", seen, hessian, seen)


def assert_near(got, want, off):
    """As close as this share of the largest number."""
    assert got.shape == want.shape
    assert float(want.abs().max()) > 0
    assert float((got - want).abs().max() / want.abs().max()) < off


@pytest.fixture
def full_rank(monkeypatch):
    monkeypatch.setattr(noise_root, "LEFT_OUT", 0.0)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.usefixtures("full_rank")
def test_bends_are_hessians_between_jacobians(name, noise):
    model, data = made(NETWORKS[name]), graph(NOISE[noise])
    got = bends_of(network(model, data), torch.arange(6))
    assert_near(got, expected_bends(model, data), off=1e-5)
    assert torch.equal(got, got.mT)


@pytest.mark.usefixtures("full_rank")
def test_squares_bend_too():
    model = made(lambda: Two(gnn.GCNConv(3, 4), gnn.GCNConv(4, 2), torch.square))
    data = graph(NOISE["number"])
    got = bends_of(network(model, data), torch.arange(6))
    assert_near(got, expected_bends(model, data), off=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_low_rank_root_costs_little(name):
    """A thousandth of the variance is left out; of the bend that is some hundredths at most."""
    model, data = made(NETWORKS[name]), graph(NOISE["number"])
    got = bends_of(network(model, data), torch.arange(6))
    assert_near(got, expected_bends(model, data), off=0.03)


@pytest.mark.usefixtures("full_rank")
def test_bends_of_some_nodes_in_any_order():
    model, data = made(Jumping), graph(NOISE["by node"])
    found = network(model, data)
    whole, rows = bends_of(found, torch.arange(6)), torch.tensor([4, 1, 3])
    assert torch.allclose(bends_of(found, rows), whole[rows], rtol=1e-9, atol=1e-30)


@pytest.mark.parametrize("build", [lambda: gnn.SGConv(3, 2, K=2), NETWORKS["sage"]])
def test_a_network_has_a_bend_where_it_is_not_linear(build):
    model = made(build)
    found = logits_of(model, graph(NOISE["number"]))
    assert (found.bent is None) == isinstance(model, gnn.SGConv)


@pytest.mark.usefixtures("full_rank")
def test_the_bend_is_part_of_the_share_of_the_features():
    """Straight: J S J'. Bent: half the square of K with the root of that taken off."""
    model, data = made(NETWORKS["sage"]), graph(NOISE["number"])
    found = logits_of(model, data)
    jacobian, _ = derivatives(model, data)
    straight, bend = SMALL * jacobian @ jacobian.mT, expected_bends(model, data)
    inverse = torch.linalg.inv(torch.linalg.cholesky(straight))
    white = torch.einsum("nbi,naij,ncj->nabc", inverse, bend, inverse)
    square = torch.einsum("nabc,ndbc->nad", white, white) / 2
    assert_near(found.bent.covariance, square, off=1e-4)
    assert_near(found.shares["features"] - found.bent.covariance, straight, off=1e-5)


# ---- noise of a size that matters ----

DRAWS = 20_000


def brute_force(model, data):
    """Draws of the logits, ``[draws, nodes, classes]``, from the model as it is."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWS, *data.x.shape, generator=generator).double()
    with torch.no_grad():
        return model(data.x + data.x_var.sqrt() * noise, data.edge_index)


@pytest.mark.parametrize("noise", [0.3, 1.0])
@pytest.mark.parametrize("kind", [gnn.SAGEConv, gnn.GCNConv])
def test_the_variance_is_nearer_to_brute_force_with_the_bend(kind, noise):
    data = graph(torch.tensor(noise).double())
    model = made(lambda: Two(kind(3, 8), kind(8, 2), F.relu), seed=3)
    drawn = brute_force(model, data)
    found = logits_of(model, data)
    with_bend = found.marginal.var
    without = with_bend - found.bent.covariance.diagonal(dim1=1, dim2=2)
    # A variance of this many draws is within one per cent, and the mean of twelve far nearer.
    off, off_without = ((var / drawn.var(0) - 1).mean().abs() for var in (with_bend, without))
    assert float(off) < float(off_without) - 0.01


def test_the_third_cumulant_is_that_of_brute_force():
    data = graph(torch.tensor(0.05).double())
    model = made(NETWORKS["gcn"], seed=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    drawn = brute_force(model, data)
    centred = drawn - drawn.mean(0)
    third = torch.einsum("dna,dnb,dnc->nabc", centred, centred, centred) / DRAWS
    bend = bends_of(network(model, data), torch.arange(6))
    got = bend + bend.permute(0, 2, 1, 3) + bend.permute(0, 2, 3, 1)
    slope = (got * third).sum() / third.square().sum()
    assert float(slope) == pytest.approx(1, abs=0.1)
