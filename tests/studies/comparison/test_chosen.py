import copy
from typing import get_args

import pytest
import torch
from torch.testing import assert_close

import varigraph as vg
from varigraph.studies.comparison.cells import DATASET
from varigraph.studies.comparison.methods import ClosedForm, OwnMean
from varigraph.studies.comparison.protocols import CHOSEN, Chosen, Network, _OnOneGraph


@pytest.fixture(scope="module")
def graph():
    graph = vg.load("cora")
    graph.x_var = vg.add_noise(graph, percent=12).x_var
    return graph


def test_every_data_set_of_the_tables_has_a_network():
    assert CHOSEN.keys() == set(DATASET.values())


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("network", get_args(Network))
def test_links_as_a_matrix_give_the_same_answer(graph, network):
    model = Chosen(network, 0.0, "inject").built(graph, seed=0).eval()
    with torch.no_grad():
        listed = model(graph.x, graph.edge_index)
        assert_close(_OnOneGraph(model, graph)(graph.x, graph.edge_index), listed)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("noise", ["inject", "propagate"])
def test_it_is_trained_and_ready_to_predict(graph, noise):
    chosen = Chosen("gcn", 5e-5, noise)
    untrained = chosen.built(graph, seed=0)
    model = chosen.trained(graph, seed=0, epochs=30)
    assert not model.training
    assert untrained.state_dict().keys() == model.state_dict().keys()
    accuracy = [
        (each.eval()(graph.x, graph.edge_index).argmax(1) == graph.y).double().mean().item()
        for each in (untrained, model)
    ]
    assert accuracy[1] > accuracy[0] + 0.2


def test_error_bars_around_the_networks_own_softmax(graph):
    model = Chosen("gcn", 0.0, "inject").built(graph, seed=0).eval()
    noisy = vg.add_noise(vg.load("cora"), percent=12)
    with_links = copy.copy(noisy)
    with_links.edge_prob = torch.full((noisy.num_edges,), 0.5)
    bars = ClosedForm(model, method="sampled", certain_links=True)
    found = OwnMean(bars).predict(with_links, samples=10)
    with torch.no_grad():
        assert_close(found.mean, model(noisy.x, noisy.edge_index).softmax(1))
    assert_close(found.total, bars.predict(noisy, samples=10).total)
    assert not found.by_source["links"].any()
