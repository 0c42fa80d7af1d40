"""Calibration error at the protocol of CaGCN's table 2, plain temperature beside ours.

    python benchmarks/calibration.py --data FOLDER --device cuda --processes 16 --kept runs.jsonl

20 labels a class, 500 validation and 1,000 test nodes (the public split), two layers of 64 hidden
units, trained until the validation loss has not fallen for 100 epochs, error in 20 bins of equal
width, 10 runs. Everything is fitted on the validation nodes. "Perfect" is what ours by node would
have if they were true: classes are drawn from these probabilities themselves; "by luck" is how many
of such draws reach the bar. Prints a Markdown table; needs torch, torch_geometric, numpy and scipy
alone.
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from cells import Cell, Measured, add_options, mean_and_error, measured
from torch_geometric.data import Data
from torch_geometric.io import read_planetoid_data
from torch_geometric.nn import GAT, GCN

import varigraph as vg
from varigraph.metrics import accuracy, binary_ece

BINS, DRAWS = 20, 100
#: The network, its learning rate, and how it is asked: attention's closed form is approximate, and
#: `auto` would find it off and sample.
NETWORKS = {
    "GCN": (partial(GCN, dropout=0.5), 0.01, "first-order"),
    "GAT": (partial(GAT, dropout=0.6, heads=8), 0.005, "sampled"),
}
MOST_EPOCHS, PATIENCE = 2000, 100
#: CaGCN's printed errors, and the bars to be at or below.
PRINTED = {
    ("GCN", "Cora"): (0.0401, 0.035),
    ("GCN", "CiteSeer"): (0.0595, 0.055),
    ("GCN", "PubMed"): (0.0405, 0.022),
    ("GAT", "Cora"): (0.0450, 0.0450),
    ("GAT", "CiteSeer"): (0.0572, 0.0572),
    ("GAT", "PubMed"): (0.0356, 0.0356),
}
PUBLIC = ("Cora", "CiteSeer", "PubMed")
COLUMNS = (
    *("accuracy", "plain", "plain, temperature"),
    *("ours", "ours, temperature", "ours, by node", "perfect", "by luck"),
)


def public_split(folder: Path, name: str) -> Data:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the old pickles of the data sets
        graph = read_planetoid_data(str(folder / name / "raw"), name.lower())
    size = graph.x.sum(1, keepdim=True)
    graph.x = graph.x / size.where(size > 0, 1)
    return graph


def trained(network: str, graph: Data, seed: int) -> torch.nn.Module:
    kind, rate, _ = NETWORKS[network]
    torch.manual_seed(seed)
    model = kind(graph.num_features, 64, 2, int(graph.y.max()) + 1).to(graph.x.device)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=5e-4)
    least, since, best = math.inf, 0, model.state_dict()
    for _ in range(MOST_EPOCHS):
        model.train()
        optimiser.zero_grad()
        loss(model, graph, graph.train_mask).backward()
        optimiser.step()
        model.eval()
        with torch.no_grad():
            unseen = float(loss(model, graph, graph.val_mask))
        since += 1
        if unseen < least:
            least, since, best = unseen, 0, deepcopy(model.state_dict())
        if since == PATIENCE:
            break
    model.load_state_dict(best)
    return model


def loss(model: torch.nn.Module, graph: Data, mask: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(graph.x, graph.edge_index)[mask], graph.y[mask])


def error(pred: vg.Prediction, graph: Data) -> float:
    test = graph.test_mask
    right = (pred.mean.argmax(1) == graph.y)[test]
    return binary_ece(pred.trust[test].clamp(0, 1), right, bins=BINS)


def perfect(pred: vg.Prediction, graph: Data) -> torch.Tensor:  # [draws]
    """The error in worlds where classes are as likely as is said."""
    prob = pred.mean[graph.test_mask].double().cpu()
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(prob, DRAWS, replacement=True, generator=generator)
    confidence, best = prob.max(1)
    return torch.tensor([binary_ece(confidence, y == best, bins=BINS) for y in drawn.T])


def measure(cell: Cell, options: argparse.Namespace) -> Measured:
    """Of one network: the columns of the table."""
    network, name, seed = cell
    graph = public_split(options.data, name).to(options.device)
    model, method = trained(network, graph, seed), NETWORKS[network][2]
    pred = vg.predict(model, graph, method=method, seed=seed, memory="4GiB")
    nothing = {part: torch.zeros_like(var) for part, var in pred.by_source.items()}
    plain = replace(pred, mean=pred.plain, by_source=nothing)
    by_node = vg.calibrate(pred, graph.y, nodes=graph.val_mask, kind="graph").apply(pred)
    if_true = perfect(by_node, graph)
    found = {
        "accuracy": accuracy(pred.mean[graph.test_mask], graph.y[graph.test_mask]),
        "plain": error(plain, graph),
        "ours": error(pred, graph),
        "ours, by node": error(by_node, graph),
        "perfect": float(if_true.mean()),
        "by luck": float((if_true <= PRINTED[network, name][1]).double().mean()),
    }
    for way, each in (("plain", plain), ("ours", pred)):
        one = vg.calibrate(each, graph.y, nodes=graph.val_mask, kind="temperature")
        found[f"{way}, temperature"] = error(one.apply(each), graph)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--datasets", nargs="+", default=PUBLIC)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    rows = list(itertools.product(options.networks, options.datasets))
    cells = [(*row, seed) for row in reversed(rows) for seed in range(options.runs)]
    found = measured(measure, cells, options)
    print("| network | data | CaGCN | bar |", " | ".join(COLUMNS), "|")
    print("|---" * (4 + len(COLUMNS)) + "|")
    for row in rows:
        runs = [each for cell, each in found.items() if cell[:2] == row]
        values = {c: torch.tensor([run[c] for run in runs]).double() for c in COLUMNS}
        printed, bar = PRINTED[row]
        shown = (mean_and_error(values[column]) for column in COLUMNS)
        print("|", " | ".join((*row, f"{printed:.4f}", f"{bar:.4f}", *shown)), "|")


if __name__ == "__main__":
    main()
