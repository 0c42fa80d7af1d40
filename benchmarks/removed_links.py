"""Error bars for links that may be removed, against the network itself on graphs without them.

    python benchmarks/removed_links.py [--draws 2000] [--nodes 150] [--data cora]

Prints a Markdown table: predicted over true variance of the logits, first-order, median and
5-95 % over test nodes and classes, and the ratio of the sums of both.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import torch
from fidelity import chances, classes, trained, with_links
from torch import Tensor, nn
from torch_geometric import nn as gnn
from torch_geometric.data import Data
from torch_geometric.utils import to_torch_csr_tensor

import varigraph as vg


class TwoLayers(nn.Module):
    def __init__(self, layer: Callable[[int, int], nn.Module], *sizes: int) -> None:
        super().__init__()
        self.first, self.second = layer(*sizes[:2]), layer(*sizes[1:])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x, edge_index).relu(), edge_index)
        return out


class Propagated(nn.Module):
    def __init__(self, graph: Data, steps: nn.Module) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(graph.num_features, 16), nn.Linear(16, classes(graph))
        self.steps = steps

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.steps(self.second(self.first(x).relu()), edge_index)
        return out


NETWORKS: dict[str, Callable[[Data], nn.Module]] = {
    "SAGE 64-C, ReLU": lambda g: TwoLayers(gnn.SAGEConv, g.num_features, 64, classes(g)),
    "GCN 16-C, ReLU": lambda g: TwoLayers(gnn.GCNConv, g.num_features, 16, classes(g)),
    "GraphConv 32-C, ReLU": lambda g: TwoLayers(gnn.GraphConv, g.num_features, 32, classes(g)),
    "GIN 32-C, ReLU": lambda g: TwoLayers(
        lambda a, b: gnn.GINConv(nn.Linear(a, b)), g.num_features, 32, classes(g)
    ),
    "SGC, 2 steps": lambda g: Propagated(g, gnn.SGConv(classes(g), classes(g), K=2)),
    "APPNP, 5 steps": lambda g: Propagated(g, gnn.APPNP(5, 0.1)),
}


@torch.no_grad()
def drawn(model: nn.Module, graph: Data, nodes: Tensor, draws: int) -> Tensor:  # [nodes, classes]
    """Variance of the logits over graphs from which links were taken out, both ways at once."""
    generator = torch.Generator().manual_seed(1)
    ends = graph.edge_index.sort(0).values
    _, coin = torch.unique(ends[0] * graph.num_nodes + ends[1], return_inverse=True)
    coins = int(coin.max()) + 1
    outputs = []
    for _ in range(draws):
        there = torch.rand(coins, generator=generator)[coin] < graph.edge_prob
        left = graph.edge_index[:, there].flip(0)
        adjacency = to_torch_csr_tensor(left, size=(graph.num_nodes, graph.num_nodes))
        outputs.append(model(graph.x, adjacency)[nodes])
    return torch.stack(outputs).double().var(0)


def row(name: str, label: str, model: nn.Module, graph: Data, nodes: Tensor, draws: int) -> str:
    true = drawn(model, graph, nodes, draws)
    start = time.perf_counter()
    pred = vg.predict(
        model, graph, method="first-order", links="removed", samples=0, nodes=nodes, memory="2GiB"
    )
    seconds, found = time.perf_counter() - start, pred.logits.var.double()
    ratio = (found / true)[true > 1e-10]
    low, middle, high = (float(ratio.quantile(q)) for q in (0.05, 0.5, 0.95))
    measured = f"{middle:.3f} [{low:.2f}, {high:.2f}] | {float(found.sum() / true.sum()):.3f}"
    return f"| {name}, p = {label} | {measured} | {seconds:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=150)
    parser.add_argument("--data", default="cora")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS))
    given = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse")
    graph = vg.load(given.data)
    order = torch.randperm(int(graph.test_mask.sum()), generator=torch.Generator().manual_seed(0))
    nodes = graph.test_mask.nonzero().ravel()[order[: given.nodes]].sort().values
    print("| network | median [5-95 %] | sum | seconds |\n|---|---|---:|---:|")
    for name in given.networks:
        model = trained(graph, NETWORKS[name], epochs=100).eval()
        for label, prob in chances(graph).items():
            uncertain = with_links(graph, prob)
            print(row(name, label, model, uncertain, nodes, given.draws), flush=True)


if __name__ == "__main__":
    main()
