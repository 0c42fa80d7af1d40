"""Error bars of attention networks in closed form, against the network itself on noisy features.

    python benchmarks/attention.py [--draws 400] [--data cora pubmed computers] [--steps 200]
        [--layers GAT GATv2 Transformer] [--percent 2.5 12] [--nodes 200] [--device cpu]

Prints a Markdown table: predicted over true variance of the logits of the test nodes, first-order,
median and 5-95 %, the ratio of the sums of both, and what it costs in plain forwards: of all nodes,
or of so many test nodes as ``--nodes`` says. ``--draws 0`` measures the cost alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.data import Data

import varigraph as vg

LAYERS: dict[str, Callable[..., nn.Module]] = {
    "GAT": gnn.GATConv,
    "GATv2": gnn.GATv2Conv,
    "Transformer": gnn.TransformerConv,
}


class Attention(nn.Module):
    """Eight heads of eight, then one for the classes."""

    def __init__(self, layer: Callable[..., nn.Module], features: int, classes: int) -> None:
        super().__init__()
        self.first = layer(features, 8, heads=8)
        self.second = layer(64, classes, heads=1, concat=False)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(F.elu(self.first(x, edge_index)), 0.5, self.training)
        out: Tensor = self.second(x, edge_index)
        return out


def trained(layer: Callable[..., nn.Module], graph: Data, steps: int) -> nn.Module:
    torch.manual_seed(0)
    model = Attention(layer, graph.num_features, int(graph.y.max()) + 1).to(graph.x.device)
    return learned(model, graph, steps, rate=0.005)


def learned(model: nn.Module, graph: Data, steps: int, rate: float) -> nn.Module:
    learn = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=5e-4)
    for _ in range(steps):
        learn.zero_grad()
        logits = model.train()(graph.x, graph.edge_index)
        F.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
        learn.step()
    return model.eval()


@torch.no_grad()
def drawn(model: nn.Module, graph: Data, draws: int) -> Tensor:  # [nodes, classes]
    """Variance of the logits over noise in the features, in opposite pairs."""
    generator = torch.Generator(graph.x.device).manual_seed(1)
    std, total, squares = torch.as_tensor(graph.x_var).sqrt(), 0.0, 0.0
    middle = model(graph.x, graph.edge_index).double()
    for draw in range(draws):
        if draw % 2 == 0:
            noise = torch.randn(graph.x.shape, generator=generator, device=graph.x.device)
        else:
            noise = -noise
        out = model(graph.x + std * noise, graph.edge_index).double() - middle
        total, squares = total + out, squares + out.square()
    return torch.as_tensor((squares - total**2 / draws) / (draws - 1))


def seconds(runs: list[Callable[[], object]], times: int = 3) -> list[float]:
    """The quickest of each, one after the other.

    In time of the processor, or by the clock where a GPU does the work.
    """
    on_gpu, best = torch.cuda.is_available(), [float("inf")] * len(runs)
    clock = time.perf_counter if on_gpu else time.process_time
    for _ in range(times):
        for number, run in enumerate(runs):
            start = clock()
            run()
            if on_gpu:
                torch.cuda.synchronize()
            best[number] = min(best[number], clock() - start)
    return best


def asked(graph: Data, count: int | None) -> Tensor:  # [nodes]
    """The test nodes, or so many of them, evenly."""
    test = graph.test_mask.nonzero().ravel()
    return test if count is None else test[:: max(1, len(test) // count)][:count]


def ratios(found: Tensor, true: Tensor, draws: int) -> str:  # [nodes, classes] each
    """Median and 5-95 % of the ratios, and the ratio of the sums, as two cells of a table.

    The median as if the pairs of draws were exact: of n, a variance has the median (1 - 2 / 9n)^3.
    """
    exact = (1 - 2 / 9 / (draws / 2)) ** 3
    ratio, total = found / true, found.sum() / true.sum()
    low, high = ratio.quantile(torch.tensor([0.05, 0.95], device=ratio.device).double()).tolist()
    return f"{float(ratio.median()) * exact:.3f} [{low:.2f}, {high:.2f}] | {float(total):.3f}"


def row(name: str, model: nn.Module, graph: Data, percent: float, options: Any) -> str:
    noisy, nodes = vg.add_noise(graph, percent=percent, seed=0), asked(graph, options.nodes)

    @torch.no_grad()
    def plain() -> Tensor:
        out: Tensor = model(noisy.x, noisy.edge_index)
        return out

    def predict(nodes: Tensor | None) -> vg.Prediction:
        return vg.predict(model, noisy, method="first-order", samples=0, memory="3GiB", nodes=nodes)

    one, ours = seconds([plain, lambda: predict(None if options.nodes is None else nodes)])
    with torch.no_grad():
        right = (model(graph.x, graph.edge_index).argmax(1) == graph.y)[graph.test_mask]
    found = "not measured | "
    if options.draws:
        true = drawn(model, noisy, options.draws)[nodes]
        found = ratios(predict(nodes).logits.var.double(), true, options.draws)
    return (
        f"| {name} | {float(right.float().mean()):.3f} | {percent} | {found} | {ours / one:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--data", nargs="+", default=["cora", "pubmed", "computers"])
    parser.add_argument("--layers", nargs="+", default=list(LAYERS), choices=list(LAYERS))
    parser.add_argument("--percent", nargs="+", type=float, default=[2.5, 12.0])
    parser.add_argument("--nodes", type=int, help="so many test nodes; all nodes by default")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    print("| data | layer | accuracy | noise, % | ratio of variances | of sums | plain forwards |")
    print("|---|---|---:|---:|---|---:|---:|")
    for data in options.data:
        graph = vg.load(data).to(options.device)
        for layer in options.layers:
            model = trained(LAYERS[layer], graph, options.steps)
            for percent in options.percent:
                print(row(f"{data} | {layer}", model, graph, percent, options), flush=True)


if __name__ == "__main__":
    main()
