import math

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.data import Data, HeteroData

from varigraph.data import add_noise, check_graph, load
from varigraph.errors import GraphError


def refusal(graph):
    with pytest.raises(GraphError) as caught:
        check_graph(graph)
    return caught.value


def test_good_graphs_pass_and_stay_as_they_are(graph):
    graph.x_var, graph.edge_prob = torch.tensor([0.1, 0.2]), torch.tensor([0.5, 1.0, 1e-6, 0.5])
    before = graph.clone().to_dict()
    assert check_graph(graph) is None
    assert graph.to_dict().keys() == before.keys()
    assert all(torch.equal(graph[key], value) for key, value in before.items())


def test_cora_passes_with_noise():
    check_graph(add_noise(load("cora"), percent=5))


def test_an_edge_index_object_passes(graph):
    graph.edge_index = EdgeIndex(graph.edge_index, sparse_size=(3, 3))
    graph.edge_prob = torch.full((4,), 0.5)
    check_graph(graph)


def test_a_sparse_matrix_passes_but_not_with_probabilities(sparse):
    check_graph(sparse)
    sparse.edge_prob = torch.full((4,), 0.5)
    error = refusal(sparse)
    assert "edge_prob is given without edge_index" in error.problem
    assert "in the order of edge_prob" in error.remedy


def test_every_part_is_looked_at(graph):
    assert "no kind of nodes has features" in refusal(HeteroData()).problem
    assert "no features x" in refusal(Data(edge_index=graph.edge_index)).problem
    assert "no links edge_index" in refusal(Data(x=graph.x)).problem
    wrong = graph.clone()
    wrong.x[2, 1] = math.nan
    assert "node 2, feature 1" in refusal(wrong).problem
    wrong = graph.clone()
    wrong.x_var = -1.0
    assert "x_var is -1.0" in refusal(wrong).problem
    wrong = graph.clone()
    wrong.edge_index[0, 3] = 9
    assert "edge_index[0, 3] is node 9" in refusal(wrong).problem


@pytest.mark.parametrize(
    ("prob", "problem"),
    [
        ([0.5] * 4, "edge_prob is a list, not a tensor of floats"),
        (torch.ones(4, dtype=torch.long), "edge_prob is torch.int64, not a tensor of floats"),
        (torch.ones(3), "edge_prob has shape (3,), but there are 4 links"),
        (torch.ones(4, 1), "edge_prob has shape (4, 1), but there are 4 links"),
        (torch.tensor(0.5), "edge_prob has shape (), but there are 4 links"),
        (torch.ones(4, device="meta"), "edge_prob is on meta, the rest of the graph on cpu"),
    ],
)
def test_probabilities_of_another_form_are_refused(graph, prob, problem):
    graph.edge_prob = prob
    assert refusal(graph).problem == problem


@pytest.mark.parametrize("bad", [0.0, -0.5, 1.5, math.nan, math.inf])
def test_numbers_that_are_no_probabilities_are_named(graph, bad):
    graph.edge_prob = torch.tensor([0.5, 1.0, bad, bad])
    error = refusal(graph)
    assert error.problem == f"edge_prob[2] is {bad}, outside (0, 1]"
    assert "drop those that cannot exist" in error.remedy


def test_a_link_with_two_probabilities_is_named():
    links = torch.tensor([[0, 2, 1, 2], [1, 1, 0, 1]])
    graph = Data(x=torch.ones(3, 1), edge_index=links, edge_prob=torch.tensor([0.5, 0.6, 0.7, 0.8]))
    error = refusal(graph)
    assert error.problem == (
        "the link (2, 1) is listed twice with different probabilities: "
        "edge_prob[1] is 0.6, edge_prob[3] is 0.8"
    )
    assert error.remedy == "keep one of the two"


def test_a_link_listed_twice_with_one_probability_passes():
    links = torch.tensor([[0, 2, 1, 2], [1, 1, 0, 1]])
    check_graph(
        Data(x=torch.ones(3, 1), edge_index=links, edge_prob=torch.tensor([0.5, 0.6, 0.7, 0.6]))
    )


def test_no_links_have_no_probabilities(graph):
    graph.edge_index, graph.edge_prob = torch.empty(2, 0, dtype=torch.long), torch.empty(0)
    check_graph(graph)
