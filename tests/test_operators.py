"""An operator that is written here alone reaches every method, against enumeration."""

import itertools
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch_geometric import nn as gnn
from torch_geometric.data import Data

import varigraph as vg
from varigraph import rules
from varigraph.moments.registry import LAYERS

# ---- the operator: features in reverse order ----

#: Links here are coins that silence messages.
predict = partial(vg.predict, links="bernoulli")
attribute = partial(vg.attribute, links="bernoulli")


class Reversed(nn.Module):
    """A layer that nobody has a rule for."""

    def forward(self, x):
        return x.flip(1)


@dataclass(frozen=True, eq=False)
class Reverse(rules.Operator):
    """What it does to responses, covariances and tangents."""

    def back(self, pairs, width):
        return pairs.with_values(pairs.values.flip(-1))

    def forward(self, before, pairs, width):
        return before.at(pairs).values.flip(-1)

    def push(self, tangents, nodes, width):
        return tangents.flip(-1)

    def blocks(self, block, mean, width, out):
        return block.flip(list(range(1, block.dim())))


def reversed_rule(layer, x):
    return rules.recorded(vg.Gaussian(x.mean.flip(1), x.var.flip(1)), (x, Reverse()))


# ---- and what it must do ----


@pytest.fixture(autouse=True)
def registered():
    with patch.dict(LAYERS):
        rules.implements(Reversed, exactness="exact")(reversed_rule)
        yield


class Network(nn.Module):
    """Linear throughout, so that the variance of signs is that of a Gaussian."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.turn = gnn.GraphConv(2, 3).double(), Reversed()
        self.second = gnn.SAGEConv(3, 2).double()

    def forward(self, x, edge_index, edge_weight=None):
        x = self.turn(self.first(x, edge_index, edge_weight))
        return self.second(x, edge_index)


class Turned(nn.Module):
    """One sum, before and after which features are turned."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.turn, self.sum = Reversed(), gnn.GraphConv(2, 2).double()

    def forward(self, x, edge_index):
        return self.turn(self.sum(self.turn(x), edge_index))


def graph():
    random = torch.Generator().manual_seed(0)
    path = torch.tensor([[0, 1], [1, 2]])
    return Data(
        x=torch.randn(3, 2, generator=random).double(),
        edge_index=torch.cat([path, path.flip(0)], 1),
        x_var=torch.rand(3, 1, generator=random).double(),
    )


def enumerated(model, data):
    """Variance over all signs of ± the standard deviation, each as likely as the others."""
    signs = itertools.product((-1.0, 1.0), repeat=data.x.numel())
    shifts = (torch.tensor(s).double().view_as(data.x) * data.x_var.sqrt() for s in signs)
    with torch.no_grad():
        runs = torch.stack([model(data.x + shift, data.edge_index) for shift in shifts])
    return runs.var(0, correction=0)


@pytest.mark.parametrize("method", ["auto", "first-order"])
def test_walks(method):
    data, model = graph(), Network()
    pred = predict(model, data, method=method, task="regression", samples=0)
    assert pred.method.startswith("first-order")
    assert torch.allclose(pred.total, enumerated(model, data))


@pytest.mark.parametrize("method", ["first-order", "covariance", "diagonal"])
def test_one_sum(method):
    """No number is used twice: all closed forms are exact."""
    data, model = graph(), Turned()
    pred = predict(model, data, method=method, task="regression", samples=0)
    assert torch.allclose(pred.total, enumerated(model, data))


def test_draws():
    data, model = graph(), Network()
    pred = predict(model, data, method="sampled", task="regression", samples=4000)
    off = (pred.total - enumerated(model, data)) / pred.std_error.total
    assert float(off.abs().max()) < 5


@pytest.mark.parametrize("node", range(3))
def test_attribution(node):
    data, model = graph(), Network()
    blame = attribute(model, data, node, output=0, task="regression")
    assert blame.variance == pytest.approx(float(enumerated(model, data)[node, 0]))


def test_coins():
    """Walks over one link and back go through the operator as well."""
    data, model = graph(), Turned()
    data.x_var, data.edge_prob = 0.0, torch.tensor([0.3, 0.8] * 2).double()
    outcomes, chances = [], []
    for kept in itertools.product((0.0, 1.0), repeat=2):
        weight = torch.tensor(kept * 2).double()
        with torch.no_grad():
            sums = model.sum(data.x.flip(1), data.edge_index, weight)
        outcomes.append(sums.flip(1))
        chances.append([p if k else 1 - p for k, p in zip(kept, (0.3, 0.8), strict=True)])
    drawn, weight = torch.stack(outcomes), torch.tensor(chances).double().prod(1)[:, None, None]
    mean = (weight * drawn).sum(0)
    pred = predict(model, data, method="first-order", task="regression", samples=0)
    assert torch.allclose(pred.mean, mean)
    assert torch.allclose(pred.total, (weight * (drawn - mean) ** 2).sum(0))
