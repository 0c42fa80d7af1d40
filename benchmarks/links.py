"""Can link probabilities be believed? Ranking, calibration and time, against simple heuristics.

    python benchmarks/links.py [--data cora pubmed computers] [--methods seal hadamard]
                               [--seeds 3] [--judge tenth all] [--out links.md]

"tenth" holds out a tenth of the links, one fold of ten, and also tells how common neighbours and
Adamic-Adar rank the same pairs by the same visible links. "all" is the whole of
``vg.link_probabilities`` with five folds: each link judged by a model that has not seen it. Nothing
is chosen on the pairs that are judged. Seconds are those of the wall clock, and those that the
processors worked.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

import varigraph as vg
from varigraph.links.crossfit import judged
from varigraph.links.folds import divided
from varigraph.links.link_pairs import link_pairs
from varigraph.links.methods import RECIPES, adamic_adar, common_neighbours
from varigraph.metrics import auroc, average_precision, binary_ece

HEAD = """\
| data | judged | method | seed | AUC | average precision | ECE | seconds | processor seconds |
|---|---|---|---:|---:|---:|---:|---:|---:|"""


def tenth(graph: Data, methods: list[str], seed: int) -> Iterator[str]:
    links = link_pairs(graph.edge_index, nodes=graph.num_nodes)
    fold = divided(links, folds=10, seed=seed)[0]
    for floor in (common_neighbours, adamic_adar):
        score = floor(fold.scored.pairs, fold.structure, nodes=graph.num_nodes)
        real = fold.scored.real
        ranking = f"{auroc(score, real):.4f} | {average_precision(score, real):.4f}"
        yield f"a tenth | {floor.__name__.replace('_', ' ')} | {seed} | {ranking} | | | |"
    for method in methods:
        recipe = RECIPES[method]
        fold = divided(links, folds=10, contrast=recipe.contrast, seed=seed)[0]
        make = partial(recipe.scorer, nodes=graph.num_nodes, x=graph.x)
        watch = Watch()
        found = judged(fold, make, lambda done: None)
        yield f"a tenth | {method} | {seed} | {measured(found.links, found.others)} | {watch} |"


def everything(graph: Data, methods: list[str], seed: int) -> Iterator[str]:
    for method in methods:
        watch = Watch()
        found = vg.link_probabilities(graph, method=method, seed=seed).link_quality
        numbers = measured(found.links, found.non_links)
        yield f"all {len(found.links):,}, 5 folds | {method} | {seed} | {numbers} | {watch} |"


class Watch:
    """Started when it is made; says how long that is ago."""

    def __init__(self) -> None:
        self.start, self.worked = time.perf_counter(), time.process_time()

    def __str__(self) -> str:
        seconds, worked = time.perf_counter() - self.start, time.process_time() - self.worked
        return f"{seconds:.0f} | {worked:.0f}"


def measured(links: Tensor, others: Tensor) -> str:
    prob = torch.cat([links, others])
    real = torch.arange(len(prob)) < len(links)
    return " | ".join(
        f"{measure(prob, real):.4f}" for measure in (auroc, average_precision, binary_ece)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", default=["cora"])
    parser.add_argument("--methods", nargs="+", default=sorted(RECIPES), choices=sorted(RECIPES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--judge", nargs="+", default=["tenth", "all"], choices=["tenth", "all"])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    rows = [HEAD]
    print(HEAD)
    for name in chosen.data:
        graph = vg.load(name)
        for seed in range(chosen.seeds):
            for judge in chosen.judge:
                table = tenth if judge == "tenth" else everything
                for row in table(graph, chosen.methods, seed):
                    rows.append(f"| {name} | {row}")
                    print(rows[-1], flush=True)
    if chosen.out is not None:
        chosen.out.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
