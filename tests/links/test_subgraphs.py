import networkx as nx
import pytest
import torch

from varigraph.errors import GraphError, OptionError
from varigraph.links import subgraphs
from varigraph.links.subgraphs import Subgraphs, Surroundings, drnl

FIELDS = ("nodes", "labels", "alike", "edge_index", "ends", "sizes", "edges")


def links_of(graph):
    return torch.tensor(list(graph.edges), dtype=torch.long).reshape(-1, 2).t()


def some_pairs(nodes, count, seed=0):
    draw = torch.Generator().manual_seed(seed)
    one = torch.randint(nodes, (count,), generator=draw)
    two = (one + torch.randint(1, nodes, (count,), generator=draw)) % nodes
    return torch.stack([one, two])


def alone(found: Subgraphs, place):
    """One subgraph as sets: nodes, undirected links, ends, labels by node."""
    one = found.pick(torch.tensor([place]))
    nodes = one.nodes.tolist()
    links = {frozenset(nodes[i] for i in link) for link in one.edge_index.t().tolist()}
    assert len(links) * 2 == one.edge_index.size(1)  # each link once in each direction
    ends = [nodes[i] for i in one.ends[:, 0].tolist()]
    return set(nodes), links, ends, dict(zip(nodes, one.labels.tolist(), strict=True))


def same(one: Subgraphs, two: Subgraphs):
    return all(torch.equal(getattr(one, name), getattr(two, name)) for name in FIELDS)


@pytest.fixture
def sparse_graph():
    """80 nodes in several components, some of them isolated."""
    return nx.gnp_random_graph(80, 1.6 / 80, seed=5)


@pytest.fixture
def hubs():
    """300 nodes, the first ones with far more neighbours than a cap of 5."""
    return nx.barabasi_albert_graph(300, 3, seed=5)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_subgraphs_are_those_of_networkx(sparse_graph, hops):
    pairs = torch.cat([some_pairs(80, 60), links_of(sparse_graph)[:, :40]], dim=1)
    found = Surroundings(links_of(sparse_graph), nodes=80, hops=hops, cap=None).around(pairs)
    assert len(found) == 100
    for place, (one, two) in enumerate(pairs.t().tolist()):
        balls = [nx.ego_graph(sparse_graph, end, radius=hops) for end in (one, two)]
        expected = nx.Graph(sparse_graph.subgraph(set().union(*balls)))
        expected.remove_edges_from([(one, two)])
        nodes, links, ends, _ = alone(found, place)
        assert nodes == set(expected)
        assert links == {frozenset(link) for link in expected.edges}
        assert ends == sorted([one, two])


def test_the_cases_above_include_the_awkward_ones(sparse_graph):
    pairs = [tuple(pair) for pair in some_pairs(80, 60).t().tolist()]
    assert any(sparse_graph.degree[one] == 0 for one, _ in pairs)
    joined = {nx.has_path(sparse_graph, *pair) for pair in pairs}
    assert joined == {True, False}


def test_links_are_sorted_by_target_and_stay_within_their_subgraph(hubs):
    found = Surroundings(links_of(hubs), nodes=300).around(some_pairs(300, 20))
    source, target = found.edge_index
    owner = torch.repeat_interleave(found.sizes)
    assert (target.diff() >= 0).all()
    assert torch.equal(owner[source], owner[target])
    assert torch.equal(owner[target].bincount(minlength=20), found.edges)
    assert torch.equal(owner[found.ends], torch.arange(20).expand(2, 20))


def test_labels_are_those_of_the_subgraph(hubs):
    found = Surroundings(links_of(hubs), nodes=300, cap=20).around(some_pairs(300, 20))
    assert torch.equal(found.labels, drnl(found.edge_index, found.ends, nodes=len(found.nodes)))
    assert found.labels.unique().numel() > 5


