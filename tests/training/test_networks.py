import pytest
import torch
from torch_geometric.data import Data

from varigraph.errors import GraphError, OptionError
from varigraph.training import paper_network

GRAPH = Data(
    x=torch.rand(6, 4), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), y=torch.arange(6) % 3
)


def test_the_layers_are_the_papers():
    sizes = {name: tuple(value.shape) for name, value in paper_network(GRAPH).named_parameters()}
    assert sizes["conv1.lin_l.weight"] == sizes["conv1.lin_r.weight"] == (64, 4)
    assert sizes["conv2.lin_l.weight"] == sizes["conv2.lin_r.weight"] == (32, 64)
    assert [sizes[f"dense{i}.weight"] for i in (1, 2, 3)] == [(12, 32), (8, 12), (3, 8)]


def test_the_network_is_affine_in_the_features():
    model, x = paper_network(GRAPH).eval().double(), GRAPH.x.double()
    at = [model(scale * x, GRAPH.edge_index) for scale in (0.0, 1.0, 2.0)]
    torch.testing.assert_close(at[2] - at[1], at[1] - at[0])


def test_dropout_acts_in_training_only():
    model = paper_network(GRAPH, dropout=0.5)
    draws = [model.train()(GRAPH.x, GRAPH.edge_index) for _ in range(2)]
    assert not draws[0].equal(draws[1])
    model.eval()
    assert model(GRAPH.x, GRAPH.edge_index).equal(model(GRAPH.x, GRAPH.edge_index))


def test_the_seed_decides_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    one, same, other = (paper_network(GRAPH, seed=seed).dense1.weight for seed in (1, 1, 2))
    assert one.equal(same)
    assert not one.equal(other)
    assert torch.get_rng_state().equal(before)


def test_mistakes_are_explained():
    with pytest.raises(GraphError, match="labels"):
        paper_network(Data(x=GRAPH.x))
    with pytest.raises(OptionError, match="dropout"):
        paper_network(GRAPH, dropout=1.0)
