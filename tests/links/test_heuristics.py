import networkx as nx
import pytest
import torch

from varigraph.links.methods import adamic_adar, common_neighbours


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("density", [0.02, 0.2, 0.9])
def test_scores_agree_with_networkx(seed, density):
    graph = nx.gnp_random_graph(40, density, seed=seed)
    links = torch.tensor(list(graph.edges)).t()
    pairs = torch.combinations(torch.arange(40)).t()
    asked = [tuple(pair) for pair in pairs.t().tolist()]
    shared = [len(list(nx.common_neighbors(graph, *pair))) for pair in asked]
    assert common_neighbours(pairs, links, nodes=40).tolist() == shared
    expected = torch.tensor([value for *_, value in nx.adamic_adar_index(graph, asked)])
    torch.testing.assert_close(
        adamic_adar(pairs, links, nodes=40), expected.double(), atol=1e-6, rtol=1e-6
    )
    torch.testing.assert_close(
        adamic_adar(pairs.flip(0), links.flip(0), nodes=40), adamic_adar(pairs, links, nodes=40)
    )


def test_a_pair_scores_the_same_with_and_without_its_own_link():
    links = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    pair = torch.tensor([[0], [2]])
    with_it, without = (common_neighbours(pair, e, nodes=5) for e in (links, links[:, :4]))
    assert with_it.item() == without.item() == 2
