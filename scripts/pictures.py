"""The pictures of docs/idea.md, computed on Cora: the same on every run. About a minute.

python scripts/pictures.py
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import varigraph as vg
from varigraph.moments.pieces import relu
from varigraph.reporting.sensitivity import COLOURS

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
NOISE, CLASSES = 12.0, 7
DRAWS, PAIRS, MASKS = 200, 150, 12
#: Readable on white and on black alike; SVG in a page does not know which one it is on.
GREY, BLUE, ORANGE, RED, GREEN = "#858b94", "#4c8bc9", "#dd9a45", "#d0605d", "#4f9d69"
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "varigraph",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(
        ["text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"], GREY
    ),
}


def main() -> None:
    mpl.rcParams.update(STYLE)
    FOLDER.mkdir(parents=True, exist_ok=True)
    graph = vg.load("cora")
    noisy = vg.add_noise(graph, percent=NOISE)
    network = trained(graph)
    answers = redrawn(network, graph, noisy.x_var)
    save("two-nodes", two_nodes(graph, noisy, network, answers))
    save("through-relu", through_relu())
    save("sources", sources(noisy, network))
    published = vg.paper_network(graph)
    vg.train(published, graph, epochs=4)
    save("hidden-pair", hidden_pair(graph, noisy.x_var, published))
    save("methods", methods(noisy, published))
    save("total-variance", total_variance(noisy, network))


def trained(graph: Data) -> nn.Module:
    """GraphSAGE with ReLU and dropout, as many people have it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network: nn.Module = GraphSAGE(graph.num_features, 64, 2, CLASSES, dropout=0.5)
    vg.train(network, graph, batch_size=None, epochs=60, learning_rate=0.01)
    return network.eval()


@torch.no_grad()
def redrawn(network: nn.Module, graph: Data, var: Tensor | float) -> Tensor:
    """Class probabilities under one draw of the noise after the other, [draws, nodes, classes]."""
    random = torch.Generator().manual_seed(1)
    scale = torch.as_tensor(var).sqrt()
    answers = []
    for _ in range(DRAWS):
        x = graph.x + scale * torch.randn(graph.x.shape, generator=random)
        answers.append(network(x, graph.edge_index).softmax(dim=1))
    return torch.stack(answers)


def two_nodes(graph: Data, noisy: Data, network: nn.Module, answers: Tensor) -> Figure:
    """Two papers with the same softmax, and what the answer does when the noise is drawn again."""
    clean = network(graph.x, graph.edge_index).softmax(dim=1).detach()
    known = graph.clone()
    known.x_var = noisy.x_var
    pred = vg.predict(network, known, method="first-order", samples=0)
    sure = clean.max(dim=1)
    alike = torch.nonzero(graph.test_mask & ((sure.values - 0.90).abs() < 0.01)).flatten()
    spread = pred.total[alike, sure.indices[alike]]
    chosen = alike[spread.argmin()], alike[spread.argmax()]
    figure = Figure(figsize=(6.4, 2.6), layout="constrained")
    for ax, node, colour in zip(
        figure.subplots(1, 2, sharex=True), chosen, (BLUE, ORANGE), strict=True
    ):
        label = sure.indices[node]
        draws, error = answers[:, node, label], pred.total[node, label].sqrt()
        ax.hist(draws.numpy(), bins=np.linspace(0, 1, 41).tolist(), color=colour)
        top = ax.get_ylim()[1]
        ax.errorbar(
            pred.mean[node, label], 1.08 * top, xerr=error, color=GREY, marker="o", capsize=3
        )
        ax.set(title=f"softmax {sure.values[node]:.2f}, error bar {error:.2f}", yticks=[])
        ax.set(xlabel="probability of the class", xlim=(0, 1), ylim=(0, 1.2 * top))
        ax.spines["left"].set_visible(False)
    return figure


