"""A prediction at a glance: as a table in a notebook, and as a figure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np
import torch

from varigraph.errors import OptionError
from varigraph.prediction.sources.source import all_parts
from varigraph.trust.confidence import trust

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from varigraph.prediction.prediction import Prediction

#: Least trusted nodes that a notebook shows, and intervals that a figure can tell apart.
NODES_SHOWN, INTERVALS_SHOWN = 5, 200
OURS, PLAIN = "#3b6ea5", "#e0a458"
BINS = 25


def html(prediction: Prediction) -> str:
    """What a notebook shows: what it is, where the variance comes from, whom to trust least."""
    rows, outputs = prediction.mean.shape
    calibrated = prediction.calibrator
    lines = {
        "answers": f"{rows:,} x {outputs}, {prediction.task}",
        "method": prediction.method,
        "calibrated": "no" if calibrated is None else str(calibrated),
        "typical error bar": f"± {float(prediction.total.double().mean()) ** 0.5:.2g}",
        "due to": ", ".join(f"{part} {share:.0%}" for part, share in shares(prediction).items()),
    }
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in lines.items()
    )
    least = prediction.least_trusted(NODES_SHOWN)
    return f"<table>{body}</table><p>least trusted</p>{least._repr_html_()}"


def shares(prediction: Prediction) -> dict[str, float]:
    """Of the mean variance, by source; all 0 where nothing is uncertain."""
    means = {
        part: float(prediction.by_source[part].double().mean())
        for part in all_parts(prediction.by_source)
    }
    return {part: mean / (sum(means.values()) or 1) for part, mean in means.items()}


def figure(prediction: Prediction, level: float) -> Figure:
    """See :meth:`varigraph.Prediction.plot`."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise OptionError("matplotlib is not installed", "pip install matplotlib") from error
    # A Figure of its own, not pyplot: drawing must not change a caller's current figure.
    drawn = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = drawn.subplots(1, 2, width_ratios=(3, 2))
    if prediction.task == "regression":
        _intervals(prediction, left, level)
    else:
        _trust(prediction, left)
    part = shares(prediction)
    right.barh(list(part), list(part.values()), color=OURS)
    right.invert_yaxis()
    right.set(xlabel="share of the mean variance", xlim=(min(0, *part.values()), 1))
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return drawn


def _trust(prediction: Prediction, ax: Axes) -> None:
    """How far answers can be trusted, and how sure the network by itself is."""
    ours = prediction.trust.detach().cpu().numpy()
    ax.hist(ours, bins=BINS, range=(0, 1), color=OURS, alpha=0.6, label="our trust")
    if prediction.plain is not None:
        plain = trust(prediction.plain, torch.zeros_like(prediction.plain), prediction.task)
        heights, edges = np.histogram(plain.detach().cpu().numpy(), bins=BINS, range=(0, 1))
        ax.stairs(heights, edges, color=PLAIN, linewidth=1.5, label="plain network")
    ax.set(xlabel="chance that the answer is right, as said", ylabel="answers", xlim=(0, 1))
    ax.legend(frameon=False, fontsize=9, loc="upper left")


def _intervals(prediction: Prediction, ax: Axes, level: float) -> None:
    """Values of the first output in their order, evenly chosen where there are many."""
    low, high = (end[:, 0].detach().cpu() for end in prediction.interval(level))
    mean = prediction.mean[:, 0].detach().cpu()
    count = min(len(mean), INTERVALS_SHOWN)
    rows = mean.argsort()[torch.linspace(0, len(mean) - 1, count).round().long()]
    place = torch.arange(count)
    ax.vlines(place, low[rows], high[rows], color=OURS, linewidth=1, label=f"{level:.0%} interval")
    ax.scatter(place, mean[rows], s=6, color=OURS, zorder=3, label="expected value")
    if prediction.plain is not None:
        own = prediction.plain[rows.to(prediction.plain.device), 0].detach().cpu()
        ax.scatter(place, own, s=6, color=PLAIN, zorder=2, label="plain network")
    shown = "" if count == len(mean) else f", {count} of {len(mean):,}"
    ax.set(xlabel=f"answers in their order{shown}", ylabel=prediction.rows.output(0, "regression"))
    ax.legend(frameon=False, fontsize=9, loc="upper left")
