"""Shortcuts of linear maps and sums give what the long way gives."""

import pytest
import torch
from torch_geometric.nn import SAGEConv

from varigraph.moments import Gaussian, running
from varigraph.moments.layers import linear

NODES = 9


def links():
    generator = torch.Generator().manual_seed(3)
    return torch.randint(NODES, (2, 30), generator=generator)


VARIANCES = {
    "a number": lambda width: torch.full((1, 1), 0.3).double(),
    "one per feature": lambda width: torch.rand(1, width).double(),
    "one per node": lambda width: torch.rand(NODES, 1).double(),
}


@pytest.mark.parametrize("kind", VARIANCES)
def test_a_shared_variance_is_mapped_as_if_written_out(kind):
    torch.manual_seed(0)
    mean, weight = torch.randn(NODES, 5).double(), torch.randn(4, 5).double()
    shared = VARIANCES[kind](5).expand(NODES, 5)
    short, long = (linear(Gaussian(mean, var), weight) for var in (shared, shared.contiguous()))
    want = (weight.square()[None] * shared[:, None]).sum(2)
    assert torch.allclose(short.var, want)
    assert torch.allclose(long.var, want)
    assert torch.equal(short.mean, long.mean)


@pytest.mark.parametrize("kind", VARIANCES)
@pytest.mark.parametrize("width", [2, 40], ids=["narrowing", "widening"])
@pytest.mark.parametrize("aggr", ["mean", "sum"])
def test_a_layer_by_loops(kind, width, aggr):
    torch.manual_seed(0)
    layer, mean = SAGEConv(5, width, aggr=aggr).double(), torch.randn(NODES, 5).double()
    var = VARIANCES[kind](5).expand(NODES, 5)
    edges = torch.unique(links(), dim=1)
    edges = edges[:, edges[0] != edges[1]]
    with running(layer, by_rules=True), torch.no_grad():
        found = layer(Gaussian(mean, var), edges)
    for node in range(NODES):
        senders = edges[0][edges[1] == node]
        share = 1 / max(len(senders), 1) if aggr == "mean" else 1.0
        noise = share**2 * var[senders].sum(0)
        want = layer.lin_r.weight.square() @ var[node] + layer.lin_l.weight.square() @ noise
        assert torch.allclose(found.var[node], want)
    assert torch.allclose(found.mean, layer(mean, edges))
