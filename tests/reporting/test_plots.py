import io

import pytest
import torch
from matplotlib.figure import Figure

import varigraph as vg
from reporting.page.made_up import made_up
from varigraph.prediction.sources.source import all_parts
from varigraph.reporting.plots import (
    accuracy_against_noise,
    reliability,
    reliability_figure,
    risk_coverage,
    run_figure,
    sources,
    uncertainty_against_noise,
    variance_histogram,
)


@pytest.mark.parametrize("plot", [uncertainty_against_noise, accuracy_against_noise])
def test_a_plot_draws_on_the_axes_it_is_given(plot, levels):
    ax = Figure().subplots()
    assert plot(levels, ax) is ax
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "12", "20"]


@pytest.mark.parametrize("plot", [uncertainty_against_noise, accuracy_against_noise])
def test_a_plot_makes_axes_of_its_own(plot, levels):
    assert plot(levels).figure is not None


def test_the_parts_are_stacked_up_to_the_total(levels):
    ax = uncertainty_against_noise(levels)
    assert ax.lines[0].get_ydata().tolist() == [level.scores.total for level in levels]
    assert ax.get_ylim()[0] == 0


def test_pyplot_is_left_alone(levels):
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    run_figure(levels, title="cora")
    assert pyplot.get_fignums() == before


def test_the_figure_of_a_run_is_a_png(levels):
    stream = io.BytesIO()
    run_figure(levels, title="cora").savefig(stream, format="png")
    assert stream.getvalue().startswith(b"\x89PNG")


def pairs(count):
    draw = torch.Generator().manual_seed(count)
    prob = torch.rand(count, generator=draw)
    return prob, torch.rand(count, generator=draw) < prob


@pytest.mark.parametrize("count", [1, 20, 3000])
def test_the_reliability_diagram_shows_shares_counts_and_the_diagonal(count):
    prob, real = pairs(count)
    by_bin = {}
    for p, y in zip(prob.tolist(), real.tolist(), strict=True):
        by_bin.setdefault(int(p * 15), []).append((p, y))
    bins = [by_bin[key] for key in sorted(by_bin)]
    ax = Figure().subplots()
    assert reliability(prob, real, ax) is ax
    diagonal, shown = ax.lines[0].get_xydata(), ax.containers[0].lines[0].get_xydata()
    assert diagonal.tolist() == [[0, 0], [1, 1]]
    for (predicted, observed), members in zip(shown, bins, strict=True):
        assert predicted == pytest.approx(sum(p for p, _ in members) / len(members))
        assert observed == pytest.approx(sum(y for _, y in members) / len(members))
    bars = ax.child_axes[0].patches
    assert [bar.get_height() for bar in bars] == [len(members) for members in bins]
    assert [round(bar.get_x() * 15) for bar in bars] == sorted(by_bin)


def test_the_reliability_figure_is_a_png_with_its_title():
    figure = reliability_figure(*pairs(50), title="ring, seal")
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    assert stream.getvalue().startswith(b"\x89PNG")
    assert figure.axes[0].get_title() == "ring, seal"


def test_the_words_of_the_reliability_diagram_can_be_chosen():
    ax = reliability(*pairs(50), share="share of right answers", counted="nodes")
    assert ax.get_ylabel() == "share of right answers"
    assert ax.child_axes[0].get_ylabel() == "nodes"


def test_risk_is_drawn_by_our_trust_and_by_the_plain_softmax_with_its_own_errors():
    prediction, graph = made_up(200)
    plain = prediction.mean.roll(3, 0)
    ax = Figure().subplots()
    assert risk_coverage(prediction.mean, graph.y, prediction.trust, ax, plain=plain) is ax
    for line, mean in zip(ax.lines, (prediction.mean, plain), strict=True):
        confidence, best = mean.max(1)
        wrong = (best != graph.y).tolist()
        accepted = [wrong[node] for node in (-confidence).argsort()]
        risks = [sum(accepted[:count]) / count for count in range(1, 201)]
        assert line.get_ydata() == pytest.approx(risks)
    labels = [text.get_text().split(",")[0] for text in ax.get_legend().get_texts()]
    assert labels == ["our trust", "plain softmax"]


def test_the_histogram_stacks_right_and_wrong_answers():
    prediction, graph = made_up(200)
    wrong = prediction.mean.argmax(1) != graph.y
    ax = Figure().subplots()
    assert variance_histogram(prediction.total.sum(1), wrong, ax) is ax
    right, missed = ([bar.get_height() for bar in bars] for bars in ax.containers)
    assert sum(missed) == int(wrong.sum())
    assert sum(right) == 200 - int(wrong.sum())
    assert [bar.get_y() for bar in ax.containers[1]] == right
    assert ax.get_xscale() == "log"


def test_certain_answers_have_an_empty_histogram():
    assert not variance_histogram(torch.zeros(3), torch.zeros(3).bool()).patches


def test_sources_are_bars_of_their_mean_variance():
    prediction, _ = made_up()
    ax = Figure().subplots()
    assert sources(prediction.by_source, ax) is ax
    means = [float(prediction.by_source[part].mean()) for part in all_parts()]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(means, rel=1e-5)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list(all_parts())


def test_the_figures_are_found_in_the_package():
    assert vg.plots.sources is sources
    with pytest.raises(AttributeError, match="no attribute 'figures'"):
        vg.figures  # noqa: B018 - asking is the test