def through_relu() -> Figure:
    """What a ReLU makes of a Gaussian, and the mean and variance that are kept of it."""
    given = vg.Gaussian(torch.tensor(0.5), torch.tensor(1.0))
    kept = relu(given)
    figure = Figure(figsize=(6.4, 2.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    x = np.linspace(-3, 4, 200)
    left.fill_between(x, norm.pdf(x, given.mean, given.var.sqrt()), color=BLUE, alpha=0.6, lw=0)
    spread(left, given, "before: ")
    above = x[x >= 0]
    right.fill_between(
        above, norm.pdf(above, given.mean, given.var.sqrt()), color=BLUE, alpha=0.6, lw=0
    )
    below = norm.cdf(0, given.mean, given.var.sqrt())
    right.plot([0, 0], [0, 0.5], color=BLUE, lw=4, solid_capstyle="butt")
    right.text(-0.15, 0.42, f"{100 * below:.0f} % are 0", ha="right")
    spread(right, kept, "after: ")
    right.plot(x, norm.pdf(x, kept.mean, kept.var.sqrt()), color=ORANGE, lw=1.2, ls="--")
    return figure


def spread(ax: Axes, value: vg.Gaussian, name: str) -> None:
    mean, std = float(value.mean), float(value.var.sqrt())
    ax.errorbar(mean, 0.56, xerr=std, color=GREY, marker="o", capsize=3)
    ax.set(title=f"{name}mean {mean:.2f}, variance {std**2:.2f}", yticks=[], ylim=(0, 0.62))
    ax.spines["left"].set_visible(False)


def sources(noisy: Data, network: nn.Module) -> Figure:
    """Eight papers and what their variance comes from, all three sources at work."""
    doubtful = noisy.clone()
    source, target = doubtful.edge_index
    doubtful.edge_prob = 0.6 + 0.4 * ((source + target) % 5) / 4  # the same in both directions
    pred = vg.predict(network, doubtful, method="sampled", samples=DRAWS, links="bernoulli")
    total = pred.total.sum(dim=1)
    order = total[doubtful.test_mask].argsort(descending=True)
    shown = torch.nonzero(doubtful.test_mask).flatten()[order[:: len(order) // 8][:8]]
    figure = Figure(figsize=(6.4, 2.6), layout="constrained")
    ax, bottom = figure.subplots(), np.zeros(len(shown))
    names = [f"node {node}" for node in shown.tolist()]
    for part, colour in COLOURS.items():
        if part not in pred.by_source:
            continue
        height = (
            pred.by_source[part][shown].sum(dim=1).clamp(min=0).numpy()
        )  # a share by draws may be -0.001
        ax.bar(names, height, bottom=bottom, color=colour, label=part, width=0.7)
        bottom = bottom + height
    ax.set_ylabel("variance, all classes")
    ax.tick_params(axis="x", labelsize=8)
    ax.legend(frameon=False)
    return figure


@torch.no_grad()
def hidden_pair(graph: Data, var: Tensor | float, network: nn.Module) -> Figure:
    """Two hidden numbers of one paper under redrawn noise: together, and as if independent."""
    random, seen = torch.Generator().manual_seed(2), []
    handle = next(m for m in network.modules() if isinstance(m, nn.Linear) and m.out_features == 12)
    hook = handle.register_forward_hook(lambda _, __, out: seen.append(out[7]))
    for _ in range(PAIRS):
        noise = torch.as_tensor(var).sqrt() * torch.randn(graph.x.shape, generator=random)
        network(graph.x + noise, graph.edge_index)
    hook.remove()
    numbers = torch.stack(seen).double()
    related = torch.corrcoef(numbers.T) - 2 * torch.eye(12)
    pair = divmod(int(related.argmax()), 12)
    together = numbers[:, list(pair)]
    apart = torch.stack(
        [together[:, 0], together[torch.randperm(PAIRS, generator=random), 1]], dim=1
    )
    figure = Figure(figsize=(6.4, 2.9), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, points, name, colour in zip(
        axes, (together, apart), ("as they are", "shuffled"), (BLUE, RED), strict=True
    ):
        ax.scatter(*points.T.numpy(), s=6, color=colour, lw=0, alpha=0.7)
        ax.set_title(f"{name}: their sum has variance {points.sum(dim=1).var():.2f}", fontsize=9)
        ax.set_xlabel("a hidden number")
    axes[0].set_ylabel("another hidden number")
    return figure


def methods(noisy: Data, network: nn.Module) -> Figure:
    """Error bars of three closed forms against brute force, the paper's network."""
    asked: Any = {"samples": DRAWS, "sources": ["features"], "nodes": noisy.test_mask}
    true = vg.predict(network, noisy, method="sampled", **asked).logits.var[:, 0].sqrt()
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    ax = figure.subplots()
    colours: dict[Any, str] = {"first-order": GREEN, "covariance": ORANGE, "diagonal": RED}
    for method, colour in colours.items():
        found = vg.predict(network, noisy, method=method, **asked).logits.var[:, 0].sqrt()
        ratio = (found / true).square().median()
        shown = slice(None, None, 4)  # enough dots for the eye
        label = f"{method}: variance {ratio:.2g} of the true one"
        ax.scatter(true[shown], found[shown], s=7, lw=0, color=colour, label=label)
    ends = [float(true.min()), float(true.max())]
    ax.plot(ends, ends, color=GREY, lw=0.8, ls="--")
    ax.set(xscale="log", yscale="log", xlabel="true standard deviation of a logit, by brute force")
    ax.set_ylabel("standard deviation by the method")
    ax.set_xticks([1, 1.5, 2, 2.5], ["1", "1.5", "2", "2.5"])
    ax.set_yticks([0.03, 0.1, 0.3, 1, 3], ["0.03", "0.1", "0.3", "1", "3"])
    ax.minorticks_off()
    ax.legend(frameon=False, loc="center left", bbox_to_anchor=(0, 0.55))
    return figure


class OneMask(nn.Module):
    """Dropout by a mask that stays the same."""

    def __init__(self, rate: float, seed: int) -> None:
        super().__init__()
        self.rate, self.seed = rate, seed

    def forward(self, x: Tensor) -> Tensor:
        """The numbers that the mask keeps, scaled up."""
        draw = torch.Generator().manual_seed(self.seed)
        kept = torch.rand(x.shape, generator=draw) >= self.rate
        return x * (kept / (1 - self.rate))


def masked(network: nn.Module, seed: int) -> nn.Module:
    """The network under one dropout mask."""
    one = copy.deepcopy(network)
    assert isinstance(network.dropout, nn.Dropout)
    one.dropout = OneMask(network.dropout.p, seed)
    return one


def total_variance(noisy: Data, network: nn.Module) -> Figure:
    """One logit under twelve dropout masks: spread within each, and between their means."""
    node = int(torch.nonzero(noisy.test_mask)[0])
    asked: Any = {"method": "diagonal", "samples": 0, "nodes": [node]}
    seen = [vg.predict(masked(network, seed), noisy, **asked).logits for seed in range(MASKS)]
    label = int(seen[0].mean.argmax())
    means = np.array([float(logits.mean[0, label]) for logits in seen])
    stds = np.array([float(logits.var[0, label].sqrt()) for logits in seen])
    within, between = (stds**2).mean(), means.var()
    figure = Figure(figsize=(6.4, 2.9), layout="constrained")
    ax = figure.subplots()
    each: Any = {"fmt": "o", "color": BLUE, "ms": 4, "capsize": 2}
    name = "one mask each: mean, and spread by the noise"
    ax.errorbar(means, np.arange(MASKS), xerr=stds, label=name, **each)
    total: Any = {"fmt": "o", "color": ORANGE, "lw": 2, "capsize": 4}
    ax.errorbar(means.mean(), -2, xerr=np.sqrt(within + between), label="total", **total)
    ax.set(yticks=[], xlabel="logit of the predicted class", ylim=(-3, 15.5))
    ax.spines["left"].set_visible(False)
    ax.legend(frameon=False, loc="upper left", ncols=2)
    sum_of_both = f"{within:.3f} within + {between:.3f} between = {within + between:.3f}"
    ax.set_title(f"variance: {sum_of_both}", fontsize=9)
    return figure


def save(name: str, figure: Figure) -> None:
    path = FOLDER / f"{name}.svg"
    figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
