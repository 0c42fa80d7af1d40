"""What rules write over is theirs, and the pass must allow it."""

import pytest
import torch
from torch_geometric import nn as gnn

from varigraph.moments import Gaussian, Propagation, StandIn, propagating, running
from varigraph.moments.propagation import added


def test_a_spare_tensor_is_written_over_where_the_pass_allows_it():
    x = torch.ones(3, 2)
    with propagating(Propagation(overwrite=True)):
        assert added(x, torch.tensor([1.0, 2.0]), alpha=2, disposable=True) is x
    assert x.tolist() == [[3.0, 5.0]] * 3


@pytest.mark.parametrize(
    ("overwrite", "disposable", "x", "y"),
    [
        (False, True, torch.ones(3, 2), torch.ones(3, 2)),
        (True, False, torch.ones(3, 2), torch.ones(3, 2)),
        (True, True, torch.ones(1, 2).expand(3, 2), torch.ones(3, 2)),
        (True, True, torch.ones(1, 2), torch.ones(3, 2)),
    ],
    ids=["not allowed", "not disposable", "shared by all nodes", "too small"],
)
def test_everything_else_stays_as_it_is(overwrite, disposable, x, y):
    before = x.clone()
    with propagating(Propagation(overwrite=overwrite)):
        assert added(x, y, disposable=disposable).tolist() == [[2.0, 2.0]] * 3
    assert torch.equal(x, before)


@pytest.mark.parametrize(
    "layer",
    [
        gnn.SAGEConv(4, 3),
        gnn.SAGEConv(2, 5),
        gnn.GraphConv(4, 3),
        gnn.GCNConv(4, 3),
        gnn.SGConv(4, 3, K=2),
        gnn.Linear(4, 3),
    ],
    ids=repr,
)
@pytest.mark.parametrize("loops", [False, True])
def test_layers_give_the_same_and_leave_their_input_alone(layer, loops):
    torch.manual_seed(0)
    width = layer.in_channels
    edges = torch.tensor([[0, 1, 2, 3, 3, 4, 1], [1, 0, 3, 2, 4, 3, 1 if loops else 2]])
    x = Gaussian(torch.randn(5, width), torch.rand(5, width))
    before = x.mean.clone(), x.var.clone()
    inputs = (edges,) if isinstance(layer, gnn.MessagePassing) else ()
    found = []
    for overwrite in (False, True):
        with (
            torch.no_grad(),
            running(layer, by_rules=True),
            propagating(Propagation(overwrite=overwrite)),
        ):
            found.append(layer(StandIn(x), *inputs).value)
    torch.testing.assert_close(found[0].mean, found[1].mean)
    torch.testing.assert_close(found[0].var, found[1].var)
    assert torch.equal(x.mean, before[0])
    assert torch.equal(x.var, before[1])
