"""Which network and training to choose for a data set: judged on validation nodes alone.

    python benchmarks/networks.py pubmed --seeds 3

Every candidate is trained on clean features for each level of noise, knowing its variance, and
judged by the cross entropy of the validation nodes, seen through a draw of that noise. Test nodes
are not looked at. Prints a Markdown table, the best candidate first.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import get_args

import torch

import varigraph as vg
from varigraph.metrics import accuracy, cross_entropy
from varigraph.studies.comparison.protocols import Chosen, Network
from varigraph.training.lesson import Noise

NETWORKS, NOISE = get_args(Network), get_args(Noise)
DECAYS = (5e-4, 5e-5)


def judged(chosen: Chosen, level: float, dataset: str, seed: int) -> list[float]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    graph = vg.load(dataset, seed=seed).to(device)
    noisy = vg.add_noise(graph, percent=level, seed=seed)
    graph.x_var = noisy.x_var
    start = time.perf_counter()
    model = chosen.trained(graph, seed=seed)
    seconds = time.perf_counter() - start
    with torch.no_grad():
        mean = model(noisy.x, noisy.edge_index)[graph.val_mask].softmax(1)
    labels = graph.y[graph.val_mask]
    return [cross_entropy(mean, labels), accuracy(mean, labels), seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--levels", type=float, nargs="+", default=[0, 2.5, 5, 12])
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--noise", nargs="+", default=NOISE)
    options = parser.parse_args()
    rows = []
    for name, decay, noise in itertools.product(options.networks, DECAYS, options.noise):
        chosen = Chosen(name, decay, noise)
        found = [
            torch.tensor(
                [judged(chosen, level, options.dataset, seed) for seed in range(options.seeds)]
            ).mean(0)
            for level in options.levels
        ]
        each = " | ".join(f"{100 * row[1]:.1f} {row[0]:.3f}" for row in found)
        whole = torch.stack(found).mean(0)
        text = f"| {name} | {decay:g} | {noise} | {whole[0]:.4f} | {each} | {whole[2]:.0f} |"
        print(text, flush=True)
        rows.append((float(whole[0]), text))
    levels = " | ".join(f"{level:g} %" for level in options.levels)
    print(f"\n{options.dataset}: validation accuracy % and cross entropy, {options.seeds} seeds\n")
    print(f"| network | weight decay | noise | mean cross entropy | {levels} | seconds |")
    print("|---" * (5 + len(options.levels)) + "|")
    print("\n".join(text for _, text in sorted(rows)))


if __name__ == "__main__":
    main()
