"""Moments for training against Jacobians, and their gradients against finite differences."""

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from varigraph.errors import ModelError
from varigraph.training.batch import Batch
from varigraph.training.lesson import cost_of_noise
from varigraph.training.propagated import PropagatedLogits, check_propagable

NODES, FEATURES, CLASSES = 9, 4, 3


class Network(nn.Module):
    def __init__(self, layer, activation, dropout):
        super().__init__()
        self.first, self.second = layer(FEATURES, 5), layer(5, CLASSES)
        self.activation, self.dropout = activation, dropout

    def forward(self, x, edge_index):
        x = self.activation(self.first(x, edge_index))
        return self.second(F.dropout(x, self.dropout, self.training), edge_index)


def made(layer=gnn.SAGEConv, activation=torch.tanh, dropout=0.0):
    torch.manual_seed(1)
    return Network(layer, activation, dropout).double()


def batch(var, prob=None):
    draw = torch.Generator().manual_seed(2)
    x = torch.randn(NODES, FEATURES, generator=draw, dtype=torch.float64)
    links = torch.randint(NODES, (2, 24), generator=draw).unique(dim=1)
    links = links[:, links[0] != links[1]]
    var = torch.tensor(var, dtype=torch.float64).expand_as(x)
    return Batch(x, var, links, None if prob is None else torch.full_like(x[:, 0], prob)[links[0]])


def from_jacobian(model, of):
    """J Σ J' of every node, one derivative at a time, messages weighted by hand."""
    model.eval()
    slopes = torch.autograd.functional.jacobian(lambda x: of.logits(model, x), of.x)
    flat = slopes.flatten(2)  # [nodes, classes, inputs]
    return (flat * of.var.flatten()) @ flat.mT


@pytest.mark.parametrize("prob", [None, 0.7])
@pytest.mark.parametrize("layer", [gnn.SAGEConv, gnn.GCNConv])
@pytest.mark.parametrize("activation", [nn.Identity(), torch.tanh])
def test_covariance_is_that_of_the_jacobian_for_little_noise(layer, activation, prob):
    model, of = made(layer, activation), batch(1e-8, prob)
    found = PropagatedLogits(model, of).moments(torch.arange(NODES))
    assert_close(found.covariance, from_jacobian(model, of), rtol=1e-4, atol=1e-14)
    assert_close(found.mean, of.logits(model.eval(), of.x), rtol=1e-5, atol=1e-6)


def test_dropout_of_a_linear_network_is_that_of_all_its_masks():
    model, of = made(activation=nn.Identity(), dropout=0.3), batch(0.0)
    found = PropagatedLogits(model, of).moments(torch.arange(NODES))
    model.train()
    torch.manual_seed(0)
    draws = model(of.x.expand(20_000, -1, -1), of.edge_index).detach()
    assert_close(found.covariance.diagonal(dim1=1, dim2=2), draws.var(0), rtol=0.06, atol=1e-6)


@pytest.mark.parametrize("activation", [nn.Identity(), torch.relu, torch.tanh])
def test_gradients_are_those_of_finite_differences(activation):
    model, of = made(activation=activation, dropout=0.2), batch(0.05)
    rows = torch.arange(NODES)

    def loss():
        found = PropagatedLogits(model, of).moments(rows)
        return found.mean[:, 0].logsumexp(0) + cost_of_noise(found.mean, found.covariance)

    model.zero_grad()
    loss().backward()
    for weight in model.parameters():
        flat, slope, step = weight.data.view(-1), weight.grad.view(-1), 1e-5
        for place in range(0, len(flat), 7):
            old = flat[place].item()
            flat[place] = old + step
            above = loss().item()
            flat[place] = old - step
            below = loss().item()
            flat[place] = old
            assert slope[place].item() == pytest.approx((above - below) / (2 * step), abs=2e-6)


def test_rows_are_answered_in_their_order():
    model, of = made(), batch(0.1)
    whole = PropagatedLogits(model, of).moments(torch.arange(NODES)).covariance
    some = PropagatedLogits(model, of).moments(torch.tensor([5, 2]))
    assert_close(some.covariance, whole[[5, 2]])
    assert some.rows.tolist() == [5, 2]


def test_batch_norm_is_refused_by_name():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    with pytest.raises(ModelError, match=r"layer 1 \(BatchNorm1d\)") as raised:
        check_propagable(model)
    assert "inject" in raised.value.remedy
