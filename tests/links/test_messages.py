import networkx as nx
import pytest
import torch

from varigraph.links.methods import Messages

GRAPH = nx.gnp_random_graph(30, 0.15, seed=1)
GRAPH.remove_edges_from(list(GRAPH.edges(0)))  # someone is alone
LINKS = torch.tensor(list(GRAPH.edges)).t()


def mean_by_loops(graph, x):
    rows = [
        x[list(graph[node])].mean(dim=0) if graph[node] else torch.zeros(x.size(1))
        for node in range(len(x))
    ]
    return torch.stack(rows)


@pytest.mark.parametrize("flip", [False, True])
def test_nodes_hear_the_mean_of_their_neighbours(flip):
    x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    heard = Messages(LINKS.flip(0) if flip else LINKS, nodes=30).all()
    torch.testing.assert_close(heard.mean(x), mean_by_loops(GRAPH, x))
    assert heard.degree[:, 0].tolist() == [GRAPH.degree(node) for node in range(30)]


def test_silent_links_are_not_heard():
    x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    silent = torch.rand(LINKS.size(1), generator=torch.Generator().manual_seed(1)) < 0.3
    rest = GRAPH.copy()
    rest.remove_edges_from(LINKS[:, silent].t().tolist())
    heard = Messages(LINKS, nodes=30).without(silent)
    torch.testing.assert_close(heard.mean(x), mean_by_loops(rest, x))
    assert heard.degree[:, 0].tolist() == [rest.degree(node) for node in range(30)]


def test_gradients_are_those_of_the_loops():
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(30, 4, generator=generator) for _ in range(2))
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    (Messages(LINKS, nodes=30).all().mean(ours) * weight).sum().backward()
    (mean_by_loops(GRAPH, theirs) * weight).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
