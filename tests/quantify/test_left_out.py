"""Links blamed by taking them out of the graph: against the model itself."""

import pytest
import torch
import torch_geometric.nn as gnn
from torch import nn
from torch_geometric.data import Data

import varigraph as vg


def chain(nodes=7, chance=0.8):
    """A path with a loose end: node 0 has one neighbour, and would have none."""
    there = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    links = torch.cat([there, there.flip(0)], 1)
    x = torch.randn(nodes, 3, generator=torch.Generator().manual_seed(0)).double()
    prob = torch.linspace(0.5, 1, nodes - 1).double()
    return Data(x=x, edge_index=links, edge_prob=torch.cat([prob, prob]))


def seeded(make):
    torch.manual_seed(0)
    return make().double().eval()


def by_hand(model, graph, node, number):
    """Variance by link: p (1 - p) times the squared difference that it makes."""
    whole, found = number(model(graph.x, graph.edge_index)[node]).item(), {}
    for u, v, p in zip(*graph.edge_index.tolist(), graph.edge_prob.tolist(), strict=True):
        if u < v:
            of_both = (graph.edge_index.sort(0).values == torch.tensor([[u], [v]])).all(0)
            left = number(model(graph.x, graph.edge_index[:, ~of_both])[node]).item()
            found[u, v] = p * (1 - p) * (whole - left) ** 2
    return {link: part for link, part in found.items() if part > 1e-20}


NETWORKS = {
    "GCN": lambda: gnn.GCN(3, 4, 2, 2),
    "SAGE": lambda: gnn.GraphSAGE(3, 4, 2, 2),
    "SAGE max": lambda: gnn.GraphSAGE(3, 4, 2, 2, aggr="max"),
    "GAT": lambda: gnn.GAT(3, 4, 2, 2),
    "three layers": lambda: gnn.GIN(3, 4, 3, 2),
    "five hops": lambda: gnn.SGConv(3, 2, K=5),
}


@pytest.mark.parametrize("node", [0, 3])
@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_each_link_has_the_difference_that_it_makes(make, node):
    model, graph = seeded(make), chain()
    blame = vg.attribute(model, graph, node, output=1, method="sampled", samples=40)
    want = by_hand(model, graph, node, lambda row: row.softmax(-1)[1])
    assert {(link.source, link.target) for link in blame.links} == set(want)
    whole = sum(want.values())
    for link in blame.links:
        share = want[link.source, link.target] / whole
        assert link.variance / blame.by_source["links"] == pytest.approx(share, rel=1e-6, abs=1e-15)
        assert link.both_ways


def test_a_link_to_the_only_neighbour_matters_where_no_slope_leads():
    """The mean of one neighbour does not follow its weight; without it there is nothing."""
    layer = gnn.SAGEConv(3, 1, root_weight=False, bias=False)
    graph = chain(2)
    blame = vg.attribute(layer.double(), graph, 0, task="regression")
    carried = layer(graph.x, graph.edge_index)[0].item()
    assert blame.variance == pytest.approx(0.25 * carried**2)


def test_one_link_in_doubt_is_all_of_the_variance():
    """With a single coin it has all of the variance."""
    model, graph = seeded(NETWORKS["GCN"]), chain()
    graph.edge_prob = torch.ones(12).double()
    graph.edge_prob[[1, 7]] = 0.3
    blame = vg.attribute(
        model, graph, 2, task="regression", output=0, method="sampled", samples=400
    )
    with_it = model(graph.x, graph.edge_index)[2, 0]
    kept = torch.tensor([k not in (1, 7) for k in range(12)])
    without = model(graph.x, graph.edge_index[:, kept])[2, 0]
    exact = 0.21 * float((with_it - without).detach() ** 2)
    assert blame.variance == pytest.approx(exact, rel=0.15)
    assert [link.share for link in blame.links] == pytest.approx([1])


def test_what_looks_at_the_whole_graph_reaches_all_links():
    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = gnn.SAGEConv(3, 2)

        def forward(self, x, edge_index):
            out = self.conv(x, edge_index)
            return out - out.mean(0)

    graph = chain()
    blame = vg.attribute(seeded(Centred), graph, 0, output=0, method="sampled", samples=40)
    assert len(blame.links) == 5  # the last link is certain
