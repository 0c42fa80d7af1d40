"""Real graphs of real size: what holds for a small one holds for them."""

import pytest
import torch
import torch_geometric.nn as gnn

import varigraph as vg

pytestmark = pytest.mark.real_data
NETWORKS = {
    "paper": vg.paper_network,
    "sage": lambda graph: with_relu(gnn.GraphSAGE, graph),
    "gcn": lambda graph: with_relu(gnn.GCN, graph),
}


def with_relu(kind, graph):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(graph.num_features, 32, 2, int(graph.y.max()) + 1, dropout=0.3).eval()


@pytest.fixture(scope="module", params=["pubmed", "computers"])
def graph(request, stored):
    return stored(request.param)


@pytest.fixture(scope="module")
def noisy(graph):
    return vg.add_noise(graph, percent=12, seed=0)


@pytest.fixture(scope="module", params=NETWORKS)
def model(request, graph):
    return NETWORKS[request.param](graph)


@pytest.fixture(scope="module")
def pred(model, noisy):
    return vg.predict(model, noisy, method="diagonal", samples=3, seed=5)


def test_means_are_probabilities(pred, graph):
    assert pred.mean.shape == (graph.num_nodes, int(graph.y.max()) + 1)
    assert bool((pred.mean >= 0).all())
    assert torch.allclose(pred.mean.sum(1), torch.ones(graph.num_nodes), atol=1e-5)


def test_variances_are_those_of_probabilities(pred):
    for var in (pred.aleatoric, pred.epistemic):
        assert bool((var >= 0).all())
        assert float(var.mean()) > 0
    assert bool((pred.total <= pred.mean * (1 - pred.mean) + 1e-6).all())
    assert bool((pred.logits.var > 0).all())


def test_without_noise_and_masks_it_is_the_plain_network(model, graph):
    found = vg.predict(model, graph, method="diagonal", samples=0)
    with torch.no_grad():
        plain = model.eval()(graph.x, graph.edge_index)
    assert torch.allclose(found.logits.mean, plain, atol=1e-5)
    assert torch.allclose(found.mean, plain.softmax(1), atol=1e-5)
    assert float(found.total.max()) == 0


def test_a_seed_gives_the_same_answer_for_some_nodes_and_in_any_batches(pred, model, noisy):
    some = noisy.test_mask
    again = vg.predict(
        model, noisy, method="diagonal", samples=3, seed=5, memory="60MB", nodes=some
    )
    for part in ("mean", "aleatoric", "epistemic"):
        assert torch.allclose(getattr(again, part), getattr(pred, part)[some], atol=1e-6)
    other = vg.predict(model, noisy, method="diagonal", samples=3, seed=6, nodes=some)
    assert not torch.allclose(other.epistemic, again.epistemic, rtol=0.1, atol=0)
