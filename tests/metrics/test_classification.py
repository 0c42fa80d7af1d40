import math

import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics
from torchmetrics.functional.classification import multiclass_accuracy

from metrics.drawn import classified
from varigraph.metrics import accuracy, binary_brier, brier, cross_entropy

DTYPES = [torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(3))
def test_accuracy_agrees_with_torchmetrics(dtype, seed):
    mean, labels = classified(dtype=dtype, seed=seed)
    expected = multiclass_accuracy(mean, labels, num_classes=5, average="micro")
    assert accuracy(mean, labels) == pytest.approx(float(expected))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_entropy_agrees_with_torch(dtype):
    mean, labels = classified(dtype=dtype)
    assert cross_entropy(mean, labels) == pytest.approx(float(F.nll_loss(mean.log(), labels)))


def test_cross_entropy_agrees_with_sklearn():
    mean, labels = classified()
    assert cross_entropy(mean, labels) == pytest.approx(metrics.log_loss(labels, mean))


def test_an_impossible_class_costs_much_but_not_everything():
    loss = cross_entropy(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))
    assert loss == pytest.approx(-math.log(torch.finfo(torch.float32).tiny))


@pytest.mark.parametrize("classes", [3, 7])
@pytest.mark.parametrize("seed", range(3))
def test_brier_agrees_with_sklearn(classes, seed):
    mean, labels = classified(classes=classes, seed=seed)
    expected = metrics.brier_score_loss(labels, mean, labels=range(classes))
    assert brier(mean, labels) == pytest.approx(expected, abs=1e-12)


def test_brier_of_two_classes_is_twice_that_of_one():
    mean, labels = classified(classes=2)
    assert brier(mean, labels) == pytest.approx(2 * binary_brier(mean[:, 1], labels == 1))


def test_certainty_is_best_or_worst():
    mean = torch.eye(3)
    assert brier(mean, torch.tensor([0, 1, 2])) == 0
    assert brier(mean, torch.tensor([1, 2, 0])) == 2


def test_one_class_is_always_right():
    mean, labels = torch.ones(4, 1), torch.zeros(4, dtype=torch.long)
    assert accuracy(mean, labels) == 1
    assert cross_entropy(mean, labels) == brier(mean, labels) == 0
