"""Are the error bars of the right size? Every method against brute force, on trained networks.

    python benchmarks/fidelity.py [--out docs/fidelity.md] [--draws 4000] [--data cora pubmed ...]

The truth is drawn through the unmodified torch_geometric model: full-size noise with a torch CSR
adjacency, dropout as the model does it, coins by a hook on its messages. It shares no code with the
methods that it judges. Ratios are predicted over true variance of the logits on test nodes; the
spread that the truth's own sampling error causes (a relative variance of 2 / draws) is taken out of
the 5-95 % range, on a log scale around the median.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GraphSAGE, MessagePassing
from torch_geometric.utils import to_torch_csr_tensor

import varigraph as vg

METHODS = ("first-order", "covariance", "diagonal")
NETWORKS: dict[str, Callable[[Data], nn.Module]] = {
    "paper, linear": vg.paper_network,
    "SAGE 64-C, ReLU": lambda g: GraphSAGE(g.num_features, 64, 2, classes(g), dropout=0.5),
    "GCN 16-C, ReLU": lambda g: GCN(g.num_features, 16, 2, classes(g), dropout=0.5),
}


def classes(graph: Data) -> int:
    return int(graph.y.max()) + 1


def trained(graph: Data, build: Callable[[Data], nn.Module], epochs: int) -> nn.Module:
    torch.manual_seed(0)
    model = build(graph)
    optimiser = torch.optim.Adam(model.parameters(), 0.01, weight_decay=5e-4)
    for _ in range(epochs):
        model.train()
        optimiser.zero_grad()
        logits = model(graph.x, graph.edge_index)
        F.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
        optimiser.step()
    return model.eval()


# ---- the truth ----


@dataclass
class Truth:
    """Running moments of logits and probabilities around a first guess."""

    nodes: Tensor
    count: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)
    start: dict[str, Tensor] = field(default_factory=dict)

    def add(self, logits: Tensor) -> None:
        values = {"logits": logits[self.nodes].double()}
        values["mean"] = values["logits"].softmax(-1)
        for name, value in values.items():
            shift = self.start.setdefault(name, value)
            for power in (1, 2):
                key = f"{name}{power}"
                self.sums[key] = self.sums.get(key, 0) + (value - shift) ** power
        self.count += 1

    def var(self, name: str) -> Tensor:
        mean = self.sums[f"{name}1"] / self.count
        return (self.sums[f"{name}2"] / self.count - mean**2) * self.count / (self.count - 1)


def adjacency(graph: Data) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = (graph.num_nodes, graph.num_nodes)
        return to_torch_csr_tensor(graph.edge_index.flip(0), size=size)


@torch.no_grad()
def brute_force(
    model: nn.Module, graph: Data, *, draws: int, device: str, drop: bool = False, seed: int = 1
) -> tuple[Truth, list[Tensor]]:
    """Draw whatever the graph says is uncertain; also returns some draws of the logits."""
    torch.manual_seed(seed)
    model, graph = model.to(device), graph.clone().to(device)
    truth, kept = Truth(graph.test_mask), []
    std = torch.as_tensor(graph.get("x_var", 0.0)).sqrt().to(device)
    prob = graph.get("edge_prob")
    links = graph.edge_index if prob is not None else adjacency(graph)
    coins = _Coins(model, graph, prob) if prob is not None else None
    for module in model.modules():
        module.training = drop
    for number in range(draws):
        if coins is not None:
            coins.toss()
        x = graph.x if float(std) == 0 else graph.x + std * torch.randn_like(graph.x)
        logits = model(x, links)
        truth.add(logits)
        if number < 300:
            kept.append(logits[truth.nodes].cpu())
    if coins is not None:
        coins.remove()
    model.eval().cpu()
    return truth, kept


class _Coins:
    """One coin per undirected link, the same in every layer; loops a layer adds are certain."""

    def __init__(self, model: nn.Module, graph: Data, prob: Tensor) -> None:
        low, high = graph.edge_index.min(0).values, graph.edge_index.max(0).values
        pairs, self.coin = (low * graph.num_nodes + high).unique(return_inverse=True)
        self.prob = torch.zeros(len(pairs), device=prob.device).scatter_(0, self.coin, prob)
        layers = [m for m in model.modules() if isinstance(m, MessagePassing)]
        self.handles = [m.register_message_forward_hook(self._silence) for m in layers]

    def toss(self) -> None:
        self.keep = (torch.rand_like(self.prob) < self.prob)[self.coin].float()

    def _silence(self, layer: Any, inputs: Any, message: Tensor) -> Tensor:
        own = message.new_ones(len(message) - len(self.keep))
        return message * torch.cat([self.keep, own])[:, None]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


# ---- the comparison ----


def corrected(ratio: Tensor, draws: int) -> tuple[float, float, float]:
    """Median and 5-95 % range of ratios, the truth's sampling error taken out."""
    logs = ratio[ratio.isfinite() & (ratio > 0)].double().log()
    middle = logs.median()
    spread = logs.std()
    shrink = (1 - (2 / draws) / spread**2).clamp_min(0).sqrt()
    low, high = (middle + shrink * (logs.quantile(q) - middle) for q in (0.05, 0.95))
    return float(middle.exp()), float(low.exp()), float(high.exp())


