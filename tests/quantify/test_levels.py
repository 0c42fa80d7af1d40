import pytest
import torch

from varigraph.metrics import accuracy, cross_entropy, per_class_nll
from varigraph.quantify import score

MEAN, LABELS = torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])


def parts(features, links, weights, interactions):
    values = {
        "features": features,
        "links": links,
        "weights": weights,
        "interactions": interactions,
    }
    return {part: torch.full((2, 2), value) for part, value in values.items()}


def test_scores_are_those_of_the_functions():
    scores = score(MEAN, parts(0.015, 0.006, 0.01, -0.001), LABELS)
    assert scores.accuracy == accuracy(MEAN, LABELS)
    assert scores.cross_entropy == cross_entropy(MEAN, LABELS)
    nll = per_class_nll(MEAN, torch.full((2, 2), 0.03), LABELS)
    assert scores.per_class_nll == pytest.approx(nll)
    assert scores.total == pytest.approx(0.03)
    assert scores.aleatoric == pytest.approx(0.02)
    assert scores.epistemic == scores.by_source["weights"] == pytest.approx(0.01)
    assert scores.by_source["links"] == pytest.approx(0.006)


def test_without_any_variance_there_is_no_nll():
    assert score(MEAN, parts(0.0, 0.0, 0.0, 0.0), LABELS).per_class_nll is None
