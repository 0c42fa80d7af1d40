"""Networks with norms: variance of the logits by first-order, against brute force.

    python benchmarks/norms.py [--data cora pubmed] [--draws 400] [--percent 12]

Two layers, 64 hidden units, a norm and a ReLU between them, trained with dropout on clean features.
Prints a Markdown table: predicted over true variance of the logits of the test nodes, noise in the
features alone, median and 5-95 %, the ratio of the sums of both, and what ``auto`` takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from attention import learned
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.data import Data

import varigraph as vg

HIDDEN = 64
LAYERS: dict[str, Callable[..., nn.Module]] = {"SAGE": gnn.SAGEConv, "GCN": gnn.GCNConv}


class Length(nn.Module):
    """Every node's numbers divided by their length."""

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x)


NORMS: dict[str, Callable[[], nn.Module]] = {
    "LayerNorm": lambda: nn.LayerNorm(HIDDEN),
    "LayerNorm of the graph": lambda: gnn.LayerNorm(HIDDEN),
    "GraphNorm": lambda: gnn.GraphNorm(HIDDEN),
    "PairNorm": gnn.PairNorm,
    "PairNorm, each node": lambda: gnn.PairNorm(scale_individually=True),
    "F.normalize": Length,
    "BatchNorm": lambda: gnn.BatchNorm(HIDDEN),
}


class Normed(nn.Module):
    """Two layers with a norm between them."""

    def __init__(self, layer: Callable[..., nn.Module], norm: nn.Module, graph: Data) -> None:
        super().__init__()
        self.first = layer(graph.num_features, HIDDEN)
        self.norm = norm
        self.second = layer(HIDDEN, int(graph.y.max()) + 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.relu(self.norm(self.first(x, edge_index)))
        out: Tensor = self.second(F.dropout(h, 0.5, self.training), edge_index)
        return out


@torch.no_grad()
def drawn(model: nn.Module, graph: Data, draws: int) -> Tensor:  # [nodes, classes]
    """Variance of the logits over noise in the features."""
    generator = torch.Generator().manual_seed(1)
    std, total, squares = torch.as_tensor(graph.x_var).sqrt(), 0.0, 0.0
    middle = model(graph.x, graph.edge_index).double()
    for _ in range(draws):
        noise = torch.randn(graph.x.shape, generator=generator)
        out = model(graph.x + std * noise, graph.edge_index).double() - middle
        total, squares = total + out, squares + out.square()
    return torch.as_tensor((squares - total**2 / draws) / (draws - 1))


def row(data: str, network: str, norm: str, graph: Data, chosen: argparse.Namespace) -> str:
    torch.manual_seed(0)
    untrained = Normed(LAYERS[network], NORMS[norm](), graph)
    model = learned(untrained, graph, chosen.steps, rate=0.01)
    noisy = vg.add_noise(graph, percent=chosen.percent, seed=0)
    with torch.no_grad():
        right = model(graph.x, graph.edge_index).argmax(1)[graph.test_mask]
    accuracy = float((right == graph.y[graph.test_mask]).float().mean())
    true = drawn(model, noisy, chosen.draws)[graph.test_mask]
    found = vg.predict(model, noisy, method="first-order", samples=0).logits.var[graph.test_mask]
    ratio, total = found.double() / true, found.double().sum() / true.sum()
    low, high = ratio.quantile(torch.tensor([0.05, 0.95]).double()).tolist()
    auto = vg.predict(model, noisy, samples=0).method
    return (
        f"| {data} | {network}, {norm} | {accuracy:.3f} | {float(ratio.median()):.3f} "
        f"[{low:.2f}, {high:.2f}] | {float(total):.3f} | {auto} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["cora", "pubmed"])
    parser.add_argument("--networks", nargs="+", default=list(LAYERS))
    parser.add_argument("--norms", nargs="+", default=list(NORMS))
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--percent", type=float, default=12)
    chosen = parser.parse_args()
    print("| data | network | accuracy | ratio of variances | of sums | auto |")
    print("|---|---|---:|---|---:|---|")
    for data in chosen.data:
        graph = vg.load(data)
        for network in chosen.networks:
            for norm in chosen.norms:
                try:
                    print(row(data, network, norm, graph, chosen), flush=True)
                except vg.errors.VarigraphError as error:
                    print(f"| {data} | {network}, {norm} | | {error.problem} | | |", flush=True)


if __name__ == "__main__":
    main()
