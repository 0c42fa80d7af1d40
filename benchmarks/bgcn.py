"""Does a learnt graph help where labels are few? BGCN against the plain network, split by split.

    python benchmarks/bgcn.py [--data cora citeseer] [--labels 5 20] [--splits 10] [--first 0]
                              [--edges-per-node 30] [--squared] [--hard] [--out bgcn.md]
    python benchmarks/bgcn.py --blocks

Each split draws so many labelled nodes per class and 1000 others to test on. All columns share
split, seed, recipe and epochs (400 for 5 labels per class, 350 for 10, 300 for 20): "GCN" is the
network on the observed graph, "GCN, dropout" the mean of 100 passes of the same network with
dropout on, "BGCN" the same on the learnt graph, or with --blocks over graphs of a block model.
Gains are paired, over "GCN", with the standard error of their mean. Options were chosen on the
splits from 100 on (--first 100).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

import varigraph as vg
from varigraph.baselines.bgcn import Bgcn
from varigraph.baselines.block_bgcn import BlockBgcn
from varigraph.baselines.gcn import GcnTrainer, normalised
from varigraph.baselines.plain import from_draws

HEAD = """\
| data | labels per class | splits | GCN | GCN, dropout | BGCN | gain of dropout | gain of BGCN |
|---|---:|---:|---:|---:|---:|---:|---:|"""
EPOCHS = {5: 400, 10: 350, 20: 300}


def split(graph: Data, labels: int, seed: int) -> Data:
    """So many training nodes per class, and 1000 others to test on."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(graph.num_nodes, generator=generator)
    classes = range(int(graph.y.max()) + 1)
    train = torch.cat([order[graph.y[order] == label][:labels] for label in classes])
    graph = graph.clone()
    graph.train_mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
    graph.train_mask[train] = True
    graph.test_mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
    graph.test_mask[order[~graph.train_mask[order]][:1000]] = True
    return graph


def accuracies(graph: Data, labels: int, seed: int, options: dict[str, object]) -> list[float]:
    """Of the three methods, in per cent."""
    epochs = EPOCHS.get(labels, 300)
    adjacency = normalised(graph.edge_index, graph.num_nodes)
    classes = int(graph.y[graph.train_mask].max()) + 1
    trainer = GcnTrainer(graph.x, graph.y, graph.train_mask, classes=classes, seed=seed)
    trainer.fit(adjacency, epochs=epochs)
    draws = from_draws(trainer.draws(adjacency, 100), method="dropout")
    bayesian = BlockBgcn if options.pop("blocks") else Bgcn
    learnt = bayesian.fit(graph, epochs=epochs, seed=seed, **options).predict(graph, samples=100)
    answers = trainer.logits(adjacency), draws.mean, learnt.mean
    return [accuracy(answer, graph) for answer in answers]


def accuracy(answer: Tensor, graph: Data) -> float:
    right = answer.argmax(dim=1) == graph.y
    return 100 * right[graph.test_mask].double().mean().item()


def row(name: str, labels: int, results: Tensor) -> str:  # [splits, methods]
    gains = results - results[:, :1]
    error = gains.std(dim=0) / len(gains) ** 0.5
    each = [f"{m:.1f} ± {s:.1f}" for m, s in zip(results.mean(0), results.std(0), strict=True)]
    more = [f"{g:+.2f} ± {e:.2f}" for g, e in zip(gains.mean(0), error, strict=True)][1:]
    return f"| {name} | {labels} | {len(results)} | {' | '.join(each + more)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", default=["cora", "citeseer"])
    parser.add_argument("--labels", nargs="+", type=int, default=[5, 20])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--edges-per-node", type=int, default=30)
    parser.add_argument("--squared", action="store_true")
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--blocks", action="store_true")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    options = {"blocks": chosen.blocks}
    if not chosen.blocks:
        options |= {
            "edges_per_node": chosen.edges_per_node,
            "squared": chosen.squared,
            "hard": chosen.hard,
        }
    rows = [HEAD]
    print(HEAD)
    for name in chosen.data:
        graph = vg.load(name)
        for labels in chosen.labels:
            seeds = range(chosen.first, chosen.first + chosen.splits)
            results = [accuracies(split(graph, labels, s), labels, s, dict(options)) for s in seeds]
            rows.append(row(name, labels, torch.tensor(results)))
            print(rows[-1], flush=True)
    if chosen.out is not None:
        chosen.out.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
