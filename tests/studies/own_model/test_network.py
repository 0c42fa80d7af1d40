import pytest
import torch
from torch import nn
from torch_geometric.nn import SAGEConv

from cli.own_networks import network, small_graph, write_networks
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.studies.own_model.network import check_call, json_arguments, made_network


@pytest.fixture
def networks(tmp_path):
    return write_networks(tmp_path)


def test_weights_are_drawn_by_the_seed_and_nothing_else_is(networks):
    before = torch.get_rng_state()
    (one, untrained), (two, _) = (made_network(f"{networks}:Net", {}, seed=4) for _ in range(2))
    other, _ = made_network(f"{networks}:Net", {}, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.first.lin_l.weight, two.first.lin_l.weight)
    assert not torch.equal(one.first.lin_l.weight, other.first.lin_l.weight)
    assert untrained
    assert not one.training


def test_functions_and_finished_networks_are_trusted_to_have_weights(networks):
    for name in ("certain", "finished"):
        model, untrained = made_network(f"{networks}:{name}", {}, seed=0)
        assert isinstance(model, nn.Module)
        assert not untrained


def test_a_finished_network_takes_no_arguments(networks):
    with pytest.raises(OptionError, match="is a finished network"):
        made_network(f"{networks}:finished", {"width": 3}, seed=0)


def test_arguments_that_are_missing_are_named():
    with pytest.raises(OptionError, match="missing a required argument: 'in_channels'"):
        made_network("torch_geometric.nn:GraphSAGE", {"num_layers": 2}, seed=0)


def test_arguments_of_a_wrong_kind_fail_where_they_are_used():
    with pytest.raises(ModelError, match="could not be called"):
        made_network("torch.nn:Linear", {"in_features": "x", "out_features": 1}, seed=0)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"x"'])
def test_arguments_are_a_json_object(text):
    with pytest.raises(OptionError, match="--arguments is"):
        json_arguments(text)
    assert json_arguments(None) == {}


def test_a_call_leaves_network_and_randomness_alone(networks):
    model, graph = network(networks), small_graph()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    before = torch.get_rng_state()
    check_call(model, graph, None, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())


def test_layers_get_their_size_by_the_call():
    model = SAGEConv(-1, 3)
    check_call(model, small_graph(), None, seed=0)
    assert model.lin_l.weight.shape == (3, 5)


def test_a_graph_that_cannot_be_right_is_told_first(networks):
    graph = small_graph()
    graph.edge_index[0, 0] = 99
    with pytest.raises(GraphError, match="node 99"):
        check_call(network(networks), graph, None, seed=0)
