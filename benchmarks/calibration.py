"""Calibration error at the protocol of CaGCN's table 2, plain temperature beside ours.

    python benchmarks/calibration.py --data FOLDER --networks GCN GAT --runs 10 --device cuda

20 labels a class, 500 validation and 1,000 test nodes (the public split), 64 hidden units, dropout
0.5, 200 epochs, error in 20 bins of equal width. Everything is fitted on the validation nodes. The
last column is what perfect probabilities would have: truths drawn from the calibrated ones.
Prints a Markdown table; needs torch, torch_geometric, numpy and scipy alone.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.io import read_planetoid_data
from torch_geometric.nn import GAT, GCN

import varigraph as vg
from varigraph.metrics import accuracy, binary_ece

BINS = 20
#: Hidden units, rate of dropout, learning rate and further options.
NETWORKS = {
    "GCN": (GCN, {"dropout": 0.5}, 0.01),
    "GAT": (GAT, {"dropout": 0.5, "heads": 8}, 0.01),
}
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
    *("ours", "ours, temperature", "ours, by node", "perfect"),
)


def public_split(folder: Path, name: str) -> Data:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the old pickles of the data sets
        graph = read_planetoid_data(str(folder / name / "raw"), name.lower())
    size = graph.x.sum(1, keepdim=True)
    graph.x = graph.x / size.where(size > 0, 1)
    return graph


def trained(network: str, graph: Data, seed: int, epochs: int) -> torch.nn.Module:
    kind, options, rate = NETWORKS[network]
    torch.manual_seed(seed)
    model = kind(graph.num_features, 64, 2, int(graph.y.max()) + 1, **options).to(graph.x.device)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=5e-4)
    for _ in range(epochs):
        optimiser.zero_grad()
        out = model(graph.x, graph.edge_index)[graph.train_mask]
        F.cross_entropy(out, graph.y[graph.train_mask]).backward()
        optimiser.step()
    return model.eval()


def error(pred: vg.Prediction, graph: Data) -> float:
    test = graph.test_mask
    right = (pred.mean.argmax(1) == graph.y)[test]
    return binary_ece(pred.trust[test].clamp(0, 1), right, bins=BINS)


def perfect(pred: vg.Prediction, graph: Data, draws: int = 20) -> float:
    """The mean error if answers were right exactly as often as is said."""
    trust = pred.trust[graph.test_mask].cpu()
    generator = torch.Generator().manual_seed(0)
    chances = [torch.rand(len(trust), generator=generator) < trust for _ in range(draws)]
    return sum(binary_ece(trust, right, bins=BINS) for right in chances) / draws


def judged(network: str, graph: Data, seed: int, options: argparse.Namespace) -> dict[str, float]:
    model = trained(network, graph, seed, options.epochs)
    pred = vg.predict(model, graph, method=options.method, seed=seed, memory="8GiB")
    nothing = {part: torch.zeros_like(var) for part, var in pred.by_source.items()}
    plain = replace(pred, mean=pred.plain, by_source=nothing)
    by_node = vg.calibrate(pred, graph.y, nodes=graph.val_mask, kind="graph").apply(pred)
    found = {
        "accuracy": accuracy(pred.mean[graph.test_mask], graph.y[graph.test_mask]),
        "plain": error(plain, graph),
        "ours": error(pred, graph),
        "ours, by node": error(by_node, graph),
        "perfect": perfect(by_node, graph),
    }
    for name, each in (("plain", plain), ("ours", pred)):
        one = vg.calibrate(each, graph.y, nodes=graph.val_mask, kind="temperature")
        found[f"{name}, temperature"] = error(one.apply(each), graph)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--datasets", nargs="+", default=PUBLIC)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--method", default="auto")
    options = parser.parse_args()
    print("| network | data | CaGCN | bar |", " | ".join(COLUMNS), "|")
    print("|---" * (4 + len(COLUMNS)) + "|", flush=True)
    for network in options.networks:
        for name in options.datasets:
            graph = public_split(options.data, name).to(options.device)
            runs = defaultdict(list)
            for seed in range(options.runs):
                for column, value in judged(network, graph, seed, options).items():
                    runs[column].append(value)
            values = {column: torch.tensor(each).double() for column, each in runs.items()}
            cells = (
                f"{each.mean():.4f} ± {each.std() / len(each) ** 0.5:.4f}"
                for each in (values[column] for column in COLUMNS)
            )
            printed, bar = PRINTED[network, name]
            print(f"| {network} | {name} | {printed:.4f} | {bar:.4f}", *cells, sep=" | ", end="")
            print(" |", flush=True)


if __name__ == "__main__":
    main()
