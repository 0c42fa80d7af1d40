import copy

import pytest
import torch

from varigraph.baselines.plain import McDropout
from varigraph.studies.comparison import pieces
from varigraph.studies.comparison.methods import METHODS, MixedScales
from varigraph.studies.comparison.pieces import Bench, NetworkPiece, trained_network
from varigraph.studies.comparison.protocols import Options, graph_of

ids = [f"{method.protocol}-{method.name}" for method in METHODS]


@pytest.mark.parametrize("method", METHODS, ids=ids)
def test_labels_of_test_nodes_change_nothing(method, tmp_path, root, monkeypatch):
    graph = graph_of(method.protocol, "computers", root=root)
    answers = []
    for name, labels in (("true", graph.y), ("false", _permuted(graph))):
        seen = copy.copy(graph)
        seen.y = labels
        monkeypatch.setattr(pieces, "graph_of", lambda *_, seen=seen, **__: copy.copy(seen))
        options = Options(tmp_path / name, samples=3, links=None, quick=True, root=root)
        NetworkPiece(method.protocol, "computers", 0).make(options)
        bench = Bench(options, method.protocol, "computers", 0)
        fitted = method.fit(bench, 5.0)
        answers.append(fitted.predict(bench.seen_through(5.0), samples=3, seed=0))
    assert answers[0].mean.equal(answers[1].mean)
    assert answers[0].total.equal(answers[1].total)


def _permuted(graph):
    labels = graph.y.clone()
    labels[graph.test_mask] = (labels[graph.test_mask] + 1) % 3
    assert not labels.equal(graph.y)
    return labels


def test_names_are_unique_within_a_protocol():
    assert len(set(ids)) == len(ids)


def test_the_papers_variance_adds_logits_to_probabilities(tmp_path, root):
    options = Options(tmp_path, samples=20, links=None, quick=True, root=root)
    NetworkPiece("paper", "computers", 0).make(options)
    bench = Bench(options, "paper", "computers", 0)
    model, noisy = trained_network(bench), bench.seen_through(12.0)
    got = MixedScales(model).predict(noisy, samples=20, seed=1)
    torch.testing.assert_close(got.aleatoric, _squared_weights(model, noisy), rtol=1e-4, atol=1e-9)
    clean = MixedScales(model).predict(bench.graph, samples=20, seed=1)
    assert clean.aleatoric.abs().max() == 0
    masks = McDropout(model).predict(noisy, samples=2000, seed=2)
    torch.testing.assert_close(got.mean, masks.mean, rtol=0, atol=0.1)


def _squared_weights(model, noisy):
    """Variance of the logits, every number taken as independent, by dense matrices."""
    adjacency = torch.zeros(noisy.num_nodes, noisy.num_nodes)
    adjacency[noisy.edge_index[1], noisy.edge_index[0]] = 1
    share = adjacency / adjacency.sum(dim=1, keepdim=True).clamp_min(1)
    var = noisy.x_var.expand_as(noisy.x)
    for conv in (model.conv1, model.conv2):
        near, own = conv.lin_l.weight.square(), conv.lin_r.weight.square()
        var = share.square() @ var @ near.t() + var @ own.t()
    for dense in (model.dense1, model.dense2, model.dense3):
        var = var @ dense.weight.square().t()
    return var.detach()
