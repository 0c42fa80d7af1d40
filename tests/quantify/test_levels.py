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
    assert scores.total == pytest.approx(0.03)
    assert scores.aleatoric == pytest.approx(0.02)
    assert scores.epistemic == scores.by_source["weights"] == pytest.approx(0.01)
    assert scores.by_source["links"] == pytest.approx(0.006)
