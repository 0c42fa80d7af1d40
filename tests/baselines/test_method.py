"""What holds for every baseline."""

import pytest
import torch
from torch.testing import assert_close

from baselines.two_groups import changed, two_groups
from varigraph.baselines.drop_connect import DropConnect
from varigraph.baselines.plain import DeepEnsemble, McDropout, Plain
from varigraph.training import paper_network, train


def trained_network(graph):
    model = paper_network(graph)
    train(model, graph, epochs=2)
    return model


def ensemble(graph):
    def build(seed):
        return paper_network(graph, seed=seed)

    return DeepEnsemble.fit(build, graph, members=2, epochs=2)


#: How each is trained, and where its weights are.
FITS = {
    "plain": (lambda graph: Plain(trained_network(graph)), lambda method: [method.model]),
    "mc-dropout": (lambda graph: McDropout(trained_network(graph)), lambda method: [method.model]),
    "deep-ensemble": (ensemble, lambda method: method.models),
    "drop-connect": (
        lambda graph: DropConnect.fit(graph, layers=2, hidden=8, epochs=20),
        lambda method: [method.network],
    ),
}


def weights(name, method):
    networks = torch.nn.ModuleList(FITS[name][1](method))
    return {key: value.clone() for key, value in networks.state_dict().items()}


def assert_identical(one, two):
    assert one.keys() == two.keys()
    assert all(one[key].equal(two[key]) for key in one)


@pytest.mark.parametrize("name", FITS)
def test_labels_of_test_nodes_change_nothing(name):
    graph, fit = two_groups(), FITS[name][0]
    y = graph.y.clone()
    y[graph.test_mask] = 1 - y[graph.test_mask]
    before, other = torch.get_rng_state(), changed(graph, y=y)
    one, two = fit(graph), fit(other)
    assert_identical(weights(name, one), weights(name, two))
    assert one.predict(graph, samples=5).mean.equal(two.predict(other, samples=5).mean)
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize("name", FITS)
def test_labels_of_training_nodes_do_change_the_weights(name):
    graph, fit = two_groups(), FITS[name][0]
    one, two = (weights(name, fit(g)) for g in (graph, changed(graph, y=1 - graph.y)))
    assert any(not one[key].equal(two[key]) for key in one)


@pytest.mark.parametrize("name", FITS)
def test_a_prediction_needs_no_labels_and_is_reproducible(name):
    graph = two_groups()
    method = FITS[name][0](graph)
    before, known = torch.get_rng_state(), weights(name, method)
    bare = changed(graph, y=None, train_mask=None, val_mask=None, test_mask=None)
    one, same = (method.predict(bare, samples=5, seed=1) for _ in range(2))
    assert one.mean.equal(same.mean)
    assert one.total.equal(same.total)
    assert one.method == name
    assert_close(one.mean.sum(1), torch.ones(80))
    assert torch.get_rng_state().equal(before)
    assert_identical(weights(name, method), known)


@pytest.mark.parametrize("name", ["mc-dropout", "drop-connect"])
def test_the_seed_decides_about_the_draws(name):
    graph = two_groups()
    method = FITS[name][0](graph)
    one, other = (method.predict(graph, samples=5, seed=seed) for seed in (1, 2))
    assert not one.mean.equal(other.mean)
