import io
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from varigraph.reporting.sensitivity import errors, sensitivity_figure, variance_by_source


def lines(ax):
    return {line.get_label(): line.get_ydata().tolist() for line in ax.lines}


def test_variance_has_a_line_for_the_total_and_each_source(rungs):
    ax = variance_by_source(rungs, ladder="noise", ax=Figure().subplots())
    assert list(lines(ax)) == ["total", "features", "weights", "interactions"]
    assert lines(ax)["total"] == [rung.total for rung in rungs]
    assert lines(ax)["features"] == [rung.by_source["features"] for rung in rungs]
    assert ax.get_yscale() == "log"


def test_errors_have_four_lines_from_zero_up(rungs):
    ax = errors(rungs, ladder="doubt", ax=Figure().subplots())
    assert lines(ax)["share of errors"] == [1 - rung.accuracy for rung in rungs]
    assert lines(ax)["cross entropy (nats)"] == [rung.cross_entropy for rung in rungs]
    assert lines(ax)["Brier score"] == [0.2] * 4
    assert lines(ax)["calibration error"] == [0.05] * 4
    assert ax.get_ylim()[0] == 0
    assert "doubt" in ax.get_xlabel()


@pytest.mark.parametrize("draw", [variance_by_source, errors])
def test_every_level_zero_included_is_inside_and_has_its_tick(rungs, draw):
    ax = draw(rungs, ladder="noise", ax=Figure().subplots())
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "1", "4", "16"]
    low, high = ax.get_xlim()
    assert -1 < low < 0
    assert 16 < high < 20
    places = ax.transData.transform([(level, 1) for level in (0, 1, 4, 16)])[:, 0]
    assert places[2] - places[1] == pytest.approx(places[3] - places[2])  # logarithmic
    assert 0 < places[1] - places[0] < places[2] - places[1]


def test_a_source_that_is_next_to_nothing_does_not_stretch_the_axis(rungs):
    rungs[1].by_source["links"] = 1e-12
    ax = variance_by_source(rungs, ladder="noise", ax=Figure().subplots())
    assert ax.get_ylim()[0] > 1e-7


@pytest.mark.parametrize("count", [1, 4])
def test_certainty_can_be_drawn_too(rungs, count):
    certain = [replace(r, total=0.0, by_source=dict.fromkeys(r.by_source, 0.0)) for r in rungs]
    figure = sensitivity_figure({"noise": certain[:count]}, title="cora")
    figure.savefig(io.BytesIO(), format="png")
    assert figure.axes[0].get_yscale() == "linear"


def test_there_is_a_row_for_each_ladder(rungs):
    figure = sensitivity_figure({"noise": rungs, "doubt": rungs}, title="cora, seed 0")
    assert len(figure.axes) == 4
    assert figure.get_suptitle() == "cora, seed 0"
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    assert stream.getvalue().startswith(b"\x89PNG")
