import math

import pytest
import torch

import varigraph as vg
from metrics.drawn import classified, pairs
from varigraph.errors import GraphError, OptionError
from varigraph.metrics import (
    accuracy,
    auroc,
    average_precision,
    binary_brier,
    binary_ece,
    brier,
    cross_entropy,
    ece,
    gaussian_nll,
    interval_coverage,
    log_loss,
    per_class_nll,
    risk_coverage,
    spot_errors,
    variance_calibration,
)
from varigraph.metrics.calibration import Reliability

MEAN, LABELS = torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1])
OF_CLASSES = {
    "accuracy": accuracy,
    "cross_entropy": cross_entropy,
    "brier": brier,
    "ece": ece,
    "per_class_nll": lambda mean, labels: per_class_nll(mean, torch.ones_like(mean), labels),
    "spot_errors": lambda mean, labels: spot_errors(mean, labels, torch.zeros(len(labels))),
}
OF_PROBABILITIES = [log_loss, binary_brier, binary_ece, Reliability.of]
RANKINGS = [auroc, average_precision]
OF_VARIANCES = [gaussian_nll, interval_coverage, variance_calibration]


@pytest.mark.parametrize(
    ("mean", "labels", "error", "culprit"),
    [
        (MEAN[0], LABELS, GraphError, "mean has shape"),
        (MEAN, LABELS[:1], GraphError, "labels have"),
        (MEAN[:0], LABELS[:0], GraphError, "at least one node"),
        (MEAN[:, :0], LABELS, GraphError, "mean has shape"),
        (MEAN, torch.tensor([0, 2]), GraphError, "integers from 0 to 1"),
        (MEAN, torch.tensor([-1, 0]), GraphError, "integers from 0 to 1"),
        (MEAN, torch.tensor([0.0, 1.0]), GraphError, "integers"),
        (MEAN, torch.tensor([True, False]), GraphError, "integers"),
        (MEAN.log(), LABELS, OptionError, "outside 0 to 1"),
        (MEAN * math.nan, LABELS, OptionError, "outside 0 to 1"),
        (LABELS[:, None], torch.tensor([0, 0]), OptionError, "outside 0 to 1"),
        (MEAN * torch.tensor([[1.0], [0.9]]), LABELS, OptionError, r"mean\[1\] adds up to 0.9"),
    ],
)
@pytest.mark.parametrize("measure", OF_CLASSES.values(), ids=OF_CLASSES)
def test_what_is_no_classification_is_refused(measure, mean, labels, error, culprit):
    with pytest.raises(error, match=culprit) as caught:
        measure(mean, labels)
    assert caught.value.remedy


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("measure", OF_CLASSES.values(), ids=OF_CLASSES)
def test_rounded_probabilities_are_still_probabilities(measure, dtype):
    mean, labels = classified(200, 40, dtype=dtype)
    measure(mean, labels.int())


@pytest.mark.parametrize("measure", [*RANKINGS, *OF_PROBABILITIES, risk_coverage])
def test_what_does_not_fit_together_is_refused(measure):
    prob, real = pairs(10)
    for wrong in (
        (prob[:9], real),
        (prob, real.long()),
        (prob[None], real[None]),
        (prob[:0], real[:0]),
        (prob * 1j, real),
    ):
        with pytest.raises(GraphError, match="shape"):
            measure(*wrong)
    with pytest.raises(GraphError, match="NaN"):
        measure(torch.tensor([0.5, math.nan]), torch.tensor([True, False]))


@pytest.mark.parametrize("measure", RANKINGS)
@pytest.mark.parametrize("truth", [True, False])
def test_ranking_needs_both_kinds(measure, truth):
    with pytest.raises(GraphError, match=f"{3 * truth} of 3 truth values are true"):
        measure(torch.rand(3), torch.full((3,), truth))


@pytest.mark.parametrize("measure", OF_PROBABILITIES)
@pytest.mark.parametrize("bad", [-0.1, 1.1, math.inf])
def test_logits_are_not_taken_for_probabilities(measure, bad):
    with pytest.raises(OptionError, match="outside 0 to 1"):
        measure(torch.tensor([0.5, bad]), torch.tensor([True, False]))


@pytest.mark.parametrize("measure", OF_VARIANCES)
@pytest.mark.parametrize(
    ("mean", "var", "truth", "culprit"),
    [
        (torch.zeros(3), torch.ones(2), torch.zeros(3), "var has"),
        (torch.zeros(3), torch.ones(3), torch.zeros(3, 1), "truth has"),
        (torch.zeros(0), torch.ones(0), torch.zeros(0), "at least one"),
        (torch.zeros(1), -torch.ones(1), torch.zeros(1), "var holds"),
        (torch.zeros(1), torch.full((1,), math.nan), torch.zeros(1), "var holds"),
        (torch.zeros(1), torch.full((1,), math.inf), torch.zeros(1), "var holds"),
        (torch.full((1,), math.nan), torch.ones(1), torch.zeros(1), "mean holds"),
        (torch.zeros(1), torch.ones(1), torch.full((1,), math.inf), "truth holds"),
    ],
)
def test_variances_that_cannot_be_right_are_refused(measure, mean, var, truth, culprit):
    with pytest.raises(GraphError, match=culprit):
        measure(mean, var, truth)


@pytest.mark.parametrize("total", [MEAN[:1], -MEAN, MEAN * math.nan])
def test_the_variance_of_classes_is_called_total(total):
    with pytest.raises(GraphError, match="total h"):
        per_class_nll(MEAN, total, LABELS)


@pytest.mark.parametrize("bins", [0, -3])
def test_there_is_at_least_one_interval(bins):
    prob, real = pairs(10)
    for call in (
        lambda: ece(MEAN, LABELS, bins=bins),
        lambda: binary_ece(prob, real, bins=bins),
        lambda: Reliability.of(prob, real, bins=bins),
        lambda: variance_calibration(prob, prob, prob, bins=bins),
    ):
        with pytest.raises(OptionError, match=f"bins={bins} "):
            call()


def test_they_are_public():
    assert vg.metrics.ece is ece
    assert set(vg.metrics.__all__) <= set(dir(vg.metrics))
