import math

import pytest
import torch
from sklearn import metrics

from metrics.drawn import pairs
from varigraph.metrics import binary_brier, log_loss


@pytest.mark.parametrize("seed", range(3))
def test_losses_agree_with_sklearn(seed):
    prob, real = pairs(seed=seed)
    expected = metrics.brier_score_loss(real, prob)
    assert binary_brier(prob, real) == pytest.approx(expected, abs=1e-12)
    assert log_loss(prob, real) == pytest.approx(metrics.log_loss(real, prob), abs=1e-12)


def test_wrong_certainty_is_infinitely_surprising():
    assert log_loss(torch.tensor([0.0, 0.5]), torch.tensor([True, True])) == math.inf


def test_right_certainty_costs_nothing():
    prob, real = torch.tensor([0.0, 1.0]), torch.tensor([False, True])
    assert log_loss(prob, real) == binary_brier(prob, real) == 0


def test_single_precision_is_computed_in_double():
    prob = torch.full((3,), 1e-30)
    assert log_loss(prob, torch.ones(3, dtype=torch.bool)) == pytest.approx(30 * math.log(10))
