"""Are variances of class probabilities right by default? ``auto`` against brute force.

    python benchmarks/class_probabilities.py [--out FILE] [--data cora pubmed] [--draws 2000]
    python benchmarks/class_probabilities.py --tables FILE ...   # as Markdown

The cases of fidelity.py, links read both ways, and attention. Ratios are predicted over true
variance on test nodes, where that is above 1e-6. The spread that the truth's own error causes, as
its fourth moments tell, is taken out of the 5-95 % range, on a log scale around the median.
Coverage is the share of draws inside of 90 % intervals: of probabilities by ``pred.interval``, of
logits as mean ± 1.645 standard deviations. Cost is time of the processor over that of a plain
forward.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fidelity import NETWORKS, append, cases, classes, trained
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT
from truth import Truth, brute_force, removed_links

import varigraph as vg

Row = dict[str, Any]
#: Networks of fidelity.py, and attention.
ALL: dict[str, Callable[[Data], nn.Module]] = {
    **NETWORKS,
    "GAT 8-C": lambda g: GAT(g.num_features, 32, 2, classes(g), heads=4, dropout=0.5),
}


def readings(sources: tuple[str, ...]) -> tuple[str, ...]:
    return ("bernoulli", "removed") if "links" in sources else ("none",)


def judged(
    model: nn.Module, graph: Data, sources: tuple[str, ...], truth: Truth, links: str, plain: float
) -> Row:
    reading = {} if links == "none" else {"links": links}
    options = {"sources": sources, "nodes": graph.test_mask, "memory": "4GiB", **reading}
    begin = time.process_time()
    pred = vg.predict(model, graph, **options)
    seconds = time.process_time() - begin
    true, error = (f("probabilities") for f in (truth.var, truth.error))
    solid = true > 1e-6
    median, low, high = corrected((pred.total / true)[solid], (error / true)[solid])
    return {
        "median": median,
        "low": low,
        "high": high,
        "sum": float(pred.total.sum() / true.sum()),
        "forwards": seconds / plain,
        "samples": pred.samples,
        "method": pred.method,
        **coverage(pred, truth, solid),
    }


def coverage(pred: vg.Prediction, truth: Truth, solid: Tensor) -> Row:
    low, high = pred.interval(0.9)
    half = 1.645 * pred.logits.var.sqrt()
    kept = torch.stack(truth.kept)
    there = kept.softmax(-1)
    within = ((there >= low) & (there <= high)).float().mean(0)
    around = ((kept - pred.logits.mean).abs() <= half).float().mean(0)
    return {"in probability": float(within[solid].mean()), "in logit": float(around[solid].mean())}


def corrected(ratio: Tensor, error: Tensor) -> tuple[float, float, float]:
    """Median and 5-95 % range of ratios, the truth's relative errors taken out."""
    logs = ratio.clamp_min(1e-9).double().log()
    middle, spread = logs.median(), logs.std()
    shrink = (1 - error.double().square().median() / spread**2).clamp_min(0).sqrt()
    low, high = (middle + shrink * (logs.quantile(q) - middle) for q in (0.05, 0.95))
    return float(middle.exp()), float(low.exp()), float(high.exp())


@torch.no_grad()
def one_forward(model: nn.Module, graph: Data) -> float:
    times = []
    for _ in range(5):
        begin = time.process_time()
        model(graph.x, graph.edge_index)
        times.append(time.process_time() - begin)
    return min(times)


def measured(data: str, chosen: argparse.Namespace, device: str) -> None:
    graph = vg.load(data)
    for network, build in ALL.items():
        if not network.startswith(tuple(chosen.networks)):
            continue
        model = trained(graph, build, chosen.epochs, device)
        plain = one_forward(model.eval(), graph)
        for label, (uncertain, sources) in cases(graph).items():
            if not label.startswith(tuple(chosen.cases)):
                continue
            for links in readings(sources):
                options = {"draws": chosen.draws, "device": device}
                if links == "removed":
                    truth = removed_links(model, uncertain, **options)
                else:
                    truth = brute_force(model, uncertain, drop="weights" in sources, **options)
                row: Row = {"case": f"{data}, {network}, {label}", "links": links, "plain": plain}
                row["case"] += "" if links == "none" else f", {links}"
                try:
                    row |= judged(model, uncertain, sources, truth, links, plain)
                except vg.errors.VarigraphError as error:
                    row["error"] = error.problem
                print(json.dumps(row), flush=True)
                append(chosen.out, [row])


def table(rows: list[Row]) -> str:
    lines = [
        "| case | median [5–95 %] | sum | in 90 % | logits in 90 % | plain forwards | by |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['case']} | {row['error']} | | | | | |")
            continue
        ranged = f"{row['median']:.3f} [{row['low']:.2f}, {row['high']:.2f}]"
        inside = f"{100 * row['in probability']:.1f} | {100 * row['in logit']:.1f}"
        by = f"{row['samples']} draws" if row["samples"] else "first-order"
        lines.append(
            f"| {row['case']} | {ranged} | {row['sum']:.3f} | {inside} | {row['forwards']:.0f} "
            f"| {by} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("class-probabilities.json"))
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--data", nargs="+", default=["cora", "pubmed", "computers"])
    parser.add_argument("--networks", nargs="+", default=[""], help="how their names begin")
    parser.add_argument("--cases", nargs="+", default=[""], help="how their names begin")
    parser.add_argument("--tables", type=Path, nargs="+", help="print these results as Markdown")
    chosen = parser.parse_args()
    if chosen.tables:
        print(table([row for path in chosen.tables for row in json.loads(path.read_text())]))
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for data in chosen.data:
        measured(data, chosen, device)


if __name__ == "__main__":
    main()
