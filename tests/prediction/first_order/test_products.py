"""Products of attention and values: against quadratic forms by torch's derivatives, and draws."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.data import Data
from torch_geometric.utils import softmax

import varigraph as vg
from varigraph.moments.attention import WithinGroups
from varigraph.moments.maximum import members
from varigraph.prediction.first_order import method

FEATURES, CLASSES, DRAWS = 5, 3, 20_000
LAYERS = {
    "GAT": (gnn.GATConv, "lin"),
    "GATv2": (gnn.GATv2Conv, "lin_l"),
    "Transformer": (gnn.TransformerConv, "lin_value"),
}
#: Neighbours that share neighbours, a hub, a node without links.
LINKS = torch.tensor(
    [[0, 1, 1, 2, 2, 0, 3, 4, 5, 6, 7, 0, 3], [1, 0, 2, 1, 0, 2, 0, 0, 0, 0, 0, 3, 4]]
)
NODES = 9


class Network(nn.Module):
    def __init__(self, name, scores=1.0):
        super().__init__()
        make, self.values = LAYERS[name]
        torch.manual_seed(3)
        self.first = make(FEATURES, 4, heads=2)
        self.second = make(8, CLASSES, heads=1, concat=False)
        with torch.no_grad():
            for part, parameter in self.second.named_parameters():
                if part.startswith(("att", "lin_key")):
                    parameter.mul_(scores)
        self.double().eval()

    def hidden(self, x, edge_index):
        return F.elu(self.first(x, edge_index))

    def forward(self, x, edge_index):
        return self.second(self.hidden(x, edge_index), edge_index)


def graph(var, seed=1):
    x = torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(seed)).double()
    return Data(x=x, edge_index=LINKS, x_var=torch.tensor(var, dtype=torch.float64))


def asked(network, data, **options):
    return vg.predict(network, data, method="first-order", samples=0, task="regression", **options)


def products_of(network, data, monkeypatch):
    """The covariance that is found for the last layer, and the prediction."""
    found, of = [], method.covariances

    def watched(*given):
        found.append(of(*given))
        return found[-1]

    monkeypatch.setattr(method, "covariances", watched)
    pred = asked(network, data)
    ((_, covariance),) = found[0].items()
    return covariance, pred


def exact(network, data):
    r"""Covariance of :math:`\sum_e da_e dx_{s(e)}`, two times the trace of a product of forms."""
    layer = network.second

    def weights(x):
        hidden = network.hidden(x, data.edge_index)
        return layer(hidden, data.edge_index, return_attention_weights=True)[1][1].flatten()

    def values(x):
        return getattr(layer, network.values)(network.hidden(x, data.edge_index))

    hidden = network.hidden(data.x, data.edge_index)
    source, target = layer(hidden, data.edge_index, return_attention_weights=True)[1][0]
    by_weight = torch.autograd.functional.jacobian(weights, data.x).flatten(1)
    by_value = torch.autograd.functional.jacobian(values, data.x).flatten(2)
    forms = torch.zeros(NODES, CLASSES, data.x.numel(), data.x.numel(), dtype=torch.float64)
    each = by_weight[:, None, :, None] * by_value[source][:, :, None]
    forms.index_add_(0, target, (each + each.mT) / 2)
    return 2 * data.x_var**2 * torch.einsum("ucij,udij->ucd", forms, forms)


@pytest.mark.parametrize("name", LAYERS)
def test_the_covariance_is_that_of_a_quadratic_form(name, monkeypatch):
    network, data = Network(name), graph(1e-4)
    found, _ = products_of(network, data, monkeypatch)
    true = exact(network, data)
    size = true.diagonal(dim1=1, dim2=2).sum(1)
    off = (found - true).flatten(1).norm(dim=1)
    moving = size > 1e-3 * size.max()
    assert moving.sum() >= 3  # without loops of its own a node with one neighbour has weight 1
    assert bool((off[moving] < 0.15 * size[moving]).all())  # 2,048 draws
    assert bool((off[~moving] <= 1e-3 * size.max()).all())


@pytest.mark.parametrize("name", LAYERS)
def test_a_node_that_nothing_is_sent_to_has_none(name, monkeypatch):
    found, _ = products_of(Network(name), graph(0.1), monkeypatch)
    assert float(found[8].abs().max()) < 1e-12 * float(found[0].abs().max())


def drawn(network, data):
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(DRAWS, *data.x.shape, generator=generator, dtype=torch.float64)
    shift = torch.arange(400)[:, None, None] * NODES
    edges = (data.edge_index[None] + shift).transpose(0, 1).flatten(1)
    with torch.no_grad():
        runs = [network((data.x + data.x_var.sqrt() * some).flatten(0, 1), edges)
                for some in noise.split(400)]  # fmt: skip
    return torch.cat([out.view(-1, NODES, CLASSES) for out in runs]).var(0)


@pytest.mark.parametrize("name", LAYERS)
def test_the_variance_is_nearer_to_the_draws_with_it(name, monkeypatch):
    network, data = Network(name, scores=4), graph(0.3)
    true = drawn(network, data)
    with_it = asked(network, data).logits.var
    monkeypatch.setattr(method, "covariances", lambda *given: {})
    without = asked(network, data).logits.var
    assert float(with_it.sum() / without.sum()) > 1.005
    far, near = (float((found.sum() / true.sum()).log().abs()) for found in (without, with_it))
    assert near < far


def test_noise_that_is_small_has_next_to_none(monkeypatch):
    network, data = Network("GATv2"), graph(1e-8)
    found, pred = products_of(network, data, monkeypatch)
    assert bool((found.diagonal(dim1=1, dim2=2) <= 1e-6 * pred.logits.var).all())


def test_some_nodes_are_answered_as_all_are():
    network, data = Network("GAT"), graph(0.1)
    some = asked(network, data, nodes=torch.tensor([0, 3, 8]))
    assert torch.allclose(some.logits.var, asked(network, data).logits.var[[0, 3, 8]])


def test_one_node_alone():
    data = Data(x=torch.ones(1, FEATURES).double(), edge_index=torch.empty(2, 0, dtype=torch.long),
                x_var=torch.tensor(0.1).double())  # fmt: skip
    network = Network("GAT")
    jacobian = torch.autograd.functional.jacobian(lambda x: network(x, data.edge_index), data.x)
    flat = jacobian.flatten(2)[0]
    assert torch.allclose(asked(network, data).logits.var[0], 0.1 * flat.square().sum(1), rtol=0.2)


def test_shares_do_not_go_beyond_one(monkeypatch):
    """However large scores are, a product is no larger than the values that are weighed."""
    data = graph(1.0)
    found, _ = products_of(Network("GATv2", scores=300), data, monkeypatch)
    more, _ = products_of(Network("GATv2", scores=3000), data, monkeypatch)
    assert float(found.abs().max()) > 0
    assert float((more / found)[0].diagonal().max()) < 1.5


def test_the_softmax_is_that_of_torch():
    group = torch.tensor([0, 0, 1, 1, 1])
    scores, moved = torch.randn(5, 2).double(), 3 * torch.randn(5, 4, 2).double()
    operator = WithinGroups(softmax(scores, group), members(group, 2, torch.ones(5)), group)
    there, back = (softmax(scores[:, None] + sign * moved, group) for sign in (1, -1))
    assert torch.allclose(operator.far(moved), (there - back) / 2)
