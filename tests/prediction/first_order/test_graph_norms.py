"""Norms over whole graphs: what they subtract and divide by responds, against the Jacobian."""

import pytest
import torch
from torch import nn
from torch_geometric import nn as gnn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import erdos_renyi_graph

import varigraph as vg
from varigraph.moments.graph_norms import MOST_NODES

WIDTH = 4
#: Small enough for a derivative to be all there is.
SMALL = 1e-10
NORMS = {
    "GraphNorm": lambda: gnn.GraphNorm(WIDTH),
    "LayerNorm": lambda: gnn.LayerNorm(WIDTH),
    "PairNorm": gnn.PairNorm,
    "PairNorm by node": lambda: gnn.PairNorm(2.0, scale_individually=True),
}
each_norm = pytest.mark.parametrize("norm", NORMS)


class Normed(nn.Module):
    """Two layers with a norm between them, for nodes or for whole graphs."""

    def __init__(self, norm, *, pooled=False):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = gnn.GCNConv(5, WIDTH), gnn.SAGEConv(WIDTH, 2)
        self.norm, self.pooled = norm, pooled
        for values in norm.parameters():
            values.data.uniform_(0.5, 1.5)

    def forward(self, x, edge_index, batch=None):
        h = self.norm(self.first(x, edge_index), batch).tanh()
        out = self.second(h, edge_index)
        return gnn.global_mean_pool(out, batch) if self.pooled else out


def random_graph(nodes, chance=0.4):
    return Data(x=torch.randn(nodes, 5), edge_index=erdos_renyi_graph(nodes, chance), x_var=SMALL)


def three_graphs():
    torch.manual_seed(1)
    return Batch.from_data_list([random_graph(nodes) for nodes in (6, 1, 4)])


def by_jacobian(model, data):  # [rows, outputs]
    others = (data.edge_index, data.get("batch"))
    matrix = torch.func.jacrev(lambda x: model(x, *others))(data.x)
    return SMALL * matrix.detach().square().sum((2, 3))


def predicted(model, data, method="first-order"):
    return vg.predict(model, data, task="regression", method=method, samples=0)


@each_norm
@pytest.mark.parametrize("pooled", [False, True])
def test_first_order_has_the_whole_derivative(norm, pooled):
    data, model = three_graphs(), Normed(NORMS[norm](), pooled=pooled).double().eval()
    data.x = data.x.double()
    pred = predicted(model, data)
    assert torch.allclose(pred.total, by_jacobian(model, data), rtol=1e-5, atol=1e-20)
    assert torch.allclose(pred.mean, model(data.x, data.edge_index, data.batch), atol=1e-6)
    assert pred.approximate == (norm.split()[0],)


@each_norm
def test_graphs_without_nodes_are_no_graphs_of_others(norm):
    """There are more numbers of graphs than nodes."""
    torch.manual_seed(5)
    data, model = random_graph(4, 0.0), Normed(NORMS[norm]()).double().eval()
    data.edge_index = torch.tensor([[0, 2, 1, 3], [2, 0, 3, 1]])
    data.x, data.batch = data.x.double(), torch.tensor([4, 0, 4, 0])
    found = predicted(model, data).total
    assert torch.allclose(found, by_jacobian(model, data), rtol=1e-5, atol=1e-20)


@each_norm
def test_one_graph_without_a_batch(norm):
    torch.manual_seed(2)
    data, model = random_graph(7), Normed(NORMS[norm]()).double().eval()
    data.x = data.x.double()
    assert torch.allclose(predicted(model, data).total, by_jacobian(model, data), rtol=1e-5, atol=0)


@each_norm
def test_statistics_of_large_graphs_are_certain(norm):
    """They are off by some parts in n; every node would be reached from every other."""
    torch.manual_seed(3)
    data, model = random_graph(MOST_NODES + 1, 0.01), Normed(NORMS[norm]()).double().eval()
    data.x = data.x.double()
    found, want = predicted(model, data).total, by_jacobian(model, data)
    assert not torch.allclose(found, want, rtol=1e-5, atol=0)
    assert float((found / want - 1).abs().median()) < 0.03


@each_norm
def test_first_layers_are_exact_for_covariances_of_nodes(norm):
    """A norm of the features themselves: nothing reaches a node by two ways."""
    torch.manual_seed(4)
    x, layer = torch.randn(5, WIDTH).double(), NORMS[norm]().double()
    data = Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long), x_var=SMALL)
    model = Alone(layer).double().eval()
    for method in ("first-order", "covariance", "diagonal"):
        found = predicted(model, data, method).total
        assert torch.allclose(found, by_jacobian(model, data), rtol=1e-5, atol=0), method


class Alone(nn.Module):
    """A norm, called as networks call it."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x, edge_index, batch=None):
        return self.norm(x, batch)