def judged(
    case: str, model: nn.Module, graph: Data, *, draws: int, device: str, sources: tuple[str, ...]
) -> list[dict[str, Any]]:
    truth, kept = brute_force(model, graph, draws=draws, device=device, drop="weights" in sources)
    rows = []
    solid = (truth.var("logits") > 1e-12).cpu()
    for method in METHODS:
        options = {"method": method, "sources": sources, "nodes": graph.test_mask, "memory": "4GiB"}
        if "weights" in sources:
            options["weights"] = "closed-form"
        else:
            options["samples"] = 0
        start = time.perf_counter()
        try:
            pred = vg.predict(model, graph, **options)
        except vg.errors.TooLargeError as error:
            rows.append({"case": case, "method": method, "error": error.problem})
            continue
        seconds = time.perf_counter() - start
        ratio = (pred.logits.var / truth.var("logits").cpu())[solid]
        seen = truth.var("mean").cpu()
        share = (pred.total / seen)[seen > 1e-6]
        half = 1.645 * pred.logits.var.sqrt()
        inside = torch.stack([(k - pred.logits.mean).abs() <= half for k in kept]).float()
        median, low, high = corrected(ratio, draws)
        rows.append(
            {
                "case": case,
                "method": method,
                "median": median,
                "low": low,
                "high": high,
                "probability": float(share.median()),
                "coverage": float(inside[:, solid].mean()),
                "seconds": seconds,
                "draws": draws,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def cases(
    name: str, graph: Data, model: nn.Module, options: dict[str, Any]
) -> list[dict[str, Any]]:
    rows = []
    for percent in (2.5, 12):
        noisy = vg.add_noise(graph, percent=percent)
        rows += judged(f"{name}, noise {percent} %", model, noisy, sources=("features",), **options)
    rows += judged(f"{name}, dropout", model, graph, sources=("weights",), **options)
    for label, prob in chances(graph).items():
        uncertain = graph.clone()
        uncertain.edge_prob = prob
        rows += judged(f"{name}, links {label}", model, uncertain, sources=("links",), **options)
    both = vg.add_noise(graph, percent=12)
    both.edge_prob = chances(graph)["0.8"]
    sources = ("features", "links")
    return rows + judged(
        f"{name}, noise 12 % and links 0.8", model, both, sources=sources, **options
    )


def chances(graph: Data) -> dict[str, Tensor]:
    level = torch.rand(graph.num_nodes, generator=torch.Generator().manual_seed(5))
    mixed = 0.5 + 0.25 * (level[graph.edge_index[0]] + level[graph.edge_index[1]])
    full = torch.ones(graph.num_edges)
    return {"0.8": 0.8 * full, "0.95": 0.95 * full, "0.5-1": mixed}


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| case | method | logit variance, predicted / true | 5-95 % | probability | coverage |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['case']} | {row['method']} | {row['error']} | | | |")
            continue
        lines.append(
            f"| {row['case']} | {row['method']} | {row['median']:.4g} | "
            f"{row['low']:.3g} - {row['high']:.3g} | {row['probability']:.3g} | "
            f"{100 * row['coverage']:.1f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("fidelity.json"))
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--data", nargs="+", default=["cora", "pubmed", "computers"])
    chosen = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options = {"draws": chosen.draws, "device": device}
    rows = []
    for data in chosen.data:
        graph = vg.load(data)
        for network, build in NETWORKS.items():
            model = trained(graph, build, chosen.epochs)
            rows += cases(f"{data}, {network}", graph, model, options)
            chosen.out.write_text(json.dumps(rows, indent=1))
            chosen.out.with_suffix(".md").write_text(table(rows) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