@pytest.mark.parametrize("cap", [1, 5, 17])
def test_no_step_adds_more_nodes_than_the_cap(hubs, cap):
    pairs = some_pairs(300, 40)
    found = Surroundings(links_of(hubs), nodes=300, hops=2, cap=cap).around(pairs)
    reached_cap = 0
    for place, pair in enumerate(pairs.t().tolist()):
        nodes, links, _, _ = alone(found, place)
        first = set().union(*(hubs[end] for end in pair)) - set(pair)
        second = set().union(set(), *(hubs[node] for node in nodes & first)) - first - set(pair)
        assert len(nodes & first) == min(cap, len(first))
        assert len(nodes - first - set(pair)) == min(cap, len(second))
        assert nodes <= first | second | set(pair)
        inside = {frozenset(link) for link in hubs.subgraph(nodes).edges}
        assert links == inside - {frozenset(pair)}
        reached_cap += len(first) > cap
    assert reached_cap > 5


def test_a_cap_that_is_never_reached_changes_nothing(hubs):
    pairs, links = some_pairs(300, 20), links_of(hubs)
    free = Surroundings(links, nodes=300, cap=None).around(pairs)
    assert same(Surroundings(links, nodes=300, cap=300).around(pairs), free)


def test_every_node_has_the_same_chance_to_stay():
    # A star of 40 leaves, cap 10, many pairs at its hub: the standard error of 1,560 is 0.011.
    leaves, cap = 40, 10
    star = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    nodes = leaves + 1 + 1560
    pairs = torch.stack([torch.zeros(1560, dtype=torch.long), torch.arange(leaves + 1, nodes)])
    found = Surroundings(star, nodes=nodes, hops=1, cap=cap).around(pairs)
    stays = found.nodes.bincount(minlength=nodes)[1 : leaves + 1] / 1560
    assert stays.mean() == pytest.approx(cap / leaves)
    assert (stays - cap / leaves).abs().max() < 5 * 0.011


def test_the_choice_depends_on_the_seed(hubs):
    pairs, links = some_pairs(300, 20), links_of(hubs)
    one, again, other = (
        Surroundings(links, nodes=300, cap=5, seed=seed).around(pairs) for seed in (0, 0, 1)
    )
    assert same(one, again)
    assert not torch.equal(one.nodes, other.nodes)


@pytest.mark.parametrize("cap", [5, None])
def test_neither_the_other_pairs_nor_the_order_of_the_ends_matter(hubs, cap):
    pairs = some_pairs(300, 30)
    x = torch.rand(300, 50, generator=torch.Generator().manual_seed(0))
    surroundings = Surroundings(links_of(hubs), nodes=300, x=x, cap=cap)
    together = surroundings.around(pairs)
    for place in range(0, 30, 7):
        single = surroundings.around(pairs[:, [place]])
        assert same(single, together.pick(torch.tensor([place])))
    assert same(surroundings.around(pairs.flip(0)), together)
    order = torch.randint(
        30, (40,), generator=torch.Generator().manual_seed(0)
    )  # some of them twice
    assert same(surroundings.around(pairs[:, order]), together.pick(order))


def test_chunks_leave_no_trace(hubs, monkeypatch):
    pairs, links = some_pairs(300, 30), links_of(hubs)
    whole = Surroundings(links, nodes=300, cap=5)
    assert whole.chunk >= 30
    monkeypatch.setattr(subgraphs, "ENTRIES", 1)
    pieces = Surroundings(links, nodes=300, cap=5)
    assert pieces.chunk == 1
    assert same(pieces.around(pairs), whole.around(pairs))


@pytest.mark.parametrize("cap", [5, None])
def test_the_own_link_of_a_pair_makes_no_difference(hubs, cap):
    links = links_of(hubs)
    for place in range(0, links.size(1), 97):
        pair = links[:, [place]]
        rest = torch.cat([links[:, :place], links[:, place + 1 :]], dim=1)
        seen, unseen = (
            Surroundings(given, nodes=300, cap=cap).around(pair) for given in (links, rest)
        )
        assert same(seen, unseen)


def test_direction_order_and_repetition_of_links_make_no_difference(hubs):
    links, pairs = links_of(hubs), some_pairs(300, 10)
    found = Surroundings(links, nodes=300, cap=5).around(pairs)
    mixed = torch.cat([links.flip(0).flip(1), links[:, :9]], dim=1)
    assert same(Surroundings(mixed, nodes=300, cap=5).around(pairs), found)


