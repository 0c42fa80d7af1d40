import networkx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

import varigraph as vg
from varigraph.studies.comparison import tables as module
from varigraph.studies.comparison.tables import clustering, counts, data_table


@pytest.mark.parametrize(("nodes", "chance"), [(30, 0.2), (57, 0.05), (12, 0.9)])
def test_clustering_is_that_of_networkx(nodes, chance, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 10)
    graph = networkx.gnp_random_graph(nodes, chance, seed=1)
    adjacency = sp.csr_array(networkx.to_numpy_array(graph))
    assert clustering(adjacency) == pytest.approx(networkx.average_clustering(graph))


def test_cora_is_counted_as_networkx_counts_it():
    graph = vg.load("cora")
    known = networkx.Graph(graph.edge_index.t().tolist())
    known.add_nodes_from(range(graph.num_nodes))
    nodes, links, features, classes, degree, clustered = counts(graph)
    assert (nodes, links) == (known.number_of_nodes(), known.number_of_edges()) == (2708, 5278)
    assert (features, classes) == (1433, 7)
    assert degree == pytest.approx(np.mean([d for _, d in known.degree]))
    assert clustered == pytest.approx(networkx.average_clustering(known))


def test_links_to_oneself_and_repeated_ones_do_not_count():
    links = to_undirected(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]]))
    twice = torch.cat([links, links], dim=1)
    graph = Data(x=torch.zeros(4, 2), edge_index=twice, y=torch.tensor([0, 1, 0, 1]))
    assert counts(graph) == (4, 3, 2, 2, 1.5, 0.75)


def test_the_papers_count_stands_below_ours():
    table = data_table(["cora"])
    assert [row[1] for row in table.rows] == ["us", "paper"]
    assert table.rows[0][2:4] == ("2,708", "5,278")
    assert table.rows[1][2:4] == ("2,708", "5,429")
