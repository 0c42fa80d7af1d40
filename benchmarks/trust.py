"""Which answers are wrong: our trust against the softmax of the plain network.

    python benchmarks/trust.py --data FOLDER --device cuda

Networks are trained on clean features of 70 % of the nodes and answer for features seen through a
draw of noise. Trust is `pred.trust`, as predicted and calibrated on the validation nodes; the rival
is the confidence of the plain network on the same features, with its own errors. For both the area
under risk over coverage (lower is better) and the AUROC of finding errors (higher is better), on
test nodes, mean ± standard error over seeds; *: better by more than a standard error of the
difference, -: worse by more than one. Prints a Markdown table; needs torch, torch_geometric, numpy
and scipy alone.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn.functional as F
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
LEVELS = (0.0, 2.5, 5.0, 12.0)


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


def judged(model: torch.nn.Module, graph: Data, options: argparse.Namespace) -> dict[str, Tensor]:
    """Area and AUROC of each way."""
    test = graph.test_mask
    pred = vg.predict(
        model, graph, method=options.method, samples=options.samples, memory=options.memory
    )
    calibrated = vg.calibrate(pred, graph.y, nodes=graph.val_mask).apply(pred)
    labels, plain, found = graph.y[test], pred.plain[test], {}
    for name, each in (("as predicted", pred), ("calibrated", calibrated)):
        spotted = spot_errors(each.mean[test], labels, -each.trust[test], plain=plain)
        found[name] = torch.tensor([spotted.risk_coverage_area, spotted.auroc])
    rival = spotted.confidence_risk_coverage_area, spotted.confidence_auroc
    return {"plain softmax": torch.tensor(rival), **found}


def cell(values: Tensor, rival: Tensor, sign: int) -> str:  # [seeds], [seeds]
    """Mean ± standard error, and whether it is better or worse than the rival."""
    gain = sign * (values - rival)
    error = gain.std() / len(gain) ** 0.5
    mark = " *" if gain.mean() > error else " -" if gain.mean() < -error else ""
    return f"{values.mean():.4f} ± {values.std() / len(values) ** 0.5:.4f}{mark}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=None, help="holds PubMed/raw and so on")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--datasets", nargs="+", default=DATA_SETS)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--levels", type=float, nargs="+", default=LEVELS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--memory", default="16GiB")
    options = parser.parse_args()
    ways = ("plain softmax", "as predicted", "calibrated")
    heads = [f"{measure}, {way}" for measure in ("area", "AUROC") for way in ways]
    print("| data | network | noise |", " | ".join(heads), "|")
    print("|---" * (3 + len(heads)) + "|", flush=True)
    for dataset, network in itertools.product(options.datasets, options.networks):
        runs: dict[float, list[dict[str, Tensor]]] = defaultdict(list)
        for seed in range(options.seeds):
            graph = vg.load(dataset, root=options.data, seed=seed).to(options.device)
            model = trained(network, graph, seed, options.epochs)
            for level in options.levels:
                noisy = vg.add_noise(graph, percent=level, seed=seed)
                runs[level].append(judged(model, noisy, options))
        for level, each in runs.items():
            values = {way: torch.stack([one[way] for one in each]).double() for way in ways}
            cells = [
                cell(values[way][:, place], values["plain softmax"][:, place], sign)
                for place, sign in ((0, -1), (1, 1))
                for way in ways
            ]
            print(f"| {dataset} | {network} | {level:g} %", *cells, sep=" | ", end=" |\n")


if __name__ == "__main__":
    main()
