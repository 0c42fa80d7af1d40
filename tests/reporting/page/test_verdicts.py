from dataclasses import replace

import pytest
import torch
from sklearn.calibration import calibration_curve

from reporting.page.made_up import made_up, regression
from varigraph.reporting.page.advice import calibration_gap, chance_gap, verdicts
from varigraph.reporting.page.subject import PageSubject


def told(prediction, graph):
    return verdicts(PageSubject.of(prediction, graph), prediction)


def titles(prediction, graph):
    return [(verdict.tone, verdict.title) for verdict in told(prediction, graph)]


def test_probabilities_that_the_truth_is_drawn_from_hold():
    assert titles(*made_up(2000)) == [
        ("good", "Trust holds: answers are right as often as it says.")
    ]


@pytest.mark.parametrize(("power", "side"), [(3.0, "too sure"), (0.3, "too cautious")])
def test_sharper_or_flatter_probabilities_do_not(power, side):
    prediction, graph = made_up(2000)
    mean = prediction.mean.pow(power)
    prediction = replace(prediction, mean=mean / mean.sum(1, keepdim=True))
    (verdict,) = told(prediction, graph)
    assert verdict.tone == "alarm"
    assert verdict.title == f"Trust does not hold: the network is {side} of its answers."
    assert "vg.calibrate(pred, graph.y, nodes=graph.val_mask).apply(pred)" in verdict.advice


def test_who_is_calibrated_already_is_not_told_to_calibrate():
    prediction, graph = made_up(2000)
    sure = replace(prediction, chance=torch.full((2000,), 0.99))
    (verdict,) = told(sure, graph)
    assert verdict.tone == "alarm"
    assert "vg.calibrate" not in verdict.advice


def values(scale):
    """Errors that are as large as the error bars, times a scale."""
    prediction, graph = regression(nodes=400)
    draw = torch.Generator().manual_seed(2)
    noise = torch.randn(prediction.mean.shape, generator=draw)
    graph.y = prediction.mean + scale * prediction.total.sqrt() * noise
    return prediction, graph


@pytest.mark.parametrize(
    ("scale", "tone", "title"),
    [
        (1.0, "good", "The intervals hold."),
        (3.0, "alarm", "Alarm: the intervals do not hold."),
        (0.2, "note", "The intervals hold, but are wider than they need to be."),
    ],
)
def test_intervals_are_judged_by_how_often_they_hold(scale, tone, title):
    assert titles(*values(scale)) == [(tone, title)]


def test_without_truth_the_page_says_that_nobody_knows():
    prediction, graph = made_up()
    del graph.y
    (verdict,) = told(prediction, graph)
    assert verdict.tone == "note"
    assert "graph.y" in verdict.advice


def test_the_published_method_gets_an_alarm_first():
    prediction, graph = made_up(2000)
    first, *_ = told(replace(prediction, method="diagonal"), graph)
    assert first.tone == "alarm"
    assert first.title == "These error bars are too small."


def test_a_better_rival_is_admitted():
    prediction, graph = made_up(2000)
    truth = torch.nn.functional.one_hot(graph.y, 3).float()
    better = replace(prediction, plain=0.5 * prediction.mean + 0.5 * truth)
    worse = replace(prediction, plain=prediction.mean.roll(1, 0))
    assert (
        told(better, graph)[-1].title == "Here the plain network's confidence finds errors better."
    )
    assert told(worse, graph)[-1].title == "Refusing what is trusted least pays."


def test_a_difference_of_chance_is_no_difference():
    prediction, graph = made_up(2000)
    draw = torch.Generator().manual_seed(1)
    other = prediction.mean * (1 + 0.02 * torch.rand(prediction.mean.shape, generator=draw))
    for plain in (prediction.mean, other / other.sum(1, keepdim=True)):
        verdict = told(replace(prediction, plain=plain), graph)[-1]
        assert verdict.title == "Refusing by trust or by plain confidence: no clear difference."


def test_the_gap_is_that_of_scikit_learn():
    draw = torch.Generator().manual_seed(0)
    trust = torch.rand(500, generator=draw).double()
    right = torch.rand(500, generator=draw) < trust**2
    observed, predicted = calibration_curve(right.numpy(), trust.numpy(), n_bins=15)
    counts = torch.histc(trust, 15, 0, 1)
    wanted = (torch.from_numpy(abs(observed - predicted)) * counts[counts > 0] / 500).sum()
    assert calibration_gap(trust, right) == pytest.approx(float(wanted), rel=1e-6)


def test_chance_makes_a_gap_that_shrinks_with_the_number_of_answers():
    draw = torch.Generator().manual_seed(0)
    few, many = (
        torch.rand(100, generator=draw).double(),
        torch.rand(10_000, generator=draw).double(),
    )
    assert chance_gap(few) > 3 * chance_gap(many) > 0
