"""Attention as a response to nodes: against derivatives by torch, layer by layer."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.utils import softmax

from varigraph.moments import Gaussian, Propagation, StandIn, propagating
from varigraph.moments.attention import WeightSum
from varigraph.moments.propagation import recorded
from varigraph.moments.running import running
from varigraph.moments.tape import Tape
from varigraph.prediction.first_order.responses import walk_back

NODES, FEATURES = 7, 6
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 2, 4, 1, 3], [1, 2, 0, 4, 5, 3, 0, 3, 5, 1, 0, 6]])
#: Attributes of links.
ATTRIBUTES = torch.randn(12, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


class OwnAttention(gnn.MessagePassing):
    """A score of all columns of both ends, by a map of its own on links."""

    def __init__(self, features: int, channels: int) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.value, self.score = nn.Linear(features, 2 * channels), nn.Linear(2 * features, 2)

    def forward(self, x, edge_index):
        values = self.value(x).view(-1, 2, self.value.out_features // 2)
        return self.propagate(edge_index, x=x, values=values).flatten(1)

    def message(self, x_i, x_j, values_j, index):
        scores = self.score(torch.cat([x_i, x_j], 1)).tanh()
        return softmax(scores, index, num_nodes=NODES).unsqueeze(-1) * values_j


LAYERS = {
    "GAT": lambda: gnn.GATConv(FEATURES, 2, heads=3),
    "GAT, mean of heads, residual": lambda: gnn.GATConv(
        FEATURES, 4, heads=2, concat=False, residual=True
    ),
    "GATv2": lambda: gnn.GATv2Conv(FEATURES, 2, heads=3),
    "GATv2, one map": lambda: gnn.GATv2Conv(FEATURES, 3, heads=2, share_weights=True),
    "Transformer": lambda: gnn.TransformerConv(FEATURES, 2, heads=2, beta=True),
    "SuperGAT": lambda: gnn.SuperGATConv(FEATURES, 2, heads=2),
    "AGNN": gnn.AGNNConv,
    "FA": lambda: gnn.FAConv(FEATURES),
    "own": lambda: OwnAttention(FEATURES, 2),
}


class Network(nn.Module):
    """One layer, or two with an activation between them."""

    def __init__(self, make, depth):
        super().__init__()
        torch.manual_seed(1)
        self.first = make()
        width = self.first(torch.zeros(NODES, FEATURES), *self.given(), EDGES).shape[1]
        self.back_to = nn.Linear(width, FEATURES)
        self.second = make() if depth == 2 else None
        self.double().eval()

    def given(self):
        return (torch.zeros(NODES, FEATURES),) if isinstance(self.first, gnn.FAConv) else ()

    def forward(self, x):
        start = (x,) if isinstance(self.first, gnn.FAConv) else ()
        out = self.first(x, *start, EDGES)
        if self.second is None:
            return out
        return self.second(F.elu(self.back_to(out)), *start, EDGES)


def recorded_pass(network, x, certain=1e-20):
    """The tape of a pass with noise so small that slopes are those at the mean."""
    tape = Tape()
    value = Gaussian(x, torch.full_like(x, certain))
    with torch.no_grad(), running(network, by_rules=True), propagating(Propagation(tape=tape)):
        given = recorded(value)
        out = network(StandIn(given))
        return tape, out.value, value


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_responses_to_the_features_are_the_derivatives(name, depth):
    network = Network(LAYERS[name], depth)
    x = torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(0)).double()
    want = torch.autograd.functional.jacobian(network, x)  # [nodes, out, nodes, features]
    tape, out, given = recorded_pass(network, x)
    found = walk_back(tape, out, torch.arange(NODES), until={given.number}).of[given.number]
    dense = torch.zeros(NODES, NODES, want.shape[1], FEATURES, dtype=torch.float64)
    dense[found.row, found.column] = found.values
    assert torch.allclose(dense, want.transpose(1, 2), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", LAYERS)
def test_no_response_lives_on_links(name):
    tape, out, given = recorded_pass(Network(LAYERS[name], 2), torch.ones(NODES, FEATURES).double())
    found = walk_back(tape, out, torch.arange(NODES), until={given.number})
    rows = {len(e.value) for e in tape.entries if e.value.number in found.visited}
    assert rows == {NODES}


def test_scores_are_forgotten_once_the_way_to_the_output_is_known():
    network = Network(LAYERS["GATv2"], 2)
    tape, out, given = recorded_pass(network, torch.ones(NODES, FEATURES).double())
    before = walk_back(tape, out, torch.arange(NODES), until={given.number}).of[given.number]
    assert any(len(entry.value) != NODES for entry in tape.entries)
    tape.keep_way_to(out)
    assert {len(entry.value) for entry in tape.entries} == {NODES}
    assert all(len(bend.value) == NODES for bend in tape.bends)
    after = walk_back(tape, out, torch.arange(NODES), until={given.number}).of[given.number]
    assert torch.equal(before.values, after.values)


def test_uncertain_attributes_of_links_are_followed_on_links():
    network = gnn.GATv2Conv(FEATURES, 2, heads=2, edge_dim=3, add_self_loops=False).double().eval()
    tape, x = Tape(), torch.randn(NODES, FEATURES, generator=torch.Generator().manual_seed(0))
    tiny = torch.full((NODES, FEATURES), 1e-20).double()
    with torch.no_grad(), running(network, by_rules=True), propagating(Propagation(tape=tape)):
        given = recorded(Gaussian(x.double(), tiny))
        beside = recorded(Gaussian(ATTRIBUTES, torch.full_like(ATTRIBUTES, 1e-20)))
        out = network(StandIn(given), EDGES, StandIn(beside)).value
    assert any(isinstance(op, WeightSum) for entry in tape.entries for _, op in entry.parents)
    want = torch.autograd.functional.jacobian(lambda a: network(x.double(), EDGES, a), ATTRIBUTES)
    found = walk_back(tape, out, torch.arange(NODES), until={beside.number}).of[beside.number]
    dense = torch.zeros(NODES, len(ATTRIBUTES), want.shape[1], 3, dtype=torch.float64)
    dense[found.row, found.column] = found.values
    assert torch.allclose(dense, want.transpose(1, 2), rtol=1e-6, atol=1e-9)
