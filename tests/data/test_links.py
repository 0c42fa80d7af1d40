import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from varigraph.data.graph_parts import links
from varigraph.errors import GraphError


def refusal(graph):
    with pytest.raises(GraphError) as caught:
        links(graph)
    return caught.value


def test_good_links_are_handed_over_as_they_are(graph):
    assert links(graph) is graph.edge_index


def test_an_edge_index_object_becomes_a_plain_tensor(graph):
    plain = graph.edge_index
    graph.edge_index = EdgeIndex(plain, sparse_size=(3, 3), sort_order="row")
    assert type(links(graph)) is torch.Tensor
    assert torch.equal(links(graph), plain)


def test_a_graph_may_have_no_links(graph):
    graph.edge_index = torch.empty(2, 0, dtype=torch.long)
    assert links(graph).shape == (2, 0)


def test_a_sparse_matrix_serves_instead(sparse):
    assert links(sparse) is None


def test_a_sparse_matrix_does_not_hide_wrong_links(graph, sparse):
    sparse.edge_index = graph.edge_index + 7
    assert "edge_index[0, 0] is node 7" in refusal(sparse).problem


def test_a_sparse_matrix_of_another_size_is_refused(sparse):
    sparse.x = torch.ones(4, 2)
    error = refusal(sparse)
    assert error.problem == "adj_t has shape (3, 3), but the graph has 4 nodes"
    assert error.remedy == "give a matrix of shape (4, 4)"


def test_a_sparse_matrix_on_another_device_is_refused(sparse):
    sparse.x = sparse.x.to("meta")
    assert refusal(sparse).problem == "adj_t is on cpu, the rest of the graph on meta"


@pytest.mark.parametrize(
    ("adjacency", "kind"),
    [(torch.eye(3), "torch.strided"), (torch.eye(3).to_sparse(), "torch.sparse_coo"), ("A", "str")],
)
def test_other_matrices_are_refused(graph, adjacency, kind):
    error = refusal(Data(x=graph.x, adj_t=adjacency))
    assert error.problem == f"adj_t is a {kind}, not a sparse CSR tensor of torch"
    assert "edge_index" in error.remedy


@pytest.mark.parametrize(
    ("edge_index", "problem", "remedy"),
    [
        (None, "no links edge_index", "torch.empty(2, 0"),
        ([[0], [1]], "edge_index is a list, not a tensor", "torch.as_tensor"),
        (torch.eye(3).to_sparse(), "edge_index is stored as torch.sparse_coo", "graph.adj_t"),
        (torch.zeros(2, 1), "edge_index has dtype torch.float32", ".long()"),
        (torch.zeros(2, 1, dtype=torch.int32), "edge_index has dtype torch.int32", ".long()"),
        (torch.zeros(4, 2, dtype=torch.long), "edge_index has shape (4, 2)", "edge_index.t()"),
        (torch.zeros(2, dtype=torch.long), "edge_index has shape (2,)", "row of sources"),
    ],
)
def test_links_of_another_form_are_refused(graph, edge_index, problem, remedy):
    error = refusal(Data(x=graph.x, edge_index=edge_index))
    assert problem in error.problem
    assert remedy in error.remedy


@pytest.mark.parametrize("node", [-1, 3])
def test_nodes_that_do_not_exist_are_named(graph, node):
    graph.edge_index[1, 2] = node
    error = refusal(graph)
    assert error.problem == f"edge_index[1, 2] is node {node}, but the graph has nodes 0 to 2"
    assert "link 2" in error.remedy


def test_links_on_another_device_are_refused(graph):
    graph.edge_index = graph.edge_index.to("meta")
    error = refusal(graph)
    assert error.problem == "edge_index is on meta, the rest of the graph on cpu"
    assert error.remedy == "graph = graph.to('cpu')"
