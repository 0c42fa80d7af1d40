import pytest
import torch
from torch.testing import assert_close
from torch_geometric.nn import GCN

from baselines.two_groups import two_groups
from varigraph.baselines.drop_connect import DropConnectNetwork
from varigraph.baselines.drop_connect_layer import MaskedLinks


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def made(widths, blocks=2, scale=1.0):
    return DropConnectNetwork(
        widths, blocks=blocks, scale=torch.tensor(scale), generator=generator()
    )


@pytest.mark.parametrize("scale", [1.0, 7.0])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 5, 8)])
def test_with_a_chance_of_1_it_is_a_gcn(hidden, scale):
    graph, network = two_groups(), made((6, *hidden, 2), scale=scale)
    gcn = GCN(6, 1, num_layers=len(hidden) + 1, out_channels=2)
    for layer, conv in zip(network.layers, gcn.convs, strict=True):
        layer.shapes.data[0] = 1e12  # pi = x^(1/a) is 1
        conv.lin.weight = torch.nn.Parameter(layer.weight.data.T)
        conv.bias = torch.nn.Parameter(layer.bias.data.uniform_(-1, 1, generator=generator(1)))
    messages, links = network.first_messages(graph.x), MaskedLinks(graph, blocks=2)
    out = network(messages, links, generator(2), relaxed=False)
    assert_close(out, gcn(scale * graph.x, graph.edge_index))


def test_every_layer_and_pass_has_masks_of_its_own():
    graph, network = two_groups(), made((6, 8, 2))
    messages, links, draw = (
        network.first_messages(graph.x),
        MaskedLinks(graph, blocks=2),
        generator(),
    )
    one, two = (network(messages, links, draw, relaxed=False) for _ in range(2))
    assert not one.equal(two)
    assert network(messages, links, generator(), relaxed=False).equal(one)


def test_the_divergence_is_that_of_all_layers():
    network = made((6, 8, 2))
    by_hand = 0.0
    for layer in network.layers:
        by_hand += layer.keep.mean * (layer.weight**2).sum() / 2 + layer.keep.divergence(0.8)
    assert_close(network.divergence(0.8), by_hand)


def test_weights_that_are_kept_more_often_are_held_more_strongly():
    network = made((6, 2), blocks=1)
    layer = network.layers[0]
    (slope,) = torch.autograd.grad(network.divergence(0.8), layer.weight)
    assert_close(slope, layer.keep.mean * layer.weight)
