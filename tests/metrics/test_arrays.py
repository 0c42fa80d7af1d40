"""Measures take whatever holds numbers, and refuse by name what does not."""

import math

import numpy as np
import pytest
import torch

import varigraph as vg
from varigraph.errors import VarigraphError

MEAN = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3]])
LABELS, REAL = torch.tensor([0, 1, 2, 2]), torch.tensor([False, True, True, False])
PROB, ENDS = torch.tensor([0.1, 0.9, 0.8, 0.3]), torch.tensor([[0, 1, 2], [1, 2, 3]])
MEASURES = {
    **dict.fromkeys(("accuracy", "brier", "cross_entropy", "ece"), (MEAN, LABELS)),
    **dict.fromkeys(("gaussian_nll", "interval_coverage"), (MEAN, MEAN / 9, MEAN)),
    **dict.fromkeys(("auroc", "average_precision", "binary_brier", "log_loss"), (PROB, REAL)),
    **dict.fromkeys(("binary_ece", "risk_coverage"), (PROB, REAL)),
    "variance_calibration": (MEAN, MEAN / 9, MEAN),
    "per_class_nll": (MEAN, MEAN / 9, LABELS),
    "spot_errors": (MEAN, LABELS, PROB),
    "ece_by_degree": (MEAN, LABELS, ENDS),
    "ece_by_distance": (MEAN, LABELS, ENDS, REAL),
}


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize(
    "form",
    [lambda t: t.numpy(), lambda t: t.double().tolist() if t.is_floating_point() else t.tolist()],
)
def test_measures_take_arrays_and_lists(name, form):
    measure, given = getattr(vg.metrics, name), MEASURES[name]
    assert str(measure(*map(form, given)))[:12] == str(measure(*given))[:12]


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize(
    "bad",
    [
        None, 3, "a", [], {}, object(), math.nan, [[1], [1, 2]], torch.empty(0), torch.tensor(1.0),
        MEAN[:2, 0], MEAN[None], MEAN.cfloat(), MEAN.to("meta"), MEAN.to_sparse(),
        np.array(["a"] * 4), np.array([None] * 4), torch.full((4, 3), math.nan),
    ],
)  # fmt: skip
def test_what_cannot_be_measured(name, bad):
    given = MEASURES[name]
    for place in range(len(given)):
        with pytest.raises(VarigraphError):
            getattr(vg.metrics, name)(*given[:place], bad, *given[place + 1 :])


@pytest.mark.parametrize("bins", [0, 1.5, "a", None, math.nan, 2**70, [3], True])
def test_senseless_intervals(bins):
    with pytest.raises(VarigraphError, match="bins="):
        vg.metrics.ece(MEAN, LABELS, bins=bins)