def test_new_numbers_for_the_nodes_change_only_the_numbers(sparse_graph):
    links, pairs = links_of(sparse_graph), some_pairs(80, 20)
    x = torch.rand(80, 3, generator=torch.Generator().manual_seed(0))
    new = torch.randperm(80, generator=torch.Generator().manual_seed(1))
    moved_x = torch.empty_like(x)
    moved_x[new] = x
    before = Surroundings(links, nodes=80, x=x, cap=None).around(pairs)
    after = Surroundings(new[links], nodes=80, x=moved_x, cap=None).around(new[pairs])
    for place in range(20):
        nodes, inner, _, labels = alone(before, place)
        moved_nodes, moved_inner, _, moved_labels = alone(after, place)
        assert moved_nodes == {int(new[node]) for node in nodes}
        assert moved_inner == {frozenset(int(new[node]) for node in link) for link in inner}
        assert moved_labels == {int(new[node]): label for node, label in labels.items()}


def test_likeness_to_both_ends_smaller_first(sparse_graph):
    x = torch.rand(80, 6, generator=torch.Generator().manual_seed(0))
    found = Surroundings(links_of(sparse_graph), nodes=80, x=x).around(some_pairs(80, 20))
    centred = (x - x.mean(dim=0)).double()
    cosine = torch.nn.functional.cosine_similarity
    ends = found.nodes[found.ends][:, torch.repeat_interleave(found.sizes)]
    expected = [cosine(centred[found.nodes], centred[end], dim=1) for end in ends]
    expected = torch.stack([torch.minimum(*expected), torch.maximum(*expected)], dim=1)
    torch.testing.assert_close(found.alike.double(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(found.alike[found.ends, 1], torch.ones(2, 20))


def test_without_attributes_there_is_no_likeness(sparse_graph):
    found = Surroundings(links_of(sparse_graph), nodes=80).around(some_pairs(80, 3))
    assert found.alike.shape == (len(found.nodes), 0)


def test_a_graph_without_links():
    none = torch.empty(2, 0, dtype=torch.long)
    found = Surroundings(none, nodes=4).around(torch.tensor([[3, 0], [1, 2]]))
    assert found.nodes.tolist() == [1, 3, 0, 2]
    assert found.labels.tolist() == [1, 1, 1, 1]
    assert found.edge_index.shape == (2, 0)


def test_no_pairs_have_no_subgraphs(hubs):
    found = Surroundings(links_of(hubs), nodes=300).around(torch.empty(2, 0, dtype=torch.long))
    assert len(found) == len(found.nodes) == found.edge_index.size(1) == found.ends.size(1) == 0


@pytest.mark.parametrize("options", [{"hops": 0}, {"cap": 0}])
def test_options_that_leave_nothing_to_see_are_refused(options):
    with pytest.raises(OptionError, match="look around"):
        Surroundings(torch.tensor([[0], [1]]), nodes=2, **options)


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [
        (torch.tensor([[0, 1], [1, 3]]), r"pairs[:, 1] is (1, 3)"),
        (torch.tensor([[0, -1], [1, 2]]), r"pairs[:, 1] is (-1, 2)"),
        (torch.tensor([[2], [2]]), r"pairs[:, 0] is (2, 2)"),
        (torch.zeros(2, 1), "torch.float32 of shape (2, 1)"),
        (torch.zeros(3, 2, dtype=torch.long), "shape (3, 2)"),
    ],
)
def test_pairs_that_cannot_be_are_named(pairs, problem):
    surroundings = Surroundings(torch.tensor([[0], [1]]), nodes=3)
    with pytest.raises(GraphError) as caught:
        surroundings.around(pairs)
    assert problem in caught.value.problem


def test_a_link_of_a_node_with_itself_is_named():
    with pytest.raises(GraphError) as caught:
        Surroundings(torch.tensor([[0, 1], [1, 1]]), nodes=3)
    assert caught.value.problem == "links[:, 1] is (1, 1)"
