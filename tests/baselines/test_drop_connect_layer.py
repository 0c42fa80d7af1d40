import pytest
import torch
from scipy.stats import binomtest
from torch.testing import assert_close
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from baselines.two_groups import two_groups
from varigraph.baselines.drop_connect_layer import DropConnectLayer, MaskedLinks

FAILURE_RATE = 1e-6  # share of seeds for which a right sampler fails


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def made(blocks, inputs=6, outputs=3):
    """A layer, the GCN layer with the same weights, the graph and its links."""
    layer = DropConnectLayer(inputs, outputs, blocks=blocks, generator=generator())
    layer.bias.data.uniform_(-1, 1, generator=generator(1))
    conv = GCNConv(inputs, outputs, normalize=False)
    conv.load_state_dict({"lin.weight": layer.weight.data.T, "bias": layer.bias.data})
    graph = two_groups()
    return layer, conv, graph, MaskedLinks(graph, blocks=blocks)


@pytest.mark.parametrize("blocks", [1, 2, 6, 9])  # 9 are more than there are features
def test_with_everything_kept_it_is_a_gcn_layer(blocks):
    layer, conv, graph, links = made(blocks)
    out = layer(layer.messages(graph.x), links, torch.ones(len(links.weight), blocks))
    assert_close(out, conv(graph.x, *gcn_norm(graph.edge_index, num_nodes=80)))


def test_one_mask_for_all_features_is_drop_edge():
    layer, conv, graph, links = made(1)
    kept = torch.rand(len(links.weight), generator=generator(2)) < 0.6
    out = layer(layer.messages(graph.x), links, kept[:, None].float())
    assert_close(out, conv(graph.x, links.edge_index[:, kept], links.weight[kept]))


def test_a_mask_that_is_constant_over_the_links_of_a_sender_is_dropout():
    layer, conv, graph, links = made(6)
    kept = (torch.rand(graph.x.shape, generator=generator(2)) < 0.6).float()
    out = layer(layer.messages(graph.x), links, kept[links.edge_index[0]])
    assert_close(out, conv(kept * graph.x, *gcn_norm(graph.edge_index, num_nodes=80)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("relaxed", [False, True])
def test_masks_keep_as_often_as_their_chance_says(relaxed, seed):
    layer, _, _, links = made(20)
    keep = layer.keep.sample(generator(seed)).item()  # what the mask draws first
    mask = layer.mask(links, generator(seed), relaxed=relaxed)
    kept = int(
        (mask > 0.5).sum()
    )  # also of a relaxed mask: its logit is that of the chance + noise
    assert binomtest(kept, mask.numel(), keep).pvalue > FAILURE_RATE
    assert mask.shape == (len(links.weight), 20)
    assert relaxed == bool(((mask > 0) & (mask < 1)).any())


def test_relaxed_masks_are_those_of_the_concrete_distribution():
    layer, _, _, links = made(3)
    draw = generator(1)
    keep = layer.keep.sample(draw).double()
    u = torch.rand(len(links.weight), 3, generator=draw).double()
    odds = keep / (1 - keep) * u / (1 - u)
    by_hand = odds ** (1 / 0.67) / (1 + odds ** (1 / 0.67))
    mask = layer.mask(links, generator(1), relaxed=True)
    assert_close(mask.double(), by_hand, rtol=1e-3, atol=1e-5)


def test_relaxed_masks_grow_with_the_chance():
    layer, _, _, links = made(2)
    mask = layer.mask(links, generator(), relaxed=True)
    (slope,) = torch.autograd.grad(mask.sum(), layer.shapes)
    moved = {}
    for sign in (-1, 1):
        other = made(2)[0]
        other.shapes.data += torch.tensor([sign * 1e-2, 0.0])
        moved[sign] = other.mask(links, generator(), relaxed=True).double().sum()
    assert slope[0].item() == pytest.approx(((moved[1] - moved[-1]) / 2e-2).item(), rel=1e-2)
    assert slope[0] > 0  # a larger a keeps more


def test_at_first_links_are_kept_with_a_chance_of_about_0_6():
    layers = [DropConnectLayer(2, 2, blocks=1, generator=generator(seed)) for seed in range(50)]
    means = [layer.keep.mean.item() for layer in layers]
    assert 0.56 < min(means) < 0.6 < max(means) < 0.65
