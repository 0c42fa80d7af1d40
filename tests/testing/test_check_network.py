"""The law of networks holds for ours, and finds every kind of mistake that it is there for."""

from dataclasses import replace

import pytest
import torch
import torch_geometric.nn as gnn

import varigraph as vg
from prediction import test_calling as calling
from prediction import test_evaluation_mode as evaluation
from prediction import test_own_code as own_code
from prediction import test_tasks as tasks
from prediction.networks import Functional, WithModules, made, noisy_ring
from varigraph.testing import check_network, networks

LITTLE = 0.02


def graph(*, links=False):
    found = noisy_ring()
    found.x_var = LITTLE
    if links:
        found.edge_prob = torch.full((found.num_edges,), 0.9, dtype=torch.float64)
    return found


NETWORKS = {
    "functional": (Functional, {}),
    "modules": (WithModules, {}),
    "model(data)": (calling.Tutorial, {}),
    "binary": (lambda: tasks.Labels(1), {"task": "binary"}),
    "multilabel": (lambda: tasks.Labels(3), {"task": "multilabel"}),
    "sigmoid": (lambda: tasks.Labels(3, last=torch.sigmoid), {"task": "multilabel"}),
    "regression": (lambda: tasks.Labels(2), {"task": "regression"}),
    "attention": (lambda: gnn.GAT(4, 8, 2, 3), {}),
    "GCN": (lambda: gnn.GCN(4, 8, 2, 3, norm="batch_norm", jk="cat"), {}),
    "GIN": (lambda: gnn.GIN(4, 8, 2, 3), {}),
    "several outputs": (lambda: calling.Several(lambda out, h: (h, out)), {"output": 1}),
    "pairs": (calling.Encoding, {"links_to_score": [[0, 1, 2], [3, 5, 4]]}),
    "some nodes": (Functional, {"nodes": [5, 1]}),
    "a forward": (Functional, {"forward": lambda model, x, data: 2 * model(x, data.edge_index)}),
    **{kind.__name__: (kind, {}) for kind in own_code.KEEPING},
    **{kind.__name__: (kind, {}) for kind in own_code.ANSWERED},
    **{
        kind.__name__: (kind, {})
        for kind in (evaluation.PropagatesInEvaluation, evaluation.ScalesInEvaluation)
    },
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_law_holds_with_noisy_features(name):
    build, options = NETWORKS[name]
    check_network(made(build), graph(), **options)


@pytest.mark.parametrize("name", ["functional", "model(data)", "attention", "binary", "pairs"])
def test_the_law_holds_with_removed_links(name):
    build, options = NETWORKS[name]
    check_network(made(build), graph(links=True), **options)


@pytest.mark.parametrize("method", ["first-order", "sampled"])
def test_other_methods_can_be_asked_for(method):
    assert check_network(made(Functional), graph(), method=method).method == method


def test_a_call_of_ones_own_is_the_judge():
    model = made(lambda: tasks.Labels(3))
    check_network(model, graph(), call=lambda model, data: model(data.x, data.edge_index))
    with pytest.raises(AssertionError, match="law 1"):
        check_network(model, graph(), call=lambda model, data: -model(data.x, data.edge_index))


def answering(change):
    """``vg.predict`` with a mistake."""

    def predict(model, data, **options):
        return change(vg.predict(model, data, **options), model, data)

    return predict


def shifted(pred, model, data):
    return replace(pred, mean=pred.mean.roll(1, 0))


def widened(pred, model, data):
    return replace(pred, by_source={part: 4 * var for part, var in pred.by_source.items()})


def silent(pred, model, data):
    return replace(pred, by_source={part: 0 * var for part, var in pred.by_source.items()})


def mode(pred, model, data):
    model.first.train()
    return pred


def left(pred, model, data):
    model.first.hidden = pred.mean
    return pred


def weights(pred, model, data):
    with torch.no_grad():
        model.first.lin_l.weight[0, 0] += 1e-12
    return pred


def features(pred, model, data):
    data.x[0, 0] += 1e-12
    return pred


def fields(pred, model, data):
    data.more = 1
    return pred


def drew(pred, model, data):
    torch.rand(1)
    return pred


@pytest.mark.filterwarnings("ignore:the network has no dropout")
@pytest.mark.parametrize(
    ("mistake", "law"),
    [(shifted, 1), (widened, 3), (silent, 3), (mode, 2), (left, 2), (weights, 2), (features, 2),
     (fields, 2), (drew, 2)],
)  # fmt: skip
def test_every_mistake_is_found(monkeypatch, mistake, law):
    model, data = made(lambda: tasks.Labels(3)), graph()
    monkeypatch.setattr(networks, "predict", answering(mistake))
    with torch.random.fork_rng(), pytest.raises(AssertionError, match=f"law {law}"):
        check_network(model, data)
