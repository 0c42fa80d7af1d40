"""Noise that is put into a layer of attention first gives what cotangents give that go all the way.

Brute force is the network itself on drawn features, in plain torch.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.data import Data

import varigraph as vg
from varigraph.prediction.first_order import method
from varigraph.prediction.first_order.noise_blocks import NoiseBlocks

NODES, FEATURES, DRAWS = 160, 12, 2000
LAYERS = {
    "GAT": lambda i, o, heads: gnn.GATConv(i, o, heads=heads),
    "GATv2": lambda i, o, heads: gnn.GATv2Conv(i, o, heads=heads),
    "Transformer": lambda i, o, heads: gnn.TransformerConv(i, o, heads=heads),
}
#: Numbers of each node through which all goes behind the first layer, which has 8: three classes,
#: in GATv2 for either end of a link. The Transformer's queries, keys, values and skips are 12.
NARROWEST = {"GAT": 3, "GATv2": 6, "Transformer": 8}


class Network(nn.Module):
    def __init__(self, make):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = make(FEATURES, 4, 2), make(8, 3, 1)
        self.eval()

    def forward(self, x, edge_index):
        return self.second(F.elu(self.first(x, edge_index)), edge_index)


@pytest.fixture(scope="module")
def graph():
    """Few features matter, as in graphs that people have, and degrees differ."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(NODES, FEATURES, generator=generator)
    ring = torch.stack([torch.arange(NODES), (torch.arange(NODES) + 1) % NODES])
    hubs = torch.stack([torch.randint(0, NODES, (120,), generator=generator),
                        torch.randint(0, 12, (120,), generator=generator)])  # fmt: skip
    edges = torch.cat([ring, ring.flip(0), hubs], 1)
    return Data(x=x, edge_index=edges, x_var=torch.full((NODES, 1), 0.01).expand(-1, FEATURES))


def asked(network, graph, **options):
    return vg.predict(network, graph, method="first-order", samples=0, **options)


@pytest.mark.parametrize("name", LAYERS)
def test_both_ways_agree(name, graph, monkeypatch):
    network = Network(LAYERS[name])
    used, of = [], NoiseBlocks.of

    def watched(*given):
        used.append(of(*given))
        return used[-1]

    monkeypatch.setattr(method.NoiseBlocks, "of", watched)
    short = asked(network, graph)
    (blocks,) = [blocks for blocks in used if blocks is not None]
    assert blocks.kept.shape[2] == 8
    assert blocks.of_narrow.shape[2] == NARROWEST[name]
    monkeypatch.setattr(method.NoiseBlocks, "of", lambda *given: None)
    long = asked(network, graph)
    assert torch.allclose(short.logits.var, long.logits.var, rtol=2e-3)
    assert torch.allclose(short.mean, long.mean, atol=1e-4)


@pytest.mark.parametrize("name", LAYERS)
def test_variances_are_those_of_drawn_features(name, graph):
    network = Network(LAYERS[name])
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        draws = torch.stack([
            network(graph.x + 0.1 * torch.randn(graph.x.shape, generator=generator),
                    graph.edge_index)
            for _ in range(DRAWS)
        ])  # fmt: skip
    ratio = asked(network, graph).logits.var / draws.var(0)
    # A variance of so many draws scatters by 3.2 %, the median of 480 by much less.
    assert 0.98 < float(ratio.median()) < 1.02
    assert float(ratio.quantile(0.02)) > 0.88
    assert float(ratio.quantile(0.98)) < 1.12


def test_blocks_that_do_not_fit_are_not_made(graph, monkeypatch):
    network, found = Network(LAYERS["GAT"]), []
    of = NoiseBlocks.of
    monkeypatch.setattr(
        method.NoiseBlocks,
        "of",
        lambda entry, root, _, tape: found.append(of(entry, root, 1, tape)) or None,
    )
    asked(network, graph)
    assert found
    assert all(blocks is None for blocks in found)
