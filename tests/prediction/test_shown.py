"""A prediction in a notebook and as a figure."""

import re

import pytest
import torch

import varigraph as vg
from trust.made_up import drawn, prediction, values
from varigraph.errors import OptionError


def test_a_notebook_shows_whom_to_trust_least():
    mean, y = drawn(40, 3)
    pred = prediction(mean, names=[f"<b>{node}" for node in range(40)], outputs=["x", "y", "<z>"])
    page = pred._repr_html_()
    least = pred.least_trusted(5)
    shown = re.findall(r"&lt;b&gt;\d+", page)
    assert shown == [each.name.replace("<", "&lt;").replace(">", "&gt;") for each in least]
    assert "<b>" not in page
    assert "<z>" not in page
    assert "features 100%" in page
    assert "<td>no</td>" in page
    applied = vg.calibrate(pred, y, nodes=range(30)).apply(pred)
    assert "temperature" in applied._repr_html_()


def test_nothing_uncertain_has_no_shares():
    pred = prediction(torch.rand(5, 2).softmax(1), torch.zeros(5, 2))
    assert "features 0%" in pred._repr_html_()


def heights(ax):
    return [round(bar.get_height()) for bar in ax.patches if hasattr(bar, "get_height")]


def test_a_figure_has_trust_and_the_plain_network_beside_it():
    mean, _ = drawn(400, 3)
    plain = mean**2 / (mean**2).sum(1, keepdim=True)
    figure = prediction(mean, plain=plain).plot()
    left, right = figure.axes
    counts = torch.histc(mean.amax(1).float(), bins=25, min=0, max=1).int().tolist()
    assert heights(left)[:25] == counts
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "our trust",
        "plain network",
    ]
    widths = {
        label.get_text(): bar.get_width()
        for label, bar in zip(right.get_yticklabels(), right.patches, strict=True)
    }
    assert widths["features"] == pytest.approx(1)


def test_a_figure_of_values_has_their_intervals():
    mean, var, _ = values(300)
    pred = prediction(mean, var, "regression", plain=mean)
    (lines,) = [
        each for each in pred.plot(level=0.5).axes[0].collections if hasattr(each, "get_segments")
    ]
    segments = torch.tensor([segment[:, 1].tolist() for segment in lines.get_segments()])
    low, high = pred.interval(0.5)
    assert len(segments) == 200
    order = mean[:, 0].argsort()
    assert segments[0].tolist() == pytest.approx(
        [low[order[0], 0].item(), high[order[0], 0].item()]
    )
    assert segments[-1].tolist() == pytest.approx(
        [low[order[-1], 0].item(), high[order[-1], 0].item()]
    )


def test_matplotlib_is_optional(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(OptionError, match=r"matplotlib is not installed[\s\S]*pip install"):
        prediction(torch.rand(5, 2).softmax(1)).plot()
