import pytest
import torch
from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import GATConv, GCNConv, GINConv, GraphConv, SAGEConv

from varigraph.errors import GraphError, ModelError
from varigraph.moments import LinkProbabilities
from varigraph.moments.messages import scaled_messages

LINKS = torch.tensor([[0, 1, 2, 3, 1, 0, 4], [1, 2, 3, 1, 0, 2, 1]])
WEIGHT = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3], dtype=torch.float64)
X = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def dense(links, weight, nodes=5):  # [nodes, nodes], row = target
    return torch.zeros(nodes, nodes, dtype=weight.dtype).index_put(
        (links[1], links[0]), weight, accumulate=True
    )


def scaled(layer, links=LINKS, weight=WEIGHT, graph=LINKS):
    with scaled_messages(layer, LinkProbabilities(graph, weight, 5)):
        return layer(X, links)


def sage(layer, weight=WEIGHT, links=LINKS):
    count = dense(links, torch.ones_like(weight)).sum(1, keepdim=True).clamp_min(1)
    return layer.lin_l(dense(links, weight) @ X / count) + layer.lin_r(X)


def test_sage_keeps_the_neighbour_count():
    layer = SAGEConv(3, 2).double()
    torch.testing.assert_close(scaled(layer), sage(layer))


def test_gcn_keeps_its_degrees_and_its_certain_loops():
    layer = GCNConv(3, 2).double()
    observed = dense(LINKS, torch.ones_like(WEIGHT)) + torch.eye(5, dtype=torch.float64)
    scale = observed.sum(1).rsqrt()
    mean = scale[:, None] * (dense(LINKS, WEIGHT) + torch.eye(5)) * scale
    torch.testing.assert_close(scaled(layer), mean @ layer.lin(X) + layer.bias)


def test_graph_conv():
    layer = GraphConv(3, 2).double()
    expected = layer.lin_rel(dense(LINKS, WEIGHT) @ X) + layer.lin_root(X)
    torch.testing.assert_close(scaled(layer), expected)


def test_gin():
    layer = GINConv(nn.Linear(3, 2)).double()
    torch.testing.assert_close(scaled(layer), layer.nn(dense(LINKS, WEIGHT) @ X + X))


@pytest.mark.parametrize("concat", [True, False])
def test_gat_keeps_its_attention(concat):
    layer = GATConv(3, 2, heads=4, concat=concat).double()
    _, (links, attention) = layer(X, LINKS, return_attention_weights=True)
    weight = torch.cat([WEIGHT, torch.ones(5)]).double()  # loops come last and are certain
    value = layer.lin(X).view(5, 4, 2)
    heads = [dense(links, weight * attention[:, h]) @ value[:, h] for h in range(4)]
    out = torch.cat(heads, dim=1) if concat else torch.stack(heads).mean(0)
    torch.testing.assert_close(scaled(layer), out + layer.bias)


def test_the_other_flow():
    layer = GraphConv(3, 2, flow="target_to_source").double()
    expected = layer.lin_rel(dense(LINKS.flip(0), WEIGHT) @ X) + layer.lin_root(X)
    torch.testing.assert_close(scaled(layer), expected)


def test_links_in_another_order_are_found():
    layer, order = SAGEConv(3, 2).double(), torch.tensor([6, 2, 0, 4, 1, 5, 3])
    torch.testing.assert_close(scaled(layer, LINKS[:, order]), scaled(layer))


def test_repeated_links_have_one_weight_each():
    links, weight = torch.cat([LINKS, LINKS[:, :2]], 1), torch.cat([WEIGHT, WEIGHT[:2]])
    layer = GCNConv(3, 2, normalize=False, bias=False).double()
    torch.testing.assert_close(
        scaled(layer, links, weight, links), dense(links, weight) @ layer.lin(X)
    )


def test_loops_of_the_graph_count_only_where_the_layer_adds_none():
    links, weight = torch.cat([LINKS, torch.tensor([[2], [2]])], 1), torch.cat([WEIGHT, WEIGHT[:1]])
    layer = GraphConv(3, 2).double()
    expected = layer.lin_rel(dense(links, weight) @ X) + layer.lin_root(X)
    torch.testing.assert_close(scaled(layer, links, weight, links), expected)
    gcn = GCNConv(3, 2).double()
    with scaled_messages(
        gcn, LinkProbabilities(links, torch.where(weight == WEIGHT[0], weight, 1.0), 5)
    ):
        inside = gcn(X, links)
    one = torch.where((weight == WEIGHT[0]) & (links[0] != links[1]), weight, 1.0)
    torch.testing.assert_close(inside, scaled(gcn, links, one, links))


def test_loops_of_nodes_without_links():
    layer = GCNConv(3, 2).double()
    none = torch.empty(2, 0, dtype=torch.long)
    torch.testing.assert_close(scaled(layer, none, WEIGHT[:0], none), layer(X, none))


def test_sorted_edge_index_is_not_fused_away():
    layer, order = SAGEConv(3, 2).double(), LINKS[1].argsort()
    links = EdgeIndex(LINKS[:, order], sparse_size=(5, 5), sort_order="col")
    torch.testing.assert_close(scaled(layer, links), sage(layer))
    assert layer.fuse


def test_batched_messages():
    layer = SAGEConv(3, 2).double()
    with scaled_messages(layer, LinkProbabilities(LINKS, WEIGHT, 5)):
        torch.testing.assert_close(layer(torch.stack([X, X]), LINKS)[1], layer(X, LINKS))


def test_gradients_reach_weights_and_layers():
    layer, weight = GCNConv(3, 2).double(), WEIGHT.clone().requires_grad_()
    scaled(layer, weight=weight).sum().backward()
    assert (weight.grad != 0).all()
    assert (layer.lin.weight.grad != 0).any()


def test_an_unknown_link_is_refused():
    network = nn.ModuleList([SAGEConv(3, 2)]).double()
    with (
        pytest.raises(ModelError, match="made the link 2 -> 0"),
        scaled_messages(network, LinkProbabilities(LINKS, WEIGHT, 5)),
    ):
        network[0](X, torch.tensor([[2], [0]]))


def test_sparse_adjacency_is_refused():
    ones = torch.ones(LINKS.size(1))
    adjacency = torch.sparse_coo_tensor(LINKS.flip(0), ones, (5, 5), check_invariants=True)
    with pytest.raises(ModelError, match="sparse adjacency"):
        scaled(SAGEConv(3, 2).double(), adjacency)


def test_a_network_without_messages_is_refused():
    with pytest.raises(ModelError, match="no MessagePassing layer"):
        scaled(nn.Linear(3, 2))


def test_weights_must_match_the_links():
    with pytest.raises(GraphError, match="7 links"):
        LinkProbabilities(LINKS, WEIGHT[:3], 5)


def test_the_network_is_itself_again_after_an_error():
    layer = SAGEConv(3, 2).double()
    before = layer(X, LINKS)
    with (
        pytest.raises(KeyboardInterrupt),
        scaled_messages(layer, LinkProbabilities(LINKS, WEIGHT, 5)),
    ):
        raise KeyboardInterrupt
    assert layer(X, LINKS).equal(before)
    assert layer.fuse
    assert not layer._message_forward_hooks
    assert not layer._propagate_forward_pre_hooks
