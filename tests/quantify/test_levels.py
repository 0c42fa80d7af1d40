import math

import pytest
import torch

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


def test_scores_worked_out_by_hand():
    scores = score(MEAN, parts(0.015, 0.006, 0.01, -0.001), LABELS)
    assert scores.accuracy == 0.5
    assert scores.cross_entropy == pytest.approx(-(math.log(0.9) + math.log(0.4)) / 2)
    squares = (0.1**2 + 0.1**2 + 0.6**2 + 0.6**2) / 4
    want = math.log(0.03) / 2 + squares / (2 * 0.03)
    assert scores.per_class_nll == pytest.approx(want)
    assert scores.total == pytest.approx(0.03)
    assert scores.aleatoric == pytest.approx(0.02)
    assert scores.epistemic == scores.by_source["weights"] == pytest.approx(0.01)
    assert scores.by_source["links"] == pytest.approx(0.006)


def test_without_any_variance_there_is_no_nll():
    assert score(MEAN, parts(0.0, 0.0, 0.0, 0.0), LABELS).per_class_nll is None
