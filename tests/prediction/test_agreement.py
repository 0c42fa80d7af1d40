"""What draws say of a closed form: figures one by one, in the sum, and when they cannot tell."""

import pytest
import torch

import varigraph as vg
from varigraph.prediction.agreement import COINS, NOISE, Agreement, agreement
from varigraph.prediction.sampled.draws import Design
from varigraph.prediction.sampled.estimates import SampledMoments
from varigraph.prediction.sampled.method import Sample

NODES, CLASSES = 200, 3


def closed(var):
    mean = torch.zeros_like(var)
    logits = vg.Gaussian(mean, var)
    return vg.Prediction(
        mean=mean,
        by_source={"features": var, "weights": 0 * var},
        logits=logits,
        method="first-order",
        samples=0,
    )


def sample_of(runs):  # [draws, nodes, classes]
    design = Design(("features",), len(runs))
    logits, answer = (SampledMoments(runs[0], design, by_source=False) for _ in range(2))
    logits.add(runs)
    answer.add(runs)
    return Sample(answer, logits, ("features",), len(runs))


def gaussian(true, seed=0):
    """Draws of independent numbers of these variances; more of them begin with the same ones."""
    noise = torch.randn(
        500, *true.shape, generator=torch.Generator().manual_seed(seed), dtype=true.dtype
    )
    return lambda draws: sample_of(true.sqrt() * noise[:draws])


def unequal():
    """One number as large as all others together."""
    true = torch.ones(NODES, CLASSES, dtype=torch.double)
    true[0, 0] = true.sum()
    return true


@pytest.mark.parametrize("seed", range(5))
def test_a_right_variance_passes_and_soon(seed):
    true = torch.rand(NODES, CLASSES, dtype=torch.double) + 0.5
    found = agreement(closed(true), gaussian(true, seed), NOISE)
    assert found.passes
    assert found.draws <= 100


@pytest.mark.parametrize("factor", [0.9, 1.12])
def test_a_median_that_is_off_is_seen_though_the_sum_is_right(factor):
    true = unequal()
    said = true.clone()
    said[1:] *= factor
    said[0, 0] += true.sum() - said.sum()
    found = agreement(closed(said), gaussian(true), NOISE)
    assert float(said.sum()) == pytest.approx(float(true.sum()))
    assert not found.passes


def test_a_sum_that_is_off_is_seen_though_the_median_is_right():
    true = unequal()
    said = true.clone()
    said[0, 0] *= 0.5
    assert not agreement(closed(said), gaussian(true), NOISE).passes


def test_links_may_be_farther_off_than_noise():
    true = torch.ones(NODES, CLASSES, dtype=torch.double)
    said = closed(0.93 * true)
    assert agreement(said, gaussian(true), COINS).passes
    assert not agreement(said, gaussian(true), NOISE).passes


def test_the_error_of_the_median_is_that_of_other_draws():
    true = torch.ones(NODES, CLASSES, dtype=torch.double)
    found = [
        Agreement.of(closed(true), gaussian(true, k)(100), NOISE).figures[1] for k in range(30)
    ]
    values = torch.tensor([figure.value for figure in found])
    errors = torch.tensor([figure.error for figure in found])
    assert float(values.mean()) == pytest.approx(1, abs=0.004)  # few draws have smaller medians
    # A median of numbers that have nothing to do with each other moves by steps: said too large.
    assert 0.8 < float(errors.mean() / values.std()) < 1.8


def test_one_number_is_not_refused_for_what_draws_cannot_tell():
    true = torch.ones(1, 1, dtype=torch.double)
    passed = [agreement(closed(true), gaussian(true, seed), NOISE).passes for seed in range(20)]
    assert sum(passed) >= 18


def seldom(chance, seed=0):
    """Numbers that jump once in many draws, with variance 1 whatever the chance."""
    stream = torch.Generator().manual_seed(seed)
    jumps = (torch.rand(500, NODES, CLASSES, generator=stream) < chance).double()
    return lambda draws: sample_of(jumps[:draws] / (chance * (1 - chance)) ** 0.5)


@pytest.mark.parametrize("chance", [0.2, 0.02, 0.002])
def test_what_happens_seldom_is_looked_at_in_the_sum(chance):
    true = torch.ones(NODES, CLASSES, dtype=torch.double)
    assert agreement(closed(true), seldom(chance), COINS).passes
    assert not agreement(closed(2 * true), seldom(chance), COINS).passes
    assert not agreement(closed(0.5 * true), seldom(chance), COINS).passes


def test_draws_in_which_no_link_was_gone_say_nothing():
    true = torch.ones(NODES, CLASSES, dtype=torch.double)
    found = agreement(
        closed(true), lambda draws: sample_of(torch.zeros(draws, NODES, CLASSES)), COINS
    )
    assert found.passes
    assert str(found) == "in 100 draws nothing happened"
