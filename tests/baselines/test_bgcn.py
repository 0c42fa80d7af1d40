import pytest
import torch
from torch.testing import assert_close
from torch_geometric.data import Data

import varigraph as vg
from varigraph.baselines.bgcn import Bgcn
from varigraph.baselines.gcn import normalised
from varigraph.errors import ModelError, OptionError

QUICK = {"edges_per_node": 5, "epochs": 60}


def groups(nodes=60):
    """Two groups, most links within them, 4 labels of each known."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(nodes) % 2
    likely = torch.where(y[:, None] == y, 0.2, 0.03)
    links = (torch.rand(nodes, nodes, generator=generator) < likely).nonzero().T
    x = torch.rand(nodes, 10, generator=generator) + torch.nn.functional.one_hot(y, 10)
    return Data(x=x, edge_index=links, y=y, train_mask=torch.arange(nodes) < 8)


@pytest.fixture(scope="module")
def fitted():
    return Bgcn.fit(groups(), **QUICK)


def test_it_tells_the_groups_apart(fitted):
    graph = groups()
    pred = fitted.predict(graph, samples=30)
    right = pred.mean.argmax(dim=1) == graph.y
    assert right[~graph.train_mask].float().mean() > 0.85
    assert (pred.method, pred.samples) == ("bgcn", 30)
    assert_close(pred.mean.sum(dim=1), torch.ones(60))
    assert pred.total.min() > 0
    assert_close(pred.epistemic, pred.total)


def test_the_mean_is_that_of_dropout_on_the_learnt_graph(fitted):
    graph, generator = groups(), torch.Generator().manual_seed(5)
    a = normalised(fitted.edge_index, 60, fitted.edge_weight).csr.to_dense()
    first, second = fitted.model.first, fitted.model.second
    draws = []
    for _ in range(3):
        x = graph.x * (torch.rand(60, 10, generator=generator) >= 0.5) * 2
        h = (a @ x @ first).relu()
        h = h * (torch.rand(60, 16, generator=generator) >= 0.5) * 2
        draws.append((a @ h @ second).softmax(dim=1).detach())
    pred = fitted.predict(graph, samples=3, seed=5)
    assert_close(pred.mean, torch.stack(draws).mean(0), rtol=1e-4, atol=1e-5)


def test_labels_of_other_nodes_change_nothing(fitted):
    graph = groups()
    graph.y[8:] = 1 - graph.y[8:]
    again = Bgcn.fit(graph, **QUICK)
    assert torch.equal(again.edge_index, fitted.edge_index)
    assert torch.equal(again.edge_weight, fitted.edge_weight)
    assert torch.equal(again.model.first, fitted.model.first)
    assert torch.equal(again.model.second, fitted.model.second)


def test_seeds_decide_and_the_global_generator_is_left_alone(fitted):
    graph, state = groups(), torch.random.get_rng_state()
    first, again, other = (fitted.predict(graph, samples=3, seed=seed) for seed in (1, 1, 2))
    reseeded = Bgcn.fit(graph, **QUICK, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first.mean, again.mean)
    assert not torch.equal(first.mean, other.mean)
    assert not torch.equal(reseeded.model.first, fitted.model.first)


def test_noisy_features_are_predicted_with_the_weights_learnt_from_clean_ones(fitted):
    graph = groups()
    noisy = vg.add_noise(graph, percent=50, seed=0)
    first = fitted.model.first.clone()
    clean, changed = (fitted.predict(g, samples=10) for g in (graph, noisy))
    assert not torch.equal(clean.mean, changed.mean)
    assert torch.equal(fitted.model.first, first)


def test_progress_ends_at_one():
    told = []
    Bgcn.fit(groups(), **QUICK, progress=lambda fraction, what: told.append(fraction))
    assert told == sorted(told)
    assert told[-1] == 1


def test_mistakes_are_explained(fitted):
    graph = groups()
    with pytest.raises(OptionError, match="no draws"):
        fitted.predict(graph, samples=0)
    with pytest.raises(OptionError, match="epochs=0"):
        Bgcn.fit(graph, epochs=0)
    graph.x = graph.x[:, :4]
    with pytest.raises(ModelError, match="x has shape"):
        fitted.predict(graph)
