import math

import pytest
import torch
import torch.nn.functional as F
from torchmetrics.functional.classification import multiclass_accuracy

from varigraph.errors import GraphError, OptionError
from varigraph.quantify import accuracy, cross_entropy, per_class_nll


@pytest.fixture(params=[torch.float32, torch.float64])
def prediction(request):
    draw = torch.Generator().manual_seed(1)
    mean = torch.randn(200, 5, generator=draw, dtype=request.param).softmax(-1)
    total = torch.rand(200, 5, generator=draw, dtype=request.param) / 10
    return mean, total, torch.randint(5, (200,), generator=draw)


def test_accuracy_agrees_with_torchmetrics(prediction):
    mean, _, labels = prediction
    expected = multiclass_accuracy(mean, labels, num_classes=5, average="micro")
    assert accuracy(mean, labels) == pytest.approx(float(expected))


def test_cross_entropy_agrees_with_torch(prediction):
    mean, _, labels = prediction
    assert cross_entropy(mean, labels) == pytest.approx(float(F.nll_loss(mean.log(), labels)))


def test_per_class_nll_agrees_with_torch(prediction):
    mean, total, labels = prediction
    truth = F.one_hot(labels, 5).to(mean)
    total[0] = 0
    expected = F.gaussian_nll_loss(mean, truth, total)
    assert per_class_nll(mean, total, labels) == pytest.approx(float(expected), rel=1e-5)


def test_an_impossible_class_costs_much_but_not_everything():
    loss = cross_entropy(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))
    assert loss == pytest.approx(-math.log(torch.finfo(torch.float32).tiny))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("label", [0, 1])
def test_zero_variance_gives_a_finite_nll(dtype, label):
    mean = torch.tensor([[1.0, 0.0]], dtype=dtype)
    assert math.isfinite(per_class_nll(mean, torch.zeros_like(mean), torch.tensor([label])))


def test_the_floor_can_be_moved():
    mean, total = torch.tensor([[1.0, 0.0]]), torch.full((1, 2), 1e-9)
    labels = torch.tensor([0])
    assert per_class_nll(mean, total, labels) == pytest.approx(math.log(1e-6) / 2)
    assert per_class_nll(mean, total, labels, floor=1e-30) == pytest.approx(math.log(1e-9) / 2)
    with pytest.raises(OptionError, match="floor"):
        per_class_nll(mean, total, labels, floor=0)


MEAN, LABELS = torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("mean", "labels", "error"),
    [
        (MEAN[0], LABELS, GraphError),
        (MEAN, LABELS[:1], GraphError),
        (MEAN[:0], LABELS[:0], GraphError),
        (MEAN, torch.tensor([0, 2]), GraphError),
        (MEAN, torch.tensor([-1, 0]), GraphError),
        (MEAN, torch.tensor([0.0, 1.0]), GraphError),
        (MEAN.log(), LABELS, OptionError),
        (MEAN * torch.nan, LABELS, OptionError),
        (LABELS[:, None], torch.tensor([0, 0]), OptionError),
    ],
)
@pytest.mark.parametrize("function", [accuracy, cross_entropy])
def test_what_cannot_be_right_is_refused(function, mean, labels, error):
    with pytest.raises(error, match="remedy"):
        function(mean, labels)


@pytest.mark.parametrize("total", [MEAN[:1], -MEAN, MEAN * torch.nan])
def test_variances_that_cannot_be_right_are_refused(total):
    with pytest.raises(GraphError, match="total"):
        per_class_nll(MEAN, total, LABELS)
