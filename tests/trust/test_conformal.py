"""Intervals and sets, against crepes and against draws; neither shares code with them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from crepes import ConformalClassifier, ConformalRegressor
from scipy import stats

import varigraph as vg
from trust.made_up import drawn, links_of, prediction, values
from varigraph.errors import OptionError
from varigraph.trust.conformal import fewest, quantile

LEVELS = [0.5, 0.8, 0.9, 0.95]


def halves(nodes):
    """Which held-out nodes shape the scores and which are scored, as the package divides them."""
    order = np.random.default_rng(0).permutation(len(nodes))
    cut = math.ceil(len(nodes) / 2)
    return np.asarray(nodes)[order[:cut]], np.asarray(nodes)[order[cut:]]


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_are_those_of_crepes(level):
    mean, var, y = values()
    pred = prediction(mean, var, "regression")
    applied = vg.calibrate(pred, y, nodes=range(400)).apply(pred)
    low, high = applied.interval(level)
    first, second = halves(range(400))
    half = vg.calibrate(pred, y, nodes=first)  # its learned numbers come from these nodes alone
    for place in range(2):
        scale, own = half.learned["variance"][place].tolist()
        sigmas = np.sqrt(scale * var[:, place].numpy() + own)
        off = (y - mean)[second, place].numpy()
        theirs = ConformalRegressor().fit(residuals=off, sigmas=sigmas[second])
        ends = theirs.predict_int(mean[:, place].numpy(), sigmas=sigmas, confidence=level)
        assert low[:, place].numpy() == pytest.approx(ends[:, 0], abs=1e-9)
        assert high[:, place].numpy() == pytest.approx(ends[:, 1], abs=1e-9)


def strange(prob, score):
    """Scores by loops."""
    if score == "threshold":
        return 1 - prob
    return np.array([[round(row[row >= each].sum(), 12) for each in row] for row in prob])


def smoothed(scores, ends):
    """Half a node's own score, half the mean of its neighbours', by loops."""
    found = scores.copy()
    for node in range(len(scores)):
        near = ends[0][ends[1] == node]
        if len(near):
            found[node] = (scores[node] + scores[near].mean(0)) / 2
    return found


@pytest.fixture(scope="module")
def linked():
    mean, y = drawn(900, 3)
    ends = links_of(y.numpy(), rng=np.random.default_rng(1))
    return prediction(mean, edge_index=ends, outputs=["a", "b", "c"]), y


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("score", ["threshold", "adaptive"])
@pytest.mark.parametrize("neighbours", [False, True])
def test_sets_are_those_of_crepes(linked, score, neighbours, level):
    pred, y = linked
    applied = vg.calibrate(pred, y, nodes=range(300)).apply(pred)
    first, second = halves(range(300))
    prob = vg.calibrate(pred, y, nodes=first, kind="graph").apply(pred).mean.numpy()
    alphas = strange(prob, score)
    if neighbours:
        alphas = smoothed(alphas, pred.rows.edge_index.numpy())
    theirs = ConformalClassifier().fit(alphas[second, y.numpy()[second]])
    wanted = theirs.predict_set(alphas, confidence=level, smoothing=False)
    found = applied.class_sets(level, score=score, neighbours=neighbours)
    # A score of exactly the threshold is in or out by the last bit of a sum.
    assert (found.members.numpy() != wanted.astype(bool)).sum() <= 1
    assert 0 < found.sizes.float().mean() < 3


@pytest.mark.parametrize("task", ["classification", "binary", "regression"])
def test_new_nodes_are_held_as_often_as_is_said(task):
    """The mean over held-out sets, against the law's own bounds and three standard errors."""
    level, held_out, new, share = 0.9, 60, 300, []
    for seed in range(150):
        if task == "regression":
            mean, var, y = values(held_out + new, seed=seed)
            pred = prediction(mean, var, task)
        else:
            mean, y = drawn(held_out + new, 4 if task == "classification" else 2, seed=seed)
            pred = prediction(mean if task == "classification" else mean[:, 1:], task=task)
        applied = vg.calibrate(pred, y, nodes=range(held_out)).apply(pred)
        if task == "regression":
            low, high = applied.interval(level)
            inside = ((low <= y) & (y <= high))[held_out:]
        else:
            inside = applied.class_sets(level).holds(y)[held_out:]
        share.append(float(inside.double().mean()))
    error = np.std(share) / len(share) ** 0.5
    scored = held_out // 2
    assert level - 3 * error < np.mean(share) < level + 1 / (scored + 1) + 3 * error
    assert error < 0.01  # else the bounds say nothing


