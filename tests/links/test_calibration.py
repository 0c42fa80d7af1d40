import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from varigraph.links.calibration import Isotonic, Scaled, calibration, isotonic, scaled
from varigraph.metrics import binary_ece, log_loss


def drawn(pairs=600, *, bend=lambda s: s, seed=0):
    """Scores, and links that occur with the probability that the bent score says."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(pairs, generator=generator)
    real = torch.rand(pairs, generator=generator) < torch.sigmoid(bend(logits))
    return logits, real


def steep(logits):
    """Flat on the left and in the middle, steep on the right: no straight line."""
    return torch.where(logits > 1, 4.0, torch.where(logits > -3, 0.5, -4.0))


def softened_loss(scale, shift, logits, real):
    """Log loss with the targets of Platt, by definition."""
    links, others = int(real.sum()), int((~real).sum())
    target = torch.where(real, (links + 1) / (links + 2), 1 / (others + 2)).double()
    prob = torch.sigmoid(scale * logits.double() + shift)
    return float(-(target * prob.log() + (1 - target) * (1 - prob).log()).mean())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("stretch", "offset"), [(1, 0), (0.2, 1.5), (40, -300)])
def test_no_other_line_has_a_smaller_loss(seed, stretch, offset):
    logits, real = drawn(bend=lambda s: 0.7 * s - 0.5, seed=seed)
    logits = stretch * logits + offset
    found = scaled(logits, real)
    least = softened_loss(found.scale, found.shift, logits, real)
    for scale in np.linspace(-0.05, 0.05, 5):
        for shift in np.linspace(-0.05, 0.05, 5):
            other = found.scale * (1 + scale), found.shift + shift - scale * found.scale * offset
            assert softened_loss(*other, logits, real) >= least - 1e-7


@pytest.mark.parametrize("seed", range(3))
def test_the_line_agrees_with_logistic_regression(seed):
    logits, real = drawn(seed=seed)
    links, others = int(real.sum()), int((~real).sum())
    up, down = (links + 1) / (links + 2), 1 / (others + 2)
    target = np.where(real, up, down)
    twice = np.concatenate([logits, logits])[:, None]
    kinds = np.repeat([1, 0], len(real))
    theirs = LogisticRegression(C=np.inf, tol=1e-8).fit(
        twice, kinds, sample_weight=np.concatenate([target, 1 - target])
    )
    ours = scaled(logits, real)
    assert ours.scale == pytest.approx(theirs.coef_.item(), abs=1e-3)
    assert ours.shift == pytest.approx(theirs.intercept_.item(), abs=1e-3)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_steps_agree_with_sklearn(seed, ties):
    logits, real = drawn(bend=steep, seed=seed)
    logits = logits.round() if ties else logits
    edge = 1 / (len(real) + 2)
    theirs = IsotonicRegression(y_min=edge, y_max=1 - edge, out_of_bounds="clip")
    theirs.fit(logits, real.double())
    asked = torch.linspace(-15, 15, 500)
    for some in (logits, asked):
        np.testing.assert_allclose(isotonic(logits, real)(some), theirs.predict(some), atol=1e-6)


def test_between_two_steps_the_curve_is_straight_and_outside_level():
    curve = Isotonic(np.array([-1.0, 1.0]), np.array([0.2, 0.6]))
    got = curve(torch.tensor([-9.0, -1.0, 0.0, 0.5, 1.0, 9.0]))
    torch.testing.assert_close(got, torch.tensor([0.2, 0.2, 0.4, 0.5, 0.6, 0.6]).double())


@pytest.mark.parametrize("fit", [scaled, isotonic])
@pytest.mark.parametrize("seed", range(3))
def test_higher_scores_never_get_lower_probabilities(fit, seed):
    curve = fit(*drawn(bend=lambda s: -0.3 * s, seed=seed))  # even where scores mislead
    prob = curve(torch.linspace(-50, 50, 1001))
    assert bool((prob.diff() >= 0).all())
    assert bool(((prob > 0) & (prob < 1)).all())
    assert bool((prob.float() < 1).all())


@pytest.mark.parametrize("fit", [scaled, isotonic])
def test_scores_that_separate_do_not_make_certain(fit):
    logits = torch.cat([torch.linspace(5, 6, 20), torch.linspace(-6, -5, 20)])
    curve = fit(logits, logits > 0)
    prob = curve(logits)
    assert bool((prob[:20] > 0.9).all())
    assert bool((prob[20:] < 0.1).all())
    assert prob.max() <= 1 - 1 / 50
    assert prob.min() >= 1 / 50


@pytest.mark.parametrize("fit", [scaled, isotonic])
def test_scores_that_are_all_the_same_give_the_share_of_links(fit):
    real = torch.arange(100) < 30
    prob = fit(torch.full((100,), 2.0), real)(torch.tensor([2.0]))
    assert prob.item() == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize(("bend", "way"), [(lambda s: 0.5 * s + 1, "scaled"), (steep, "isotonic")])
def test_the_way_that_fits_is_chosen(bend, way):
    assert calibration(*drawn(1500, bend=bend)).name == way


@pytest.mark.parametrize("bend", [lambda s: 0.3 * s - 1, lambda s: 5 * s, steep])
def test_afterwards_probabilities_come_true(bend):
    curve = calibration(*drawn(2000, bend=bend, seed=1))
    logits, real = drawn(20_000, bend=bend, seed=2)
    assert binary_ece(curve(logits), real) < 0.025
    assert binary_ece(torch.sigmoid(logits), real) > 0.05
    best = log_loss(torch.sigmoid(bend(logits)), real)
    assert log_loss(curve(logits), real) < best + 0.02


def test_a_handful_of_pairs_is_enough():
    logits, real = torch.tensor([2.0, -1.0]), torch.tensor([True, False])
    prob = calibration(logits, real)(logits)
    assert 0 < prob[1] <= prob[0] < 1


def test_the_seed_decides():
    logits, real = drawn(40, seed=3)
    one, two = (calibration(logits, real, seed=5) for _ in range(2))
    assert torch.equal(one(logits), two(logits))


def test_a_line_is_a_line():
    prob = Scaled(2.0, -1.0)(torch.tensor([0.5, 1.0]))
    torch.testing.assert_close(prob, torch.tensor([0.5, 1 / (1 + np.exp(-1))]).double())
