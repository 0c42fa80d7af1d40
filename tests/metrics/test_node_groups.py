import networkx as nx
import pytest
import torch

from metrics.drawn import classified
from varigraph.errors import GraphError, OptionError
from varigraph.metrics import accuracy, ece, ece_by_degree, ece_by_distance


def graph_of(nodes, edges, *, seed=0):
    """Links in both directions; some nodes have none, one has many."""
    draw = torch.Generator().manual_seed(seed)
    ends = (nodes * torch.rand(2, edges, generator=draw) ** 3).long()
    return torch.cat([ends, ends.flip(0)], dim=1)


def degree_group(degree):
    top = 1
    if degree < 3:
        return str(degree)
    while top < degree:
        top *= 2
    return f"{top // 2 + 1}-{top}"


def check(found, members, mean, labels, bins):
    """Every group is scored as if it were all there is."""
    assert set(found.names) == set(members)
    for place, name in enumerate(found.names):
        rows = torch.tensor(members[name])
        assert found.count[place] == len(rows)
        assert found.ece[place] == pytest.approx(ece(mean[rows], labels[rows], bins=bins))
        assert found.accuracy[place] == pytest.approx(accuracy(mean[rows], labels[rows]))
        assert found.confidence[place] == pytest.approx(mean[rows].amax(dim=1).mean().item())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("bins", [5, 15])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_degrees_are_grouped_by_powers_of_two(masked, bins, dtype):
    mean, labels = classified(200, dtype=dtype)
    links = graph_of(200, 300)
    nodes = torch.arange(200) % 3 > 0 if masked else None
    members = {}
    for node in range(200):
        if nodes is None or nodes[node]:
            degree = sum(end == node for end in links[1].tolist())
            members.setdefault(degree_group(degree), []).append(node)
    assert len(members) > 5
    check(ece_by_degree(mean, labels, links, nodes=nodes, bins=bins), members, mean, labels, bins)


def test_the_degree_counts_links_that_end_at_a_node():
    mean, labels = classified(4)
    links = torch.tensor([[0, 1, 2], [3, 3, 3]])
    found = ece_by_degree(mean, labels, links)
    assert (found.names, found.count.tolist()) == (("0", "3-4"), [3, 1])


def test_the_groups_come_in_order_of_degree():
    mean, labels = classified(200)
    names = ece_by_degree(mean, labels, graph_of(200, 300)).names
    assert names[:6] == ("0", "1", "2", "3-4", "5-8", "9-16")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_distances_agree_with_networkx(masked, seed):
    mean, labels = classified(120, seed=seed)
    path = torch.stack([torch.arange(8), torch.arange(1, 9)])
    links = torch.cat([path, 20 + graph_of(60, 50, seed=seed)], dim=1)  # nodes from 80 on: none
    known = torch.arange(120) % 40 == 0
    nodes = ~known if masked else None
    graph = nx.Graph(links.T.tolist())
    graph.add_nodes_from(range(120))
    steps = nx.multi_source_dijkstra_path_length(graph, set(known.nonzero().flatten().tolist()))
    members = {}
    for node in range(120):
        if nodes is None or nodes[node]:
            name = str(min(steps[node], 4)).replace("4", "more") if node in steps else "unreachable"
            members.setdefault(name, []).append(node)
    assert {"1", "more", "unreachable"} <= set(members)
    found = ece_by_distance(mean, labels, links, known, nodes=nodes)
    check(found, members, mean, labels, 15)
    assert found.names[-2:] == ("more", "unreachable")


def test_labels_of_nodes_that_are_not_scored_do_not_matter():
    mean, labels = classified(50)
    links, nodes = graph_of(50, 60), torch.arange(50) < 30
    unknown = labels.where(nodes, -1)
    expected = ece_by_degree(mean, labels, links, nodes=nodes).ece
    assert torch.equal(ece_by_degree(mean, unknown, links, nodes=nodes).ece, expected)
    with pytest.raises(GraphError, match="labels are not all"):
        ece_by_degree(mean, unknown, links)


def test_a_graph_without_links_is_one_group():
    mean, labels = classified(5)
    links, known = torch.empty(2, 0, dtype=torch.long), torch.zeros(5, dtype=torch.bool)
    assert ece_by_degree(mean, labels, links).names == ("0",)
    assert ece_by_distance(mean, labels, links, known).names == ("unreachable",)


MEAN, LABELS = classified(4)
LINKS, MASK = torch.tensor([[0, 1], [1, 2]]), torch.ones(4, dtype=torch.bool)


@pytest.mark.parametrize(
    ("changed", "error", "culprit"),
    [
        ({"edge_index": torch.tensor([[0], [4]])}, GraphError, "nodes 0 to 3"),
        ({"edge_index": torch.tensor([[-1], [1]])}, GraphError, "nodes 0 to 3"),
        ({"edge_index": LINKS.float()}, GraphError, "edge_index is torch.float32"),
        ({"edge_index": LINKS[0]}, GraphError, "edge_index"),
        ({"train_mask": MASK[:3]}, GraphError, "train_mask"),
        ({"train_mask": MASK.long()}, GraphError, "train_mask is torch.int64"),
        ({"nodes": MASK[:3]}, GraphError, "nodes is"),
        ({"nodes": torch.arange(4)}, GraphError, "nodes is torch.int64"),
        ({"nodes": ~MASK}, GraphError, "at least one node"),
        ({"labels": LABELS[:3]}, GraphError, "labels have"),
        ({"mean": MEAN.log()}, OptionError, "outside 0 to 1"),
        ({"bins": 0}, OptionError, "bins"),
    ],
)
def test_mistakes_are_explained(changed, error, culprit):
    options = {"mean": MEAN, "labels": LABELS, "edge_index": LINKS, **changed}
    with pytest.raises(error, match=culprit):
        ece_by_distance(**{"train_mask": MASK, **options})
    if "train_mask" not in changed:
        with pytest.raises(error, match=culprit):
            ece_by_degree(**options)
