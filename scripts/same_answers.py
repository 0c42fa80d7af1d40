"""Whether a change of the code changes an answer: all methods, networks, sources and precisions.

    python scripts/same_answers.py store before.pt      # before the change
    python scripts/same_answers.py compare before.pt    # after it: what differs, and by how much

Answers are compared bit by bit. What differs is listed with its largest difference, relative to
the largest number of its tensor; more than 1e-6 is an error.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as gnn
from torch_geometric.data import Data

import varigraph as vg
from varigraph.choices import Method

ALLOWED = 1e-6
METHODS: tuple[Method, ...] = ("first-order", "covariance", "diagonal", "sampled")
SOURCES: tuple[tuple[str, ...], ...] = (
    *(("features",), ("links",), ("weights",)),
    ("features", "links", "weights"),
)
#: Fewer nodes than are sampled for the noise's root, and more.
NODES = (60, 300)


class Stacked(nn.Module):
    """Two layers with an activation, a norm and dropout between them."""

    def __init__(self, first: nn.Module, second: nn.Module, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.second, self.norm = first, second, norm or nn.Identity()
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits."""
        hidden = self.norm(self.first(x, edge_index)).tanh()
        out: Tensor = self.second(self.dropout(hidden), edge_index)
        return out


def _mlp(width: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, out))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "SAGE": lambda: gnn.GraphSAGE(6, 8, 2, 4, dropout=0.5),
    "SAGE deep, concatenated": lambda: gnn.GraphSAGE(6, 8, 3, 4, dropout=0.2, jk="cat"),
    "GCN": lambda: gnn.GCN(6, 8, 2, 4, dropout=0.5, act="elu"),
    "GIN": lambda: Stacked(gnn.GINConv(_mlp(6, 8)), gnn.GINConv(_mlp(8, 4))),
    "GraphConv": lambda: Stacked(gnn.GraphConv(6, 8), gnn.GraphConv(8, 4)),
    "SGC": lambda: Stacked(gnn.SGConv(6, 8, K=2), gnn.SGConv(8, 4, K=2)),
    "batch norm": lambda: Stacked(gnn.SAGEConv(6, 8), gnn.GCNConv(8, 4), nn.BatchNorm1d(8)),
    "layer norm": lambda: Stacked(gnn.SAGEConv(6, 8), gnn.GCNConv(8, 4), nn.LayerNorm(8)),
    "linear": lambda: vg.paper_network(_graph(60, torch.float32)),
}


def _graph(nodes: int, dtype: torch.dtype) -> Data:
    draw = torch.Generator().manual_seed(nodes)
    links = torch.randint(nodes, (2, 2 * nodes), generator=draw)
    links = links[:, links[0] != links[1]]
    links = torch.cat([links, links.flip(0)], 1)
    graph = Data(x=torch.randn(nodes, 6, generator=draw).to(dtype), edge_index=links)
    graph.y = torch.arange(nodes) % 4
    graph.x_var = 0.2 * torch.rand(nodes, 1, generator=draw).to(dtype)
    sender, receiver = links
    graph.edge_prob = 0.5 + 0.5 * (sender * receiver % 7 / 7)  # the same in both directions
    return graph


def answers() -> Iterator[tuple[str, Tensor]]:
    """All tensors of all answers, by name."""
    for name, build in NETWORKS.items():
        for dtype in (torch.float32, torch.float64):
            torch.manual_seed(0)
            model = build().to(dtype).eval()
            for nodes in NODES:
                graph = _graph(nodes, dtype)
                for sources in SOURCES:
                    for method in METHODS:
                        yield from _tensors(
                            f"{name}, {dtype}, {nodes} nodes, {'+'.join(sources)}, {method}",
                            vg.predict(
                                model,
                                graph,
                                method=method,
                                links="bernoulli",
                                sources=sources,
                                samples=20,
                            ),
                        )


def _tensors(name: str, pred: vg.Prediction) -> Iterator[tuple[str, Tensor]]:
    parts = {"mean": pred.mean, "logits": pred.logits.mean, "logit variance": pred.logits.var}
    for part, tensor in {**parts, **pred.by_source}.items():
        yield f"{name}: {part}", tensor.clone()


def compared(before: dict[str, Tensor], after: dict[str, Tensor]) -> dict[str, float]:
    """What differs, and by how much."""
    found = {}
    for name, old in before.items():
        new = after[name]
        if not torch.equal(old, new):
            size = float(old.abs().max().clamp_min(torch.finfo(old.dtype).tiny))
            found[name] = float((new - old).abs().max()) / size
    return found


def main(verb: str, path: str) -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    now: dict[str, Any] = dict(answers())
    if verb == "store":
        torch.save(now, Path(path))
        print(f"{len(now):,} tensors stored")
        return 0
    differing = compared(torch.load(Path(path), weights_only=True), now)
    for name, much in sorted(differing.items(), key=lambda item: -item[1]):
        print(f"{much:.1e}  {name}")
    print(f"{len(differing):,} of {len(now):,} tensors differ")
    return int(any(much > ALLOWED for much in differing.values()))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
