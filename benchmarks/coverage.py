"""How often sets and intervals hold the truth, over random splits of the nodes held out.

    python benchmarks/coverage.py --data FOLDER --splits 100

A network is trained on clean features of 70 % of the nodes and answers for features seen through a
draw of noise. The other 30 % are divided by chance, again and again: one half is given to
`vg.calibrate`, the other half is judged. Beside our sets stands split-conformal prediction on the
plain network's softmax, written out here, with as many held-out nodes: scores 1 - p (threshold) or
the probability of all classes that are as likely (adaptive). Mean ± standard error over splits.
Prints a Markdown table; needs torch, torch_geometric, numpy and scipy alone.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

import varigraph as vg
from trust import DATA_SETS, NETWORKS, trained

SCORES = ("threshold", "adaptive")


def plain_sets(prob: Tensor, y: Tensor, held_out: Tensor, level: float, score: str) -> Tensor:
    """Split-conformal prediction as its papers have it: [nodes, classes] bool."""
    if score == "adaptive":
        strange = torch.stack([(prob * (prob >= each[:, None])).sum(1) for each in prob.T], 1)
    else:
        strange = 1 - prob
    scores = strange[held_out, y[held_out]].sort().values
    return strange <= scores[math.ceil((len(scores) + 1) * level) - 1]


def judged(pred: vg.Prediction, graph: Data, held_out: Tensor, level: float) -> dict[str, Tensor]:
    """Sets of all nodes, by who made them."""
    applied = vg.calibrate(pred, graph.y, nodes=held_out).apply(pred)
    plain = pred.plain.double()
    found = {f"plain, {s}": plain_sets(plain, graph.y, held_out, level, s) for s in SCORES}
    for score in SCORES:
        for neighbours in (False, True):
            sets = applied.class_sets(level, score=score, neighbours=neighbours)
            found[f"ours, {score}{', neighbours' if neighbours else ''}"] = sets.members
    return {**found, "ours": applied.class_sets(level).members}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=None, help="holds PubMed/raw and so on")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--datasets", nargs="+", default=DATA_SETS)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--noise", type=float, default=5.0, help="per cent of the mean feature")
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--memory", default="2GiB")
    options = parser.parse_args()
    print(
        "| data | network | sets by | hold the truth | classes |\n|---|---|---|---|---|", flush=True
    )
    for dataset in options.datasets:
        for network in options.networks:
            graph = vg.load(dataset, root=options.data, seed=0).to(options.device)
            model = trained(network, graph, 0, options.epochs)
            noisy = vg.add_noise(graph, percent=options.noise, seed=0)
            pred = vg.predict(
                model, noisy, method=options.method, samples=options.samples, memory=options.memory
            )
            unseen = (~graph.train_mask).nonzero().flatten()
            told = defaultdict(list)
            for split in range(options.splits):
                order = torch.randperm(len(unseen), generator=torch.Generator().manual_seed(split))
                held_out, test = unseen[order.to(unseen.device)].tensor_split(2)
                for name, members in judged(pred, graph, held_out, options.level).items():
                    held = members[test, graph.y[test]].double().mean()
                    told[name].append((held, members[test].sum(1).double().mean()))
            for name, pairs in told.items():
                values = torch.tensor(pairs)
                mean, error = values.mean(0), values.std(0) / len(values) ** 0.5
                held = f"{100 * mean[0]:.2f} ± {100 * error[0]:.2f} %"
                size = f"{mean[1]:.3f} ± {error[1]:.3f}"
                print(f"| {dataset} | {network} | {name} | {held} | {size} |", flush=True)


if __name__ == "__main__":
    main()
