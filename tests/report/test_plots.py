import io

import pytest
from matplotlib.figure import Figure

from varigraph.report.plots import accuracy_against_noise, run_figure, uncertainty_against_noise


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
