"""What a user writes a rule with reaches every closed form, and nothing internal is imported."""

from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

import varigraph as vg
from varigraph import rules
from varigraph.moments.registry import LAYERS


class Cubed(nn.Module):
    """A layer of a user's own, which nobody has a rule for."""

    def forward(self, x):
        return x**3 + x


class Total(MessagePassing):
    """Another one, which sends messages."""

    def __init__(self) -> None:
        super().__init__(aggr="sum")

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)


@pytest.fixture(autouse=True)
def registered():
    """The rules of a user, which are gone after the test."""
    with patch.dict(LAYERS):
        rules.implements(Cubed, exactness="exact", note="for a Gaussian input")(cubed)
        rules.implements(Total, exactness="exact for independent inputs")(total)
        yield


def cubed(layer, x):
    return _cube(x)


@rules.elementwise
def _cube(x):
    m, v = x.mean, x.var
    var = v * (1 + 3 * m**2) ** 2 + 6 * v**2 * (1 + 6 * m**2) + 15 * v**3
    return vg.Gaussian(m**3 + 3 * m * v + m, var)


def total(layer, x, edge_index):
    return rules.incoming(layer, x, edge_index).sum(x)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.total, self.cubed = Total(), Cubed()

    def forward(self, x, edge_index):
        return self.last(self.cubed(0.3 * self.total(self.first(x), edge_index)))


def graph():
    torch.manual_seed(1)
    links = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    return Data(x=torch.randn(4, 3), edge_index=links, x_var=0.005)


@pytest.mark.parametrize("method", ["auto", "first-order", "covariance", "diagonal"])
def test_rules_of_a_user_serve_every_closed_form(method):
    pred = vg.predict(Network(), graph(), method=method, task="regression", samples=0)
    assert pred.method.startswith("first-order" if method == "auto" else method)
    assert bool((pred.total > 0).all())


def test_first_order_by_rules_of_a_user_agrees_with_brute_force():
    closed = vg.predict(Network(), graph(), method="first-order", task="regression", samples=0)
    torch.manual_seed(2)
    model, data = Network().eval(), graph()
    noise = data.x_var**0.5 * torch.randn(20_000, *data.x.shape)
    with torch.no_grad():
        drawn = torch.stack([model(data.x + some, data.edge_index) for some in noise])
    torch.testing.assert_close(closed.mean, drawn.mean(0), rtol=0, atol=5e-3)
    torch.testing.assert_close(closed.total, drawn.var(0), rtol=0.05, atol=0)
