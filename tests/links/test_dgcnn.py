import networkx as nx
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import SortAggregation

from varigraph.links.seal import Dgcnn, sort_pool
from varigraph.links.subgraphs import Subgraphs, Surroundings

LABELS = 12


@pytest.fixture
def graphs():
    """12 subgraphs of 37 to 92 nodes, with attributes."""
    graph = nx.barabasi_albert_graph(120, 2, seed=3)
    links = torch.tensor(list(graph.edges)).t()
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(120, 4, generator=draw)
    pairs = torch.stack([torch.arange(12), torch.arange(100, 112)])
    return Surroundings(links, nodes=120, x=x, cap=None).around(pairs)


def network(kept, *, alike=2, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return Dgcnn(labels=LABELS, alike=alike, kept=kept).double().eval()


def dense(graphs, place):
    """Adjacency matrix and inputs of one subgraph."""
    one = graphs.pick(torch.tensor([place]))
    matrix = torch.zeros(len(one.nodes), len(one.nodes)).double()
    matrix[one.edge_index[1], one.edge_index[0]] = 1
    one_hot = torch.eye(LABELS).double()[one.labels.clamp(max=LABELS - 1)]
    return matrix, torch.cat([one_hot, one.alike.double()], dim=1)


def reference(model, matrix, h):
    """The network of the paper for one subgraph, with matrices and a strided convolution."""
    closed = matrix + torch.eye(len(matrix))
    channels = []
    for layer in model.layers:
        total = closed @ h @ layer.weigh.weight.t() + layer.bias
        h = torch.tanh(torch.diag(1 / closed.sum(dim=1)) @ total)
        channels.append(h)
    rows = torch.cat(channels, dim=1)
    rows = rows[rows[:, -1].argsort(descending=True)][: model.kept]
    rows = F.pad(rows, (0, 0, 0, model.kept - len(rows)))
    h = F.conv1d(
        rows.reshape(1, 1, -1), model.node.weight[:, None], model.node.bias, stride=rows.size(1)
    )
    h = F.max_pool1d(F.relu(h), 2, 2)
    convolution, first, last = (model.read[place] for place in (2, 5, 8))
    h = F.relu(F.conv1d(h, convolution.weight, convolution.bias))
    return last(F.relu(first(h.flatten())))


@pytest.mark.parametrize("kept", [10, 60, 95])
def test_it_is_the_network_of_the_paper(graphs, kept):
    assert graphs.sizes.min() < 60 < graphs.sizes.max() < 95
    model = network(kept)
    weights = list(model.parameters())
    found = model(graphs)
    expected = torch.cat([reference(model, *dense(graphs, place)) for place in range(12)])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert found.std() > 1e-4
    slopes = torch.autograd.grad(found.square().sum(), weights)
    expected_slopes = torch.autograd.grad(expected.square().sum(), weights)
    for slope, expected_slope in zip(slopes, expected_slopes, strict=True):
        torch.testing.assert_close(slope, expected_slope, rtol=0, atol=1e-9)
        assert slope.abs().max() > 0


def test_the_widths_are_those_of_the_paper():
    model = network(10)
    assert [layer.weigh.out_features for layer in model.layers] == [32, 32, 32, 1]
    assert model.node.in_features == 97


@pytest.mark.parametrize("kept", [10, 90])
def test_the_order_of_the_nodes_makes_no_difference(graphs, kept):
    one = graphs.pick(torch.tensor([1]))
    place = torch.randperm(len(one.nodes), generator=torch.Generator().manual_seed(0))  # old -> new
    old = place.argsort()
    moved = place[one.edge_index]
    turned = Subgraphs(
        nodes=one.nodes[old],
        labels=one.labels[old],
        alike=one.alike[old],
        edge_index=moved[:, moved[1].argsort(stable=True)],
        ends=place[one.ends],
        sizes=one.sizes,
        edges=one.edges,
    )
    model = network(kept)
    with torch.no_grad():
        torch.testing.assert_close(model(turned), model(one), rtol=0, atol=1e-12)


def test_each_subgraph_is_judged_by_itself(graphs):
    model = network(25)
    with torch.no_grad():
        alone = [model(graphs.pick(torch.tensor([place]))) for place in range(len(graphs))]
        torch.testing.assert_close(model(graphs), torch.cat(alone), rtol=0, atol=1e-12)


def test_labels_never_seen_count_as_the_largest(graphs):
    model = network(25)
    known = Subgraphs(**{**vars(graphs), "labels": graphs.labels.clamp(max=LABELS - 1)})
    beyond = known.labels.where(known.labels < LABELS - 1, 1000)
    assert (beyond == 1000).any()
    with torch.no_grad():
        assert torch.equal(model(Subgraphs(**{**vars(graphs), "labels": beyond})), model(known))


def test_it_does_without_attributes(graphs):
    model = network(25, alike=0)
    bare = Subgraphs(**{**vars(graphs), "alike": torch.empty(len(graphs.nodes), 0)})
    assert model(bare).shape == (len(graphs),)


@pytest.mark.parametrize("kept", [1, 3, 4, 9])
def test_sort_pooling_agrees_with_torch_geometric(kept):
    sizes = torch.tensor([4, 1, 7, 3])
    h = torch.randn(15, 5, generator=torch.Generator().manual_seed(0))
    expected = SortAggregation(kept)(h, torch.repeat_interleave(sizes)).view(4, kept, 5)
    assert torch.equal(sort_pool(h, sizes, kept), expected)


def test_sort_pooling_by_hand():
    h = torch.tensor([[1.0, 0.2], [2.0, 0.9], [3.0, 0.5], [4.0, -1.0]])
    pooled = sort_pool(h, torch.tensor([3, 1]), 2)
    assert pooled.tolist() == [h[[1, 2]].tolist(), [h[3].tolist(), [0.0, 0.0]]]


@pytest.mark.parametrize("kept", [3, 12])
def test_sort_pooling_does_not_care_about_the_order_of_nodes(kept):
    draw = torch.Generator().manual_seed(0)
    h = torch.randn(14, 5, generator=draw)
    sizes = torch.tensor([8, 6])
    order = torch.cat([torch.randperm(8, generator=draw), 8 + torch.randperm(6, generator=draw)])
    assert torch.equal(sort_pool(h[order], sizes, kept), sort_pool(h, sizes, kept))
