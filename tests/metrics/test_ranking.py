import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from torchmetrics.functional.classification import binary_auroc

from metrics.drawn import pairs
from varigraph.metrics import auroc, average_precision


@pytest.mark.parametrize("levels", [None, 50, 3])
@pytest.mark.parametrize("seed", range(3))
def test_both_agree_with_sklearn_and_torchmetrics(levels, seed):
    prob, real = pairs(levels=levels, seed=seed)
    assert auroc(prob, real) == pytest.approx(metrics.roc_auc_score(real, prob), abs=1e-12)
    assert auroc(prob, real) == pytest.approx(float(binary_auroc(prob, real.long())), abs=1e-6)
    expected = metrics.average_precision_score(real, prob)
    assert average_precision(prob, real) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_every_pair_of_true_and_false_counts(seed):
    prob, real = pairs(60, levels=7, seed=seed)
    wins = [(a > b) + (a == b) / 2 for a in prob[real].tolist() for b in prob[~real].tolist()]
    assert auroc(prob, real) == pytest.approx(sum(wins) / len(wins), abs=1e-12)


@given(st.integers(1, 400), st.integers(1, 400))
@settings(max_examples=100, deadline=None)
def test_perfect_ranking_is_one_without_rounding(hits, others):
    real = torch.arange(hits + others) >= others
    scores = torch.arange(hits + others)
    assert average_precision(scores, real) == 1.0
    assert auroc(scores, real) == 1.0
    assert auroc(-scores, real) == 0.0


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_no_rounding_passes_one(seed):
    prob, real = pairs(50, levels=40, seed=seed)
    real = real | (prob > 0.3)
    assert average_precision(prob, real) <= 1
    assert auroc(prob, real) <= 1


def test_equal_scores_rank_nothing():
    real = torch.tensor([True, False, False, False])
    assert auroc(torch.zeros(4), real) == 0.5
    assert average_precision(torch.zeros(4), real) == 0.25


@pytest.mark.parametrize("measure", [auroc, average_precision])
def test_only_the_order_counts_infinite_scores_included(measure):
    prob, real = pairs(100, levels=9)
    stretched = prob.exp() * 1000
    stretched[prob == prob.max()] = math.inf
    stretched[prob == prob.min()] = -math.inf
    assert measure(stretched.float(), real) == measure(prob, real)
