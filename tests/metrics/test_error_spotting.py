import math

import pytest
import torch
from sklearn import metrics

from metrics.drawn import classified
from varigraph.errors import GraphError
from varigraph.metrics import risk_coverage, spot_errors


@pytest.mark.parametrize("levels", [None, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_agrees_with_sklearn_for_uncertainty_and_confidence(levels, dtype):
    mean, labels = classified(levels=levels, dtype=dtype)
    entropy = -(mean * mean.clamp_min(1e-30).log()).sum(dim=1)
    found = spot_errors(mean, labels, entropy)
    wrong, plain = mean.argmax(dim=1) != labels, 1 - mean.double().amax(dim=1)
    assert found.auroc == pytest.approx(metrics.roc_auc_score(wrong, entropy))
    assert found.confidence_auroc == pytest.approx(metrics.roc_auc_score(wrong, plain))
    assert found.average_precision == pytest.approx(metrics.average_precision_score(wrong, entropy))
    expected = metrics.average_precision_score(wrong, plain)
    assert found.confidence_average_precision == pytest.approx(expected)
    assert found.risk_coverage_area == risk_coverage(entropy, wrong).area
    expected = risk_coverage(plain, wrong).area
    assert found.confidence_risk_coverage_area == pytest.approx(expected, abs=1e-12)


def test_knowing_the_errors_is_perfect():
    mean, labels = classified()
    found = spot_errors(mean, labels, (mean.argmax(dim=1) != labels).float())
    assert found.auroc == found.average_precision == 1
    assert found.confidence_auroc < 1
    assert found.risk_coverage_area < found.confidence_risk_coverage_area


@pytest.mark.parametrize(("shift", "area"), [(0, 0), (1, 1)])
def test_nothing_is_ranked_where_all_are_right_or_all_wrong(shift, area):
    found = spot_errors(torch.eye(3), (torch.arange(3) + shift) % 3, torch.rand(3))
    assert found.auroc is found.average_precision is None
    assert found.confidence_auroc is found.confidence_average_precision is None
    assert found.risk_coverage_area == found.confidence_risk_coverage_area == pytest.approx(area)


@pytest.mark.parametrize("shape", [(2,), (3, 1), ()])
def test_there_is_one_uncertainty_for_each_node(shape):
    with pytest.raises(GraphError, match="uncertainty has shape"):
        spot_errors(torch.eye(3), torch.arange(3), torch.zeros(shape))


def test_uncertainty_that_is_no_number_is_refused():
    with pytest.raises(GraphError, match="NaN"):
        spot_errors(torch.eye(3), torch.arange(3), torch.tensor([0.0, math.nan, 1.0]))


def test_the_rival_is_judged_by_its_own_errors():
    mean, labels = classified()
    plain = mean.roll(5, 0)
    found = spot_errors(mean, labels, torch.rand(len(labels)), plain=plain)
    wrong = plain.argmax(dim=1) != labels
    expected = metrics.roc_auc_score(wrong, -plain.amax(dim=1))
    assert found.confidence_auroc == pytest.approx(expected)
    area = risk_coverage(-plain.amax(dim=1), wrong).area
    assert found.confidence_risk_coverage_area == pytest.approx(area)
