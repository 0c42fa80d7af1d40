import itertools

import networkx as nx
import pytest
import torch

from varigraph.links.subgraphs import UNREACHABLE, distances, drnl


def both_ways(pairs):
    one = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()
    return torch.cat([one, one.flip(0)], dim=1)


def star_of_paths(near, far):
    """A node that is ``near`` steps from node 0 and ``far`` steps from node 1; it is the last."""
    fresh = itertools.count(2)
    middle, pairs = near + far, []
    for end, steps in ((0, near), (1, far)):
        path = [end, *(next(fresh) for _ in range(steps - 1)), middle]
        pairs += itertools.pairwise(path)
    return both_ways(pairs), middle


def label_of(near, far):
    links, middle = star_of_paths(near, far)
    return drnl(links, torch.tensor([[0], [1]]), nodes=middle + 1)[middle].item()


def reference_label(graph, one, two, node):
    """The label of one node, from shortest paths in the graph without the other end."""
    if node in (one, two):
        return 1
    steps = []
    for end, other in ((one, two), (two, one)):
        rest = nx.restricted_view(graph, [other], [])
        if not nx.has_path(rest, end, node):
            return 0
        steps.append(nx.shortest_path_length(rest, end, node))
    half, odd = divmod(sum(steps), 2)
    return 1 + min(steps) + half * (half + odd - 1)


@pytest.mark.parametrize(
    ("near", "far", "label"),
    [
        (1, 1, 2),
        (1, 2, 3),
        (1, 3, 4),
        (2, 2, 5),
        (1, 4, 6),
        (2, 3, 7),
        (1, 5, 8),
        (2, 4, 9),
        (3, 3, 10),
        (2, 5, 12),
        (3, 4, 13),
        (3, 5, 16),
        (4, 4, 17),
    ],
)
def test_labels_of_the_paper(near, far, label):
    assert label_of(near, far) == label_of(far, near) == label


def test_different_distances_have_different_labels():
    pairs = list(itertools.combinations_with_replacement(range(1, 9), 2))
    assert len({label_of(*pair) for pair in pairs}) == len(pairs)


@pytest.mark.parametrize(
    ("pairs", "ends", "labels"),
    [
        ([(0, 1), (1, 2)], (0, 2), [1, 2, 1]),
        ([(0, 1), (1, 2), (2, 3), (3, 0)], (0, 2), [1, 2, 1, 2]),
        ([(0, 1), (1, 2), (2, 3)], (0, 3), [1, 3, 3, 1]),
        ([(0, 1), (1, 2), (2, 3)], (0, 2), [1, 2, 1, 0]),  # 3 hangs on an end, behind it
        ([(0, 1), (1, 2), (1, 3)], (0, 2), [1, 2, 1, 5]),  # 3 hangs between them
        ([(2, 3)], (0, 1), [1, 1, 0, 0]),
        ([], (0, 1), [1, 1]),
    ],
)
def test_small_graphs(pairs, ends, labels):
    found = drnl(both_ways(pairs), torch.tensor(ends)[:, None], nodes=len(labels))
    assert found.tolist() == labels


@pytest.mark.parametrize("seed", range(6))
def test_many_subgraphs_at_once_agree_with_shortest_paths(seed):
    graphs, start, links, ends, expected = [], 0, [], [], []
    for number, mean_degree in enumerate((0.5, 1.0, 2.0, 4.0)):
        graph = nx.gnp_random_graph(20, mean_degree / 20, seed=10 * seed + number)
        graph.remove_edges_from([(3, 7)])
        graphs.append(graph)
        links += [(a + start, b + start) for a, b in graph.edges]
        ends.append((3 + start, 7 + start))
        expected += [reference_label(graph, 3, 7, node) for node in range(20)]
        start += 20
    found = drnl(both_ways(links), torch.tensor(ends).t(), nodes=start)
    assert found.tolist() == expected
    assert len(set(expected)) > 5


def test_swapping_the_ends_changes_nothing():
    graph = nx.gnp_random_graph(30, 0.08, seed=1)
    graph.remove_edges_from([(0, 1)])
    links, ends = both_ways(list(graph.edges)), torch.tensor([[0], [1]])
    labels = drnl(links, ends, nodes=30)
    assert torch.equal(drnl(links, ends.flip(0), nodes=30), labels)
    assert labels.unique().numel() > 4


def test_distances_avoid_the_other_end():
    path = both_ways([(0, 1), (1, 2), (2, 3)])
    found = distances(path, torch.tensor([[0], [2]]), nodes=4)
    assert found[1].tolist() == [1, 1]
    assert found[3].tolist() == [UNREACHABLE, 1]


def test_a_hub_is_counted_once():
    # 300 common neighbours: the number of paths must not be mistaken for a distance or overflow.
    pairs = [(end, node) for node in range(2, 302) for end in (0, 1)]
    labels = drnl(both_ways(pairs), torch.tensor([[0], [1]]), nodes=302)
    assert labels.tolist() == [1, 1, *[2] * 300]
