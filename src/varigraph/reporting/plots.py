"""Figures: each function takes the axes to draw on and returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from varigraph import metrics
from varigraph.files import replacing
from varigraph.metrics.calibration import Reliability
from varigraph.prediction.sources.source import all_parts
from varigraph.quantify import Level
from varigraph.reporting.page.charts import VarianceBins
from varigraph.reporting.sensitivity import COLOURS, OTHER_COLOUR

Place = Literal["upper left", "lower left"]
ALEATORIC, EPISTEMIC, OURS, PAPER = "#3b6ea5", "#e0a458", "#222222", "#999999"
RIGHT, WRONG = "#6f8fb3", "#c0504d"


def uncertainty_against_noise(results: Sequence[Level], ax: Axes | None = None) -> Axes:
    """Mean variance of the class probabilities, its two parts stacked, against noise.

    Args:
        results: what was measured at each level of noise.
        ax: where to draw; a new figure if left out.
    """
    ax = ax or _new_axes()
    levels = sorted(results, key=lambda level: level.noise)
    noise = [level.noise for level in levels]
    epistemic = [level.scores.epistemic for level in levels]
    total = [level.scores.total for level in levels]
    ax.fill_between(noise, 0, epistemic, color=EPISTEMIC, label="epistemic: the weights")
    ax.fill_between(noise, epistemic, total, color=ALEATORIC, label="aleatoric: the data")
    ax.plot(noise, total, color=OURS, marker="o", markersize=4, linewidth=1, label="total")
    ax.set_ylabel("variance of a class probability")
    ax.set_ylim(0, 1.4 * max(total) or 1)  # headroom for the legend
    return _finish(ax, noise, loc="upper left")


def accuracy_against_noise(results: Sequence[Level], ax: Axes | None = None) -> Axes:
    """Share of nodes classified right against noise.

    Args:
        results: what was measured at each level of noise.
        ax: where to draw; a new figure if left out.
    """
    ax = ax or _new_axes()
    levels = sorted(results, key=lambda level: level.noise)
    noise = [level.noise for level in levels]
    ours = [100 * level.scores.accuracy for level in levels]
    ax.plot(noise, ours, color=OURS, marker="o", markersize=4, linewidth=1)
    ax.set_ylabel("accuracy (%)")
    ax.set_ylim(top=100)
    return _finish(ax, noise, loc="lower left")


def run_figure(results: Sequence[Level], *, title: str) -> Figure:
    """Uncertainty and, beside it, accuracy.

    Args:
        results: what was measured at each level of noise.
        title: what was run.
    """
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    uncertainty_against_noise(results, left)
    accuracy_against_noise(results, right)
    figure.suptitle(title, fontsize=11)
    return figure


def reliability(
    prob: Tensor,  # [pairs]
    real: Tensor,  # [pairs] bool
    ax: Axes | None = None,
    *,
    share: str = "share of pairs that are links",
    counted: str = "pairs",
) -> Axes:
    """Observed shares against predicted probabilities, and beneath how many pairs there are.

    For a prediction, ``prob`` is the highest probability of each node, ``real`` which nodes are
    right, ``share="share of right answers"`` and ``counted="nodes"``.

    Args:
        prob: predicted probabilities.
        real: which pairs are real, bool.
        ax: where to draw, the counts going beneath it; a new figure if left out.
        share: what the observed share is one of.
        counted: what is counted beneath.
    """
    ax = ax or _new_axes(width=4.8, height=5)
    found = Reliability.of(prob, real)
    predicted, observed = found.predicted.numpy(), found.observed.numpy()
    reach = [observed - found.low.numpy(), found.high.numpy() - observed]
    ax.plot([0, 1], [0, 1], color=PAPER, linewidth=1, linestyle=(0, (4, 3)), label="as predicted")
    ax.errorbar(
        predicted,
        observed,
        yerr=reach,
        color=ALEATORIC,
        marker="o",
        markersize=4.5,
        linewidth=1.2,
        elinewidth=1,
        capsize=2,
        label="observed, 95 % interval",
    )
    ax.set(xlim=(0, 1), ylim=(-0.02, 1.02), ylabel=share)
    ax.tick_params(labelbottom=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    _counts_beneath(ax, found, counted)
    return ax


def reliability_figure(prob: Tensor, real: Tensor, *, title: str) -> Figure:  # [pairs], [pairs]
    """The reliability diagram by itself.

    Args:
        prob: predicted probabilities.
        real: which pairs are real, bool.
        title: what was predicted.
    """
    figure = Figure(figsize=(4.8, 5), layout="constrained")
    reliability(prob, real, figure.subplots()).set_title(title, fontsize=10)
    return figure


def risk_coverage(
    mean: Tensor,  # [nodes, classes]
    labels: Tensor,  # [nodes]
    trust: Tensor,  # [nodes]
    ax: Axes | None = None,
    *,
    plain: Tensor | None = None,  # [nodes, classes]
) -> Axes:
    """Share of errors among the most trusted nodes, and beside it that of the plain softmax.

    Args:
        mean: expected class probabilities.
        labels: true classes.
        trust: higher for nodes that are likelier to be right, ``pred.trust``.
        ax: where to draw; a new figure if left out.
        plain: what the network says by itself, ``pred.plain``: the rival, with errors of its own.
    """
    ax = ax or _new_axes()
    lines = [("our trust", mean, trust, ALEATORIC, "-")]
    if plain is not None:
        lines.append(("plain softmax", plain, plain.amax(dim=1), EPISTEMIC, ":"))
    for name, answers, values, colour, style in lines:
        found = metrics.risk_coverage(-values, answers.argmax(dim=1) != labels)
        points = found.coverage.cpu().numpy(), found.risk.cpu().numpy()
        label = f"{name}, area {found.area:.3f}"
        ax.plot(*points, color=colour, linestyle=style, linewidth=1.4, label=label)
    ax.set(xlim=(0, 1), xlabel="share of nodes accepted", ylabel="share of errors")
    ax.set_ylim(bottom=0)
    return _plain(ax)


def variance_histogram(
    var: Tensor,  # [nodes]
    wrong: Tensor,  # [nodes] bool
    ax: Axes | None = None,
) -> Axes:
    """Nodes by their variance, right and wrong answers stacked; the axis is logarithmic.

    Args:
        var: variance of each node, such as ``pred.total.sum(dim=1)``.
        wrong: which nodes are classified wrongly.
        ax: where to draw; a new figure if left out.
    """
    ax = ax or _new_axes()
    found = VarianceBins.of(var, wrong)
    ax.set(xlabel="variance of a node", ylabel="nodes")
    if found is None:
        return ax  # nothing is uncertain, and a logarithm has no place for that
    edges, right = found.edges.numpy(), found.right.numpy()
    bars = {"x": edges[:-1], "width": edges[1:] - edges[:-1], "align": "edge"}
    ax.bar(height=right, color=RIGHT, label="right", **bars)
    ax.bar(height=found.wrong.numpy(), bottom=right, color=WRONG, label="wrong", **bars)
    ax.set_xscale("log")
    return _plain(ax)


def sources(by_source: Mapping[str, Tensor], ax: Axes | None = None) -> Axes:
    """Mean variance due to each source, as one bar each.

    Args:
        by_source: variances by source, ``pred.by_source``.
        ax: where to draw; a new figure if left out.
    """
    ax = ax or _new_axes(height=2.2)
    parts = all_parts(by_source)
    means = [float(by_source[part].double().mean()) for part in parts]
    colours = [COLOURS.get(part, OTHER_COLOUR) for part in parts]
    ax.barh(parts, means, color=colours)
    ax.invert_yaxis()
    ax.set_xlabel("mean variance of an answer")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def write_png(path: Path, figure: Figure) -> None:
    """Write a figure as PNG, whole or not at all.

    Args:
        path: the file.
        figure: what to draw.
    """
    with replacing(path) as stream:
        figure.savefig(stream, format="png", dpi=150)


def _counts_beneath(ax: Axes, found: Reliability, counted: str) -> None:
    below = ax.inset_axes((0, -0.27, 1, 0.21), sharex=ax)
    below.bar(
        found.start.numpy(),
        found.count.numpy(),
        width=found.width,
        align="edge",
        color=ALEATORIC,
        edgecolor="white",
        linewidth=0.8,
    )
    below.set(xlim=(0, 1), xlabel="predicted probability", ylabel=counted)
    below.spines[["top", "right"]].set_visible(False)
    below.yaxis.set_major_locator(MaxNLocator(2, integer=True))


def _new_axes(*, width: float = 5, height: float = 3.6) -> Axes:
    # A Figure of its own, not pyplot: drawing must not change a caller's current figure.
    return Figure(figsize=(width, height), layout="constrained").subplots()


def _plain(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
    return ax


def _finish(ax: Axes, noise: Sequence[float], *, loc: Place) -> Axes:
    ax.set_xlabel("noise variance (% of the mean feature)")
    ax.set_xticks(noise, [f"{level:g}" for level in noise])
    ax.spines[["top", "right"]].set_visible(False)
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles[::-1], labels[::-1], frameon=False, fontsize=9, loc=loc)
    return ax
