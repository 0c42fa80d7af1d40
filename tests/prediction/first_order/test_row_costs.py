"""What the responses of a node need is counted before they are computed."""

import pytest
import torch
import torch_geometric.nn as gnn
from torch.nn import functional as F

from prediction.first_order.test_method import Two
from prediction.networks import made, noisy_ring
from varigraph.moments.gaussian import Gaussian
from varigraph.prediction.first_order.responses import all_sums, walk_back
from varigraph.prediction.first_order.row_costs import PAIR, RowCosts
from varigraph.prediction.linearised import linearised
from varigraph.prediction.predict import ask

NETWORKS = {
    "relu": lambda: Two(gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3), F.relu, 0.3),
    "linear": lambda: Two(gnn.GCNConv(4, 8), gnn.SAGEConv(8, 3), None, 0.3),
    "jumping": lambda: gnn.GraphSAGE(4, 8, 3, 3, jk="cat", act="tanh", dropout=0.3),
}
NODES = 12


def with_a_hub():
    graph = noisy_ring(nodes=NODES)
    others = torch.arange(1, 7)
    spokes = torch.stack([others, torch.zeros_like(others)])
    graph.edge_index = torch.unique(torch.cat([graph.edge_index, spokes, spokes.flip(0)], 1), dim=1)
    return graph


def recorded(name):
    with torch.no_grad():
        return linearised(ask(made(NETWORKS[name]), with_a_hub()))


@pytest.mark.parametrize("name", NETWORKS)
def test_no_node_has_more_pairs_than_were_counted(name):
    whole = recorded(name)
    values = [entry.value for entry in whole.tape.entries]
    until = {value.number for value in values}
    costs = RowCosts(whole.tape, whole.output, until)
    rows = torch.arange(NODES)
    with torch.no_grad():
        found = walk_back(whole.tape, whole.output, rows, until=until)
    assert {entry.value.number for entry, _ in costs.way} == set(found.visited)
    for value in values:
        if value.number in found.visited:
            pairs = found.visited[value.number].row.bincount(minlength=NODES)
            assert bool((costs.pairs(value) >= pairs).all())
    held = sum(pairs.values.nbytes + PAIR * len(pairs.row) for pairs in found.of.values())
    assert float(costs.walking[1].sum()) >= held
    assert bool((costs.walking[0] > 0).all())


def test_walks_are_those_of_powers_of_the_links():
    whole = recorded("linear")
    costs = RowCosts(whole.tape, whole.output, {whole.tape.entries[0].value.number})
    graph = with_a_hub()
    links = torch.zeros(NODES, NODES).double()
    links[graph.edge_index[1], graph.edge_index[0]] = 1
    eye = torch.eye(NODES).double()
    want = ((eye + links) @ (links + eye)).sum(1)  # SAGE after GCN, each with the node itself
    assert torch.equal(costs.walks(whole.tape.entries[0].value), want)


def test_nobody_walks_to_a_value_that_leads_nowhere():
    whole = recorded("relu")
    costs = RowCosts(whole.tape, whole.output, set())
    elsewhere = Gaussian.certain(torch.zeros(NODES, 2))
    assert not costs.walks(elsewhere).any()


def test_steps_go_on_from_every_pair():
    whole = recorded("relu")
    entry, _, links = list(all_sums(whole.tape))[-1]
    costs = RowCosts(whole.tape, whole.output, {entry.value.number})
    want = torch.bincount(with_a_hub().edge_index[1], minlength=NODES).double()
    assert torch.equal(costs.steps(entry.value, links.expected), want)
