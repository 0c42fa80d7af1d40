"""Brute force against variances that a pencil gives."""

import ast
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

from campaign import brute_force

DRAWS = 4000
BOTH_WAYS = torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]])


def drawn(model, data, **what):
    what = {"var": torch.zeros_like(data.x), "coins": False, "masks": False, **what}
    return brute_force.outputs(
        model, data, draws=DRAWS, forward=lambda net, x, graph: net(x, graph.edge_index), **what
    )


def summing():
    """A layer that adds up the messages of all neighbours as they are."""
    layer = SAGEConv(1, 1, aggr="sum", root_weight=False, bias=False)
    torch.nn.init.ones_(layer.lin_l.weight)
    return layer


@pytest.mark.parametrize("side_by_side", [True, False])
def test_noise_adds_up_over_neighbours(side_by_side):
    data = Data(x=torch.ones(3, 1), edge_index=BOTH_WAYS)
    var = torch.tensor([[0.1], [0.2], [0.4]])
    found = drawn(summing(), data, var=var, side_by_side=side_by_side).var(0)
    assert torch.allclose(found, torch.tensor([[0.6], [0.1], [0.1]]), rtol=0.1)


def test_a_coin_silences_a_message():
    data = Data(x=torch.tensor([[1.0], [2.0], [3.0]]), edge_index=BOTH_WAYS)
    data.edge_prob = torch.tensor([0.5, 0.5, 0.9, 0.9])
    found = drawn(summing(), data, coins=True)
    expected = torch.tensor([[0.25 * 4 + 0.09 * 9], [0.25], [0.09]])
    assert torch.allclose(found.var(0), expected, rtol=0.1)
    together = torch.corrcoef(torch.stack([found[:, 0, 0], found[:, 1, 0]]))[0, 1]
    assert together > 0.5  # one coin for both directions


def test_a_coin_takes_a_link_away():
    data = Data(x=torch.tensor([[1.0], [2.0], [3.0]]), edge_index=BOTH_WAYS)
    data.edge_prob = torch.tensor([0.5, 0.5, 1.0, 1.0])
    mean = SAGEConv(1, 1, root_weight=False, bias=False)
    torch.nn.init.ones_(mean.lin_l.weight)
    found = drawn(mean, data, coins=True, removed=True)[:, 0, 0]
    assert set(found.tolist()) == {2.5, 3.0}  # of two neighbours, or of the one that is left


def test_the_largest_is_that_of_those_that_are_sent():
    data = Data(x=-torch.ones(3, 1), edge_index=BOTH_WAYS)
    data.edge_prob = torch.tensor([0.5, 0.5, 1.0, 1.0])
    largest = SAGEConv(1, 1, aggr="max", root_weight=False, bias=False)
    torch.nn.init.ones_(largest.lin_l.weight)
    found = drawn(largest, data, coins=True)
    assert set(found[:, 0, 0].tolist()) == {-1.0}
    assert set(found[:, 1, 0].tolist()) == {-1.0, 0.0}


def test_directions_with_different_chances_have_a_coin_each():
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    data.edge_prob = torch.tensor([0.5, 0.6])
    found = drawn(summing(), data, coins=True)
    assert torch.corrcoef(found[..., 0].T)[0, 1].abs() < 0.1


def test_what_is_divided_by_stays_and_added_loops_are_certain():
    layer = GCNConv(1, 1, bias=False)
    torch.nn.init.ones_(layer.lin.weight)
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1, 0], [1, 0, 0]]))
    data.edge_prob = torch.tensor([0.5, 0.5, 0.5])
    found = drawn(layer, data, coins=True)
    assert torch.allclose(found.mean(0), torch.full((2, 1), 0.75), atol=0.02)
    assert torch.allclose(found.var(0), torch.full((2, 1), 0.25 / 4), rtol=0.1)


def test_links_that_are_not_drawn_weigh_their_chances():
    data = Data(x=torch.ones(3, 1), edge_index=BOTH_WAYS, edge_prob=torch.full((4,), 0.5))
    found = drawn(summing(), data)
    assert torch.equal(found.mean(0), torch.tensor([[1.0], [0.5], [0.5]]))
    assert torch.equal(found.var(0), torch.zeros(3, 1))


def test_nothing_of_the_package_is_used():
    tree = ast.parse(Path(brute_force.__file__).read_text())
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    assert not [name for name in names if name.split(".")[0] in {"varigraph", "campaign"}]
