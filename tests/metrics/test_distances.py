import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from varigraph.metrics.node_groups import UNREACHABLE, distances


@given(st.integers(1, 15), st.integers(0, 25), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_they_agree_with_networkx(nodes, edges, seed):
    draw = torch.Generator().manual_seed(seed)
    links = torch.randint(nodes, (2, edges), generator=draw)
    start = torch.rand(nodes, generator=draw) < 0.3
    graph = nx.Graph(links.T.tolist())
    graph.add_nodes_from(range(nodes))
    sources = set(start.nonzero().flatten().tolist())
    found = nx.multi_source_dijkstra_path_length(graph, sources) if sources else {}
    expected = [found.get(node, UNREACHABLE) for node in range(nodes)]
    assert distances(links, start).tolist() == expected


@pytest.mark.parametrize("length", [1, 2, 300])
def test_a_long_path_is_walked_to_its_end(length):
    links = torch.stack([torch.arange(length), torch.arange(1, length + 1)])
    start = torch.arange(length + 1) == length
    assert distances(links, start).tolist() == list(range(length, -1, -1))


def test_the_masks_stay_as_they_were():
    links, start = torch.tensor([[0, 1], [1, 2]]), torch.tensor([True, False, False])
    distances(links, start)
    assert start.tolist() == [True, False, False]
    assert links.tolist() == [[0, 1], [1, 2]]
