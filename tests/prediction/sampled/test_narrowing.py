"""Layers that map before they sum give what they give, over fewer numbers."""

import pytest
import torch
from torch_geometric.nn import GCNConv, GraphConv, GraphSAGE, SAGEConv
from torch_geometric.utils import to_torch_csr_tensor

from varigraph.prediction.sampled.neighbour_sums import mapped_first

LINKS = torch.tensor([[0, 1, 2, 3, 3, 4, 1, 0], [1, 0, 3, 2, 4, 3, 4, 0]])
LAYERS = [
    SAGEConv(6, 2),
    SAGEConv(6, 2, bias=False, root_weight=False),
    SAGEConv(6, 2, normalize=True),
    SAGEConv(6, 2, project=True),
    SAGEConv(6, 2, aggr="sum"),
    GraphConv(6, 2),
    GraphConv(6, 2, aggr="mean"),
]
LEFT_ALONE = [SAGEConv(2, 6), SAGEConv(6, 2, aggr="max"), GCNConv(6, 2)]


def summed_widths(layer):
    """How many numbers each message of a layer carries, filled in when it is run."""
    seen = []
    layer.register_propagate_forward_pre_hook(lambda _, inputs: seen.append(_width(inputs[2]["x"])))
    return seen


def _width(x):
    return (x[0] if isinstance(x, tuple) else x).shape[1]


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layer", LAYERS, ids=repr)
@pytest.mark.parametrize("form", ["list", "csr"])
def test_the_same_over_fewer_numbers(layer, form):
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    links = LINKS if form == "list" else to_torch_csr_tensor(LINKS.flip(0), size=(5, 5))
    with torch.no_grad():
        want = layer(x, links)
        with mapped_first(layer):
            seen = summed_widths(layer)
            torch.testing.assert_close(layer(x, links), want)
        assert seen == [2]
        assert torch.equal(layer(x, links), want)
        assert seen == [2, 6]


@pytest.mark.parametrize("layer", LEFT_ALONE, ids=repr)
def test_others_stay_as_they_are(layer):
    before = dict(layer.named_modules())
    with mapped_first(layer):
        assert dict(layer.named_modules()) == before


def test_weights_of_links_and_whole_networks():
    weight, x = torch.rand(8), torch.randn(5, 6)
    layer, network = GraphConv(6, 2), GraphSAGE(6, 4, 2, 3).eval()
    with torch.no_grad():
        want = layer(x, LINKS, weight), network(x, LINKS)
        names = list(network.state_dict())
        with mapped_first(layer), mapped_first(network):
            torch.testing.assert_close(layer(x, LINKS, weight), want[0])
            torch.testing.assert_close(network(x, LINKS), want[1])
    assert list(network.state_dict()) == names