def test_error_bars_from_noise_alone_hold_less():
    mean, var, y = values()
    low, high = prediction(mean, var, "regression").interval(0.9)
    assert torch.allclose(high - mean, 1.6448536269514722 * var.sqrt())
    assert ((low <= y) & (y <= high)).double().mean() < 0.75


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_of_probabilities_are_those_of_a_beta_distribution(level):
    mean = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.99, 0.01]]).double()
    var = torch.tensor([[0.01, 0.01], [0.04, 0.04], [0.0001, 0.0001]]).double()
    low, high = prediction(mean, var).interval(level)
    for row in range(3):
        for place in range(2):
            m, v = mean[row, place].item(), var[row, place].item()
            size = m * (1 - m) / v - 1
            law = stats.beta(m * size, (1 - m) * size)
            assert (law.mean(), law.var()) == pytest.approx((m, v))
            ends = law.interval(level)
            assert (low[row, place].item(), high[row, place].item()) == pytest.approx(ends)


def test_probabilities_that_are_certain_and_such_that_are_coins():
    mean = torch.tensor([[0.3, 0.7], [0.0, 1.0], [0.3, 0.7]])
    var = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.21, 0.21]])
    low, high = prediction(mean, var).interval(0.9)
    assert torch.equal(low[:2], mean[:2])
    assert torch.equal(high[:2], mean[:2])
    assert low[2].tolist() == pytest.approx([0, 0], abs=1e-6)
    assert high[2].tolist() == pytest.approx([1, 1], abs=1e-6)


def test_the_quantile_is_that_of_one_more_score():
    scores = torch.tensor([5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0])
    assert quantile(scores, 0.9) == 9  # the ninth of ten
    assert quantile(scores, 0.8) == 8
    assert quantile(scores, 0.91) == torch.inf
    assert [fewest(level) for level in (0.9, 0.95, 0.99)] == [9, 19, 99]


def test_sets_name_their_classes(linked):
    pred, y = linked
    sets = vg.calibrate(pred, y, nodes=range(300)).apply(pred).class_sets(0.9)
    for row in range(20):
        members = {name for name, held in zip("abc", sets.members[row], strict=True) if held}
        assert set(sets[row]) == members
        by_chance = [pred.mean[row, "abc".index(name)].item() for name in sets[row]]
        assert by_chance == sorted(by_chance, reverse=True)
    assert sets[:3] == [sets[0], sets[1], sets[2]]
    assert len(list(sets)) == len(sets) == 900
    assert "900 at 90%" in str(sets)


def test_neighbours_are_asked_where_they_help(linked):
    pred, y = linked
    applied = vg.calibrate(pred, y, nodes=range(600), kind="temperature").apply(pred)
    with_them = applied.class_sets(0.9, neighbours=True)
    without = applied.class_sets(0.9, neighbours=False)
    assert with_them.sizes.double().mean() < without.sizes.double().mean()
    assert torch.equal(applied.class_sets(0.9).members, with_them.members)
    strangers = torch.randint(0, 900, (2, 4000), generator=torch.Generator().manual_seed(0))
    other = replace(pred, rows=replace(pred.rows, edge_index=strangers))
    applied = vg.calibrate(other, y, nodes=range(600), kind="temperature").apply(other)
    without = applied.class_sets(0.9, neighbours=False)
    assert torch.equal(applied.class_sets(0.9).members, without.members)


@pytest.mark.parametrize("level", [0, 1, -0.5, 90, math.nan, "0.9", None])
def test_a_level_is_a_share(linked, level):
    pred, _ = linked
    with pytest.raises(OptionError, match=r"level[\s\S]*0.9"):
        pred.interval(level)


def test_what_has_no_sets(linked):
    pred, y = linked
    with pytest.raises(OptionError, match=r"held out of training[\s\S]*vg.calibrate"):
        pred.class_sets(0.9)
    mean, var, truth = values()
    regression = prediction(mean, var, "regression")
    with pytest.raises(OptionError, match=r"no one true class[\s\S]*interval"):
        regression.class_sets(0.9)
    applied = vg.calibrate(pred, y, nodes=range(30)).apply(pred)
    with pytest.raises(OptionError, match=r"15 held-out ones[\s\S]*38 nodes or more"):
        applied.class_sets(0.95)
    with pytest.raises(OptionError, match="score='other' is unknown"):
        applied.class_sets(0.9, score="other")
    some = prediction(pred.mean)
    with pytest.raises(OptionError, match=r"neighbours are not known[\s\S]*neighbours=False"):
        vg.calibrate(some, y, nodes=range(90)).apply(some).class_sets(neighbours=True)
    applied = vg.calibrate(regression, truth, nodes=range(12)).apply(regression)
    with pytest.raises(OptionError, match="6 held-out ones"):
        applied.interval(0.9)


def test_a_node_that_is_named_twice_is_known_once(linked):
    pred, y = linked
    once, twice = (vg.calibrate(pred, y, nodes=[*range(150)] * times) for times in (1, 2))
    assert torch.equal(once.held_out.scores["threshold"], twice.held_out.scores["threshold"])
