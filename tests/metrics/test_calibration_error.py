import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional.classification import (
    binary_calibration_error,
    multiclass_calibration_error,
)

from metrics.drawn import classified, pairs
from varigraph.errors import OptionError
from varigraph.metrics import binary_ece, ece


def gaps(groups, count):
    """The calibration error of lists of (probability, truth), by its definition."""
    total = 0.0
    for inside in groups:
        if inside:
            total += abs(sum(p for p, _ in inside) - sum(y for _, y in inside))
    return total / count


def of_equal_width(prob, real, bins):
    both = list(zip(prob.tolist(), real.tolist(), strict=True))
    edges = [(k / bins, (k + 1) / bins if k < bins - 1 else 2) for k in range(bins)]
    return gaps([[b for b in both if low <= b[0] < high] for low, high in edges], len(both))


@pytest.mark.parametrize("bins", [1, 7, 15])
@pytest.mark.parametrize("seed", range(3))
def test_truth_values_agree_with_loops_and_with_torchmetrics(bins, seed):
    prob, real = pairs(seed=seed)
    found = binary_ece(prob, real, bins=bins)
    assert found == pytest.approx(of_equal_width(prob, real, bins), abs=1e-12)
    theirs = binary_calibration_error(prob, real.long(), n_bins=bins, norm="l1")
    assert found == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("bins", [1, 10, 15])
@pytest.mark.parametrize("classes", [2, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_classes_agree_with_loops_and_with_torchmetrics(bins, classes, dtype):
    mean, labels = classified(classes=classes, dtype=dtype, seed=bins)
    found = ece(mean, labels, bins=bins)
    confidence, best = mean.double().max(dim=1)
    assert found == pytest.approx(of_equal_width(confidence, best == labels, bins), abs=1e-12)
    theirs = multiclass_calibration_error(mean, labels, num_classes=classes, n_bins=bins)
    assert found == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("bins", [1, 6, 15])
@pytest.mark.parametrize("count", [15, 100, 301])
def test_equal_mass_cuts_the_sorted_list(bins, count):
    prob, real = pairs(count)
    both = sorted(zip(prob.tolist(), real.tolist(), strict=True))
    cuts = [math.ceil(k * count / bins - 0.5) for k in range(bins + 1)]
    slices = [both[a:b] for a, b in pairwise(cuts)]
    expected = gaps(slices, count)
    assert binary_ece(prob, real, bins=bins, equal_mass=True) == pytest.approx(expected, abs=1e-12)


def test_equal_mass_of_classes_is_that_of_their_confidence():
    mean, labels = classified()
    confidence, best = mean.max(dim=1)
    expected = binary_ece(confidence, best == labels, equal_mass=True, bins=8)
    assert ece(mean, labels, equal_mass=True, bins=8) == pytest.approx(expected, abs=1e-12)
    assert expected != pytest.approx(ece(mean, labels, bins=8), abs=1e-6)


@given(st.integers(0, 1000), st.booleans(), st.sampled_from([None, 4]))
@settings(max_examples=40, deadline=None)
def test_the_order_of_nodes_never_matters_even_with_ties(seed, equal_mass, levels):
    mean, labels = classified(40, 3, levels=levels, seed=seed)
    mixed = torch.from_numpy(np.random.default_rng(seed).permutation(40))
    first = ece(mean, labels, equal_mass=equal_mass)
    assert ece(mean[mixed], labels[mixed], equal_mass=equal_mass) == pytest.approx(first, abs=1e-12)
    assert 0 <= first <= 1


def test_certainty_belongs_to_the_last_interval():
    prob, real = torch.tensor([1.0, 1.0, 0.0, 0.99]), torch.tensor([True, True, False, True])
    assert binary_ece(prob, real) == pytest.approx(0.01 / 4, abs=1e-6)


@pytest.mark.parametrize("equal_mass", [False, True])
def test_certainty_is_perfect_or_the_reverse(equal_mass):
    labels = torch.arange(4)
    assert ece(torch.eye(4), labels, equal_mass=equal_mass) == 0
    assert ece(torch.eye(4), labels.flip(0), equal_mass=equal_mass) == 1


def test_honest_probabilities_have_the_calibration_error_that_is_stated():
    generator = torch.Generator().manual_seed(5)
    prob = torch.rand(20_000, generator=generator)
    real = torch.rand(20_000, generator=generator) < prob
    assert binary_ece(prob, real) == pytest.approx(0.3 * math.sqrt(15 / 20_000), rel=0.5)


@pytest.mark.parametrize(
    "equal_mass", [np.array([1, 0]), torch.tensor([True, False]), "no", None, 1, []]
)
def test_a_kind_of_interval_is_chosen_by_true_or_false(equal_mass):
    for call in (
        lambda **how: ece([[0.9, 0.1]], [0], **how),
        lambda **how: binary_ece([0.9], [True], **how),
    ):
        with pytest.raises(OptionError, match="equal_mass="):
            call(equal_mass=equal_mass)


@pytest.mark.parametrize("true", [True, np.True_, torch.tensor(True), np.array(True)])
def test_true_of_numpy_and_torch_is_true(true):
    mean, labels = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]), torch.tensor([0, 1, 0])
    by_mass = ece(mean, labels, bins=2, equal_mass=True)
    assert ece(mean, labels, bins=2, equal_mass=true) == by_mass != ece(mean, labels, bins=2)
