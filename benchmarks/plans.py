"""Plans of measurements against a greedy search that predicts anew, and against chance.

    python benchmarks/plans.py                          # Cora and PubMed, 20 measurements
    python benchmarks/plans.py --data cora --shortlist 60

A GraphSAGE with ReLU and dropout is trained on each data set, its features are seen through 12 %
noise, and 20 nodes are to be measured again:

plan      what ``vg.plan`` chooses, by causes in closed form, in four rounds
search    greedy: each time the node whose measurement leaves least variance, by predicting with
          its variance set to 0; among the nodes that cause most, as many as ``--shortlist``. Gains
          of earlier steps are taken as bounds of later ones, so that few are predicted again
chance    20 nodes at random, the mean of five times

What is taken away is the difference of the predicted variances of all class probabilities, added
up over all nodes, with the variances of the chosen nodes really set to 0.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import varigraph as vg

BUDGET, NOISE, TIMES = 20, 12, 5


def total(model: nn.Module, graph: Data, measured: Iterable[int]) -> float:
    """Variance of all answers once some nodes were measured."""
    kept = torch.ones(len(graph.x), 1)
    kept[list(measured)] = 0
    known = graph.clone()
    known.x_var = kept * graph.x_var
    return float(vg.predict(model, known, method="first-order").total.double().sum())


def search(model: nn.Module, graph: Data, shortlist: list[int]) -> list[int]:
    """Greedy search; a node's gain of an earlier step bounds that of a later one."""
    before, chosen = total(model, graph, []), list[int]()
    gains = {node: before - total(model, graph, [node]) for node in shortlist}
    best = max(gains, key=lambda node: gains[node])
    chosen.append(best)
    before -= gains.pop(best)
    while len(chosen) < BUDGET:
        fresh: set[int] = set()
        while (best := max(gains, key=lambda node: gains[node])) not in fresh:
            gains[best] = before - total(model, graph, [*chosen, best])
            fresh.add(best)
        chosen.append(best)
        before -= gains.pop(best)
    return chosen


def compare(name: str, shortlist: int) -> None:
    """Print what each way takes away."""
    graph = vg.load(name)
    torch.manual_seed(0)
    model = GraphSAGE(graph.num_features, 64, 2, int(graph.y.max()) + 1, dropout=0.5)
    vg.train(model, graph, batch_size=None, epochs=50, learning_rate=0.01)
    noisy = vg.add_noise(graph, percent=NOISE)
    start = time.perf_counter()
    before = total(model, noisy, [])
    one = time.perf_counter() - start
    start = time.perf_counter()
    found = vg.plan(model, noisy, budget=BUDGET)
    took = (time.perf_counter() - start) / one
    causes = vg.attribute(model, noisy, top=shortlist)
    listed = [each.node for each in causes.nodes]
    draw = torch.Generator().manual_seed(0)
    chance = [torch.randperm(len(noisy.x), generator=draw)[:BUDGET].tolist() for _ in range(TIMES)]
    away = {
        "plan": before - total(model, noisy, found.nodes),
        "chance": sum(before - total(model, noisy, nodes) for nodes in chance) / TIMES,
    }
    away["search"] = before - total(model, noisy, search(model, noisy, listed))
    shares = ", ".join(f"{way} {100 * part / before:.2f} %" for way, part in away.items())
    print(f"{name}: variance {before:.4g}, of which features {causes.by_source['features']:.4g}")
    print(f"  taken away: {shares}")
    print(f"  plan / search {away['plan'] / away['search']:.3f}", end=", ")
    print(f"plan / chance {away['plan'] / away['chance']:.1f}; as long as {took:.0f} predictions")


def main() -> None:
    """Compare on the data sets that are asked for."""
    parser = argparse.ArgumentParser(description="Plans against a search, and against chance.")
    parser.add_argument("--data", nargs="+", default=["cora", "pubmed"])
    parser.add_argument("--shortlist", type=int, default=100)
    asked = parser.parse_args()
    for name in asked.data:
        compare(name, asked.shortlist)


if __name__ == "__main__":
    main()
