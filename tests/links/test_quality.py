import math

import pytest
import torch
from sklearn import metrics
from torchmetrics.functional.classification import binary_calibration_error

from varigraph.errors import GraphError, OptionError
from varigraph.links.quality import auc, average_precision, brier, ece, log_loss

MEASURES = [auc, average_precision, brier, ece, log_loss]


def drawn(pairs=500, *, levels=None, seed=0):
    """Probabilities, on a few levels so that they tie, and a truth that leans on them."""
    generator = torch.Generator().manual_seed(seed)
    prob = torch.rand(pairs, generator=generator, dtype=torch.double)
    if levels:
        prob = (prob * levels).floor() / levels
    real = torch.rand(pairs, generator=generator, dtype=torch.double) < prob**2
    return prob, real


@pytest.mark.parametrize("levels", [None, 50, 3])
@pytest.mark.parametrize("seed", range(3))
def test_ranking_agrees_with_sklearn(levels, seed):
    prob, real = drawn(levels=levels, seed=seed)
    assert auc(prob, real) == pytest.approx(metrics.roc_auc_score(real, prob), abs=1e-12)
    expected = metrics.average_precision_score(real, prob)
    assert average_precision(prob, real) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_ranking_counts_every_pair_of_a_link_and_a_non_link(seed):
    prob, real = drawn(60, levels=7, seed=seed)
    wins = [(a > b) + (a == b) / 2 for a in prob[real].tolist() for b in prob[~real].tolist()]
    assert auc(prob, real) == pytest.approx(sum(wins) / len(wins), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_losses_agree_with_sklearn(seed):
    prob, real = drawn(seed=seed)
    assert brier(prob, real) == pytest.approx(metrics.brier_score_loss(real, prob), abs=1e-12)
    assert log_loss(prob, real) == pytest.approx(metrics.log_loss(real, prob), abs=1e-12)


@pytest.mark.parametrize("bins", [1, 7, 15])
@pytest.mark.parametrize("seed", range(3))
def test_calibration_error_agrees_with_loops_and_with_torchmetrics(bins, seed):
    prob, real = drawn(seed=seed)
    total = 0.0
    for number in range(bins):
        inside = [
            (p, y)
            for p, y in zip(prob.tolist(), real.tolist(), strict=True)
            if number / bins <= p < (number + 1) / bins
        ]
        if inside:
            total += abs(sum(p for p, _ in inside) - sum(y for _, y in inside))
    assert ece(prob, real, bins=bins) == pytest.approx(total / len(prob), abs=1e-12)
    theirs = binary_calibration_error(prob, real.long(), n_bins=bins, norm="l1")
    assert ece(prob, real, bins=bins) == pytest.approx(float(theirs), abs=1e-6)


def test_certainty_belongs_to_the_last_interval():
    prob, real = torch.tensor([1.0, 1.0, 0.0, 0.99]), torch.tensor([True, True, False, True])
    assert ece(prob, real) == pytest.approx(0.01 / 4, abs=1e-6)


def test_honest_probabilities_have_the_calibration_error_that_is_stated():
    generator = torch.Generator().manual_seed(5)
    prob = torch.rand(20_000, generator=generator)
    real = torch.rand(20_000, generator=generator) < prob
    assert ece(prob, real) == pytest.approx(0.3 * math.sqrt(15 / 20_000), rel=0.5)


def test_wrong_certainty_is_infinitely_surprising():
    assert log_loss(torch.tensor([0.0, 0.5]), torch.tensor([True, True])) == math.inf


@pytest.mark.parametrize("measure", MEASURES)
def test_what_does_not_fit_together_is_refused(measure):
    prob, real = drawn(10)
    for wrong in ((prob[:9], real), (prob, real.long()), (prob[None], real[None])):
        with pytest.raises(GraphError, match="shape"):
            measure(*wrong)


@pytest.mark.parametrize("measure", [auc, average_precision])
def test_ranking_needs_both_kinds_and_numbers(measure):
    with pytest.raises(GraphError, match="3 of 3 pairs are links"):
        measure(torch.rand(3), torch.ones(3, dtype=torch.bool))
    with pytest.raises(GraphError, match="NaN"):
        measure(torch.tensor([0.5, math.nan]), torch.tensor([True, False]))


@pytest.mark.parametrize("measure", [brier, ece, log_loss])
@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_logits_are_not_taken_for_probabilities(measure, bad):
    with pytest.raises(OptionError, match="outside 0 to 1"):
        measure(torch.tensor([0.5, bad]), torch.tensor([True, False]))
