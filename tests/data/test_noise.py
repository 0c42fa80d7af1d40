import math

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from varigraph.data import add_noise, feature_variance
from varigraph.errors import GraphError, OptionError


@pytest.fixture
def wide():
    """Enough numbers for their moments to be known: mean 2."""
    return Data(x=torch.full((200, 500), 2.0), y=torch.arange(200))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_has_the_variance_it_claims(wide, dtype):
    wide.x = wide.x.to(dtype)
    noisy = add_noise(wide, percent=12)
    noise = noisy.x - wide.x
    assert noisy.x_var.shape == ()
    assert noisy.x_var.dtype == noisy.x.dtype == dtype
    assert noisy.x_var.item() == pytest.approx(0.12 * 2)
    assert noise.var().item() == pytest.approx(0.24, rel=0.02)  # 4.5 standard errors
    assert noise.mean().item() == pytest.approx(0, abs=0.007)  # 4.5 standard errors
    assert noise[0].std() > 0.4  # not one draw for a whole row
    assert noise[:, 0].std() > 0.4


def test_the_original_stays(wide):
    before, storage = wide.x.clone(), wide.x
    noisy = add_noise(wide, percent=5)
    assert wide.x is storage
    assert torch.equal(wide.x, before)
    assert set(wide.keys()) == {"x", "y"}
    assert set(noisy.keys()) == {"x", "y", "x_var"}


def test_no_noise_is_no_change(graph):
    noisy = add_noise(graph, percent=0)
    assert torch.equal(noisy.x, graph.x)
    assert noisy.x.data_ptr() != graph.x.data_ptr()
    assert noisy.x_var.shape == ()
    assert noisy.x_var == 0


def test_no_noise_needs_no_mean(graph):
    graph.x = -graph.x
    assert torch.equal(add_noise(graph, percent=0).x, graph.x)


def test_the_seed_decides_the_draw(graph):
    first = add_noise(graph, percent=5, seed=1)
    assert torch.equal(first.x, add_noise(graph, percent=5, seed=1).x)
    assert not torch.equal(first.x, add_noise(graph, percent=5, seed=2).x)


def test_the_global_random_state_stays(graph):
    before = torch.random.get_rng_state()
    add_noise(graph, percent=5)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_graph_without_noise_may_be_given_some(graph):
    assert add_noise(add_noise(graph, percent=0), percent=5).x_var > 0


@pytest.mark.parametrize("percent", [-1, math.nan, math.inf])
def test_senseless_percentages_are_refused(graph, percent):
    with pytest.raises(OptionError) as caught:
        add_noise(graph, percent=percent)
    assert caught.value.problem == f"percent={percent} makes no sense"
    assert "from 0 up" in caught.value.remedy


@pytest.mark.parametrize(("shift", "mean"), [(1.0, "0"), (3.0, "-2")])
def test_features_without_a_positive_mean_are_refused(shift, mean):
    with pytest.raises(GraphError) as caught:
        add_noise(Data(x=torch.ones(2, 2) - shift), percent=5)
    assert f"the mean feature value is {mean}," in caught.value.problem
    assert "has no meaning" in caught.value.problem
    assert "graph.x_var = " in caught.value.remedy


def test_features_that_are_noisy_already_are_refused(graph):
    with pytest.raises(
        GraphError, match=r"noisy already(.|\n)*remedy: add noise to the clean graph"
    ):
        add_noise(add_noise(graph, percent=5), percent=5)


def test_a_graph_without_features_is_refused(graph):
    with pytest.raises(GraphError, match=r"no features x(.|\n)*remedy: graph.x = "):
        add_noise(Data(edge_index=graph.edge_index), percent=5)


def test_features_that_are_nan_are_refused(graph):
    graph.x[1, 0] = math.nan
    with pytest.raises(GraphError, match=r"x\[1, 0\] is nan"):
        add_noise(graph, percent=5)


def test_variance_refuses_other_kinds_of_graph():
    with pytest.raises(GraphError, match="takes several kinds of nodes"):
        feature_variance(HeteroData())


@pytest.mark.parametrize("missing", [True, False])
def test_without_x_var_the_features_are_exact(graph, missing):
    if not missing:
        graph.x_var = None
    var = feature_variance(graph)
    assert var.shape == graph.x.shape
    assert not var.any()


@pytest.mark.parametrize(
    ("x_var", "expected"),
    [
        (2, [[2, 2], [2, 2], [2, 2]]),
        (0.25, [[0.25, 0.25], [0.25, 0.25], [0.25, 0.25]]),
        (torch.tensor(3), [[3, 3], [3, 3], [3, 3]]),
        (torch.tensor([1.0, 2.0]), [[1, 2], [1, 2], [1, 2]]),
        (np.array([1.0, 2.0]), [[1, 2], [1, 2], [1, 2]]),
        (torch.tensor([[1.0], [2.0], [3.0]]), [[1, 1], [2, 2], [3, 3]]),
        (torch.tensor([[1.0, 2], [3, 4], [5, 6]]), [[1, 2], [3, 4], [5, 6]]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_variance_takes_the_shape_and_dtype_of_the_features(graph, x_var, expected, dtype):
    graph.x, graph.x_var = graph.x.to(dtype), x_var
    assert torch.equal(feature_variance(graph), torch.tensor(expected, dtype=dtype))


def test_a_python_number_keeps_its_digits(graph):
    graph.x, graph.x_var = graph.x.double(), 0.1
    assert feature_variance(graph)[0, 0].item() == 0.1


def test_a_vector_means_features_where_there_are_as_many_nodes():
    graph = Data(x=torch.ones(2, 2), x_var=torch.tensor([1.0, 2.0]))
    assert feature_variance(graph).tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1), (1, 2), (2, 3), (3, 2, 1), (0,)])
def test_other_shapes_are_refused(graph, shape):
    graph.x_var = torch.ones(shape)
    with pytest.raises(GraphError) as caught:
        feature_variance(graph)
    assert caught.value.problem == f"x_var has shape {shape}, but x has 3 nodes and 2 features"
    assert "graph.x_var.view(-1, 1)" in caught.value.remedy


@pytest.mark.parametrize("bad", [-0.5, math.nan, math.inf])
@pytest.mark.parametrize(("shape", "index"), [((), ""), ((2,), "[1]"), ((3, 2), "[2, 1]")])
def test_values_that_are_no_variances_are_named(graph, bad, shape, index):
    graph.x_var = torch.ones(shape)
    graph.x_var.view(-1)[-1] = bad
    with pytest.raises(GraphError) as caught:
        feature_variance(graph)
    assert caught.value.problem == f"x_var{index} is {bad}"
    assert "finite variances from 0 up" in caught.value.remedy


@pytest.mark.parametrize("bad", ["much", [[1.0], [1.0, 2.0]], object()])
def test_what_makes_no_tensor_is_refused(graph, bad):
    graph.x_var = bad
    with pytest.raises(GraphError, match=f"x_var is a {type(bad).__name__} that makes no tensor"):
        feature_variance(graph)


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (torch.tensor(1j), "torch.complex64"),
        (True, "torch.bool"),
        (torch.ones(3, 2).to_sparse(), "torch.sparse_coo"),
    ],
)
def test_tensors_that_hold_no_plain_numbers_are_refused(graph, bad, named):
    graph.x_var = bad
    with pytest.raises(GraphError) as caught:
        feature_variance(graph)
    assert named in caught.value.problem
    assert "graph.x_var = " in caught.value.remedy
