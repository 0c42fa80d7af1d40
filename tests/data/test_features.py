import math

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

from varigraph.data.graph_parts import feature_variance, features, finite_features, first
from varigraph.errors import GraphError


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_good_features_are_handed_over_as_they_are(dtype):
    x = torch.ones(3, 2, dtype=dtype)
    assert features(Data(x=x)) is x
    assert finite_features(Data(x=x)) is x


@pytest.mark.parametrize(
    ("x", "problem", "remedy"),
    [
        (None, "no features x", "graph.x = "),
        ([[1.0]], "x is a list, not a tensor", "torch.as_tensor"),
        (torch.eye(2).to_sparse(), "x is stored as torch.sparse_coo", "to_dense()"),
        (torch.ones(3, 2, dtype=torch.long), "x has dtype torch.int64", "x.float()"),
        (torch.ones(3), "x has shape (3,), not [nodes, features]", "view(nodes, features)"),
        (torch.ones(3, 2, 1), "x has shape (3, 2, 1)", "view(nodes, features)"),
        (torch.ones(0, 2), "x has 0 nodes and 2 features", "at least one node"),
        (torch.ones(2, 0), "x has 2 nodes and 0 features", "one feature"),
    ],
)
def test_features_of_another_form_are_refused(x, problem, remedy):
    with pytest.raises(GraphError) as caught:
        features(Data(x=x))
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_named(bad):
    x = torch.ones(3, 2)
    x[1, 1] = x[2, 0] = bad
    with pytest.raises(GraphError) as caught:
        finite_features(Data(x=x))
    assert caught.value.problem == f"x[1, 1] is {bad}: node 1, feature 1 is not finite"
    assert "nan_to_num" in caught.value.remedy


def test_graphs_of_several_kinds_are_refused_for_now():
    with pytest.raises(GraphError) as caught:
        features(HeteroData())
    assert "only vg.predict takes several kinds of nodes" in caught.value.problem
    assert "to_homogeneous()" in caught.value.remedy


@pytest.mark.parametrize(("other", "kind"), [(None, "NoneType"), (torch.ones(2, 2), "Tensor")])
def test_what_is_no_graph_is_refused(other, kind):
    with pytest.raises(GraphError) as caught:
        features(other)
    assert caught.value.problem == f"the graph is a {kind}, not a torch_geometric.data.Data"
    assert "Data(x=" in caught.value.remedy


def test_first_is_the_first():
    assert first(torch.tensor([[False, False], [True, True]])) == [1, 0]
    assert first(torch.tensor(True)) == []


# ---- batches of graphs ----


def batch(*, graphs=3, features=4, **noise):
    each = [
        Data(
            x=torch.rand(k + 1, features),
            edge_index=torch.zeros(2, 0, dtype=torch.long),
            **{name: make(k) for name, make in noise.items()},
        )
        for k in range(graphs)
    ]
    return Batch.from_data_list(each)


def test_a_number_for_each_graph_of_a_batch_goes_to_its_nodes():
    joined = batch(x_var=lambda k: 0.1 * (k + 1))
    assert joined.x_var.shape == (3,)  # what torch_geometric makes of it
    want = torch.tensor([0.1, 0.2, 0.2, 0.3, 0.3, 0.3])
    assert torch.allclose(feature_variance(joined), want[:, None].expand(6, 4))


def test_a_vector_for_each_graph_of_a_batch_goes_to_its_nodes():
    joined = batch(x_var=lambda k: torch.arange(4.0) + 10 * k)
    want = torch.arange(4.0) + 10 * torch.tensor([0, 1, 1, 2, 2, 2])[:, None]
    assert torch.equal(feature_variance(joined), want)


def test_a_vector_for_a_whole_batch_means_features():
    joined = batch()
    joined.x_var = torch.arange(4.0)
    assert torch.equal(feature_variance(joined), torch.arange(4.0).expand(6, 4))


def test_as_many_graphs_as_features_must_be_made_clear():
    joined = batch(graphs=4, x_var=lambda k: 0.1)
    with pytest.raises(GraphError, match="one for each graph or for each feature"):
        feature_variance(joined)
    joined.x_var = joined.x_var[joined.batch].view(-1, 1)
    assert torch.allclose(feature_variance(joined), torch.tensor(0.1).expand(10, 4))
