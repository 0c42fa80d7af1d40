import networkx as nx
import pytest
import torch

from baselines.block_models import links_of
from varigraph.baselines.block_model import BlockNeighbours


@pytest.mark.parametrize("density", [0.0, 0.1, 0.9])
def test_neighbours_are_those_of_networkx(density):
    graph = nx.gnp_random_graph(23, density, seed=4)
    neighbours = BlockNeighbours(links_of(graph).pairs, nodes=23)
    rows = torch.randperm(23, generator=torch.Generator().manual_seed(1))[:11]
    place, other = neighbours.of(rows)
    for number, node in enumerate(rows.tolist()):
        assert other[place == number].tolist() == sorted(graph.neighbors(node))
    assert neighbours.degree.tolist() == [degree for _, degree in graph.degree]
