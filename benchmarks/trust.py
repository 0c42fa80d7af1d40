"""Which answers are wrong: our trust against the softmax of the plain network.

    python benchmarks/trust.py --data FOLDER --device cuda --processes 16 --kept trust.jsonl

Networks are trained on clean features of 70 % of the nodes and answer for features seen through a
draw of noise. Trust is `pred.trust`, as predicted and calibrated on the validation nodes; the rival
is the confidence of the plain network on the same features, with its own errors. For both the area
under risk over coverage (lower is better) and the AUROC of finding errors (higher is better), on
test nodes, mean ± standard error over seeds; *: better by more than a standard error of the
difference, -: worse by more than one. Prints a Markdown table and how many cases are better; needs
torch, torch_geometric, numpy and scipy alone.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from cells import Cell, Measured, add_options, mean_and_error, measured
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GraphSAGE

import varigraph as vg
from varigraph.metrics import spot_errors

NETWORKS = {
    "SAGE": lambda graph, classes: GraphSAGE(graph.num_features, 64, 2, classes, dropout=0.5),
    "GCN": lambda graph, classes: GCN(graph.num_features, 64, 2, classes, dropout=0.5),
    "GAT": lambda graph, classes: GAT(graph.num_features, 64, 2, classes, dropout=0.5, heads=8),
}
DATA_SETS = ("cora", "citeseer", "pubmed", "computers")
#: How a network is asked: attention's closed form is approximate, and `auto` would find it off and
#: sample.
METHODS = {"GAT": "sampled"}
LEVELS = (0.0, 2.5, 5.0, 12.0)
RIVAL, WAYS = "plain softmax", ("as predicted", "calibrated")
#: Which way is better.
MEASURES = {"area": -1, "AUROC": 1}


def trained(network: str, graph: Data, seed: int, epochs: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    model = NETWORKS[network](graph, int(graph.y.max()) + 1).to(graph.x.device)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        optimiser.zero_grad()
        out = model(graph.x, graph.edge_index)[graph.train_mask]
        F.cross_entropy(out, graph.y[graph.train_mask]).backward()
        optimiser.step()
    return model.eval()


def judged(pred: vg.Prediction, graph: Data) -> Measured:
    """Area and AUROC of each way."""
    test = graph.test_mask
    calibrated = vg.calibrate(pred, graph.y, nodes=graph.val_mask).apply(pred)
    labels, plain, found = graph.y[test], pred.plain[test], {}
    for name, each in (("as predicted", pred), ("calibrated", calibrated)):
        spotted = spot_errors(each.mean[test], labels, -each.trust[test], plain=plain)
        found[name] = spotted.risk_coverage_area, spotted.auroc
    rival = spotted.confidence_risk_coverage_area, spotted.confidence_auroc
    return {RIVAL: rival, **found}


def measure(cell: Cell, options: argparse.Namespace) -> Measured:
    """Area and AUROC of each way, of one network at one level of noise."""
    dataset, network, level, seed = cell
    graph = vg.load(dataset, root=options.data, seed=seed).to(options.device)
    model = trained(network, graph, seed, options.epochs)
    noisy = vg.add_noise(graph, percent=level, seed=seed)
    method = options.method or METHODS.get(network, "auto")
    pred = vg.predict(model, noisy, method=method, samples=options.samples, memory=options.memory)
    return judged(pred, noisy)


def mark(gain: Tensor) -> str:  # [seeds]
    """Whether it is better or worse than the rival."""
    error = gain.std() / len(gain) ** 0.5
    return " *" if gain.mean() > error else " -" if gain.mean() < -error else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--data", type=Path, default=None, help="holds PubMed/raw and so on")
    parser.add_argument("--datasets", nargs="+", default=DATA_SETS)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--levels", type=float, nargs="+", default=LEVELS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--method", default=None)
    parser.add_argument("--memory", default="4GiB")
    options = parser.parse_args()
    largest_first = reversed(options.datasets)
    seeds = range(options.seeds)
    cells = itertools.product(largest_first, options.networks, options.levels, seeds)
    found = measured(measure, cells, options)
    heads = [f"{name}, {way}" for name in MEASURES for way in (RIVAL, *WAYS)]
    print("| data | network | noise |", " | ".join(heads), "|")
    print("|---" * (3 + len(heads)) + "|")
    counts: Counter[tuple[str, str, str]] = Counter()
    for dataset, network, level in itertools.product(
        options.datasets, options.networks, options.levels
    ):
        runs = [each for cell, each in found.items() if cell[:3] == (dataset, network, level)]
        shown = []
        for place, (name, sign) in enumerate(MEASURES.items()):
            rival = torch.tensor([run[RIVAL][place] for run in runs]).double()
            shown.append(mean_and_error(rival))
            for way in WAYS:
                values = torch.tensor([run[way][place] for run in runs]).double()
                against = mark(sign * (values - rival))
                shown.append(mean_and_error(values) + against)
                counts[name, way, against.strip() or "alike"] += 1
                counts[name, way, "better on average"] += bool((sign * (values - rival)).mean() > 0)
        print(f"| {dataset} | {network} | {level:g} % |", " | ".join(shown), "|")
    for (name, way, against), count in sorted(counts.items()):
        print(f"{name}, {way}: {against} in {count}")


if __name__ == "__main__":
    main()
