"""What the clock runs on: a trained network and a noisy graph, of a data set or of any size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from varigraph.sparse import csr_tensor
from varigraph.training import paper_network
from varigraph.training.networks import own_randomness

#: Nodes of the graph that code is tried on before anything is measured.
FEW = 32


@dataclass(frozen=True, eq=False)
class Workload:
    """A network, a graph and how much is asked of them.

    Args:
        model: trained, in evaluation mode.
        graph: with noise in its features, ``x_var``.
        masks: dropout masks, or draws.
        memory: bound of :func:`varigraph.predict`.
        seed: of masks and draws.
        passes: how many masks a loop goes through, where that is fewer.
    """

    model: nn.Module
    graph: Data
    masks: int
    memory: str = "4GiB"
    seed: int = 0
    passes: int | None = None

    @property
    def looped(self) -> int:
        """Masks that a loop goes through."""
        return self.masks if self.passes is None else self.passes

    @cached_property
    def adjacency(self) -> Tensor:  # [nodes, nodes]
        """Links in compressed rows, row u for the messages that reach node u."""
        return csr_adjacency(self.graph)

    @property
    def miniature(self) -> Workload:
        """The same network on a ring of a few nodes, so that libraries are loaded."""
        x = self.graph.x[:FEW]
        nodes = torch.arange(len(x), device=x.device)
        ring = torch.stack([nodes, nodes.roll(1)])
        graph = Data(x=x, edge_index=torch.cat([ring, ring.flip(0)], 1), x_var=self.graph.x_var)
        return replace(self, graph=graph, masks=min(self.masks, 2))


def csr_adjacency(graph: Data) -> Tensor:  # [nodes, nodes]
    """The transposed adjacency that torch_geometric's layers take in place of links.

    Args:
        graph: whose ``edge_index`` leads from row 0 to row 1.
    """
    source, target = graph.edge_index
    rows, order = target.sort(stable=True)
    start = torch.cat([rows.new_zeros(1), rows.bincount(minlength=graph.num_nodes).cumsum(0)])
    ones = graph.x.new_ones(graph.num_edges)
    return csr_tensor(start, source[order], ones, (graph.num_nodes, graph.num_nodes))


class Builder(Protocol):
    """What another process can make a workload from."""

    def build(self) -> Workload:
        """Make it, where it is to be measured."""


@dataclass(frozen=True)
class Saved:
    """The paper's network and a graph, in a file.

    Args:
        path: written by :meth:`of`.
        masks: as in :class:`Workload`, like the rest.
        memory: bound.
        seed: of masks and draws.
        device: to measure on.
    """

    path: Path
    masks: int
    memory: str
    seed: int
    device: str

    @classmethod
    def of(cls, workload: Workload, path: Path, *, device: str) -> Saved:
        """Write a workload to a file.

        Args:
            workload: the paper's network and a graph, on the CPU.
            path: to write.
            device: to measure on.
        """
        torch.save(
            {"graph": workload.graph.to_dict(), "state_dict": workload.model.state_dict()}, path
        )
        return cls(path, workload.masks, workload.memory, workload.seed, device)

    def build(self) -> Workload:
        """Read it back."""
        stored = torch.load(self.path, weights_only=True)
        graph = Data(**stored["graph"])
        model = paper_network(graph)
        model.load_state_dict(stored["state_dict"])
        model, graph = model.eval().to(self.device), graph.to(self.device)
        return Workload(model, graph, self.masks, self.memory, self.seed)


LINKS_PER_NODE = 10
#: Links that are drawn for every one that is wanted: some are drawn twice, or are loops.
SURPLUS = 1.05


@dataclass(frozen=True)
class Synthetic:
    """A graph with power-law degrees and a GraphSAGE network of two layers, untrained.

    Args:
        links: how many, both directions counted; fewer where not enough different ones are found.
        nodes: how many; a tenth of the links if left out.
        features: of each node.
        hidden: numbers in the layer between.
        classes: of the answer.
        exponent: the share of nodes with d links falls as d to the minus this.
        variance: of the noise in the features, which have a variance of 1.
        masks: dropout masks.
        memory: bound of :func:`varigraph.predict`.
        seed: of graph, features and weights.
        device: to measure on.
    """

    links: int
    nodes: int | None = None
    features: int = 64
    hidden: int = 64
    classes: int = 8
    exponent: float = 2.5
    variance: float = 0.01
    masks: int = 10
    memory: str = "4GiB"
    seed: int = 0
    device: str = "cpu"

    def build(self) -> Workload:
        """Make it."""
        draw = torch.Generator().manual_seed(self.seed)
        nodes = self.nodes or self.links // LINKS_PER_NODE
        device = torch.device(self.device)
        graph = Data(
            x=torch.randn(nodes, self.features, generator=draw).to(device),
            edge_index=power_law_links(nodes, self.links, draw, self.exponent, device),
            x_var=torch.tensor(self.variance, device=device),
        )
        with own_randomness(self.seed):
            model = GraphSAGE(self.features, self.hidden, 2, self.classes, dropout=0.5)
        return Workload(model.eval().to(device), graph, self.masks, self.memory, self.seed)


#: About the size of ogbn-products, whose links are 61,859,140 in one direction.
PRODUCTS = Synthetic(
    123_718_280, nodes=2_449_029, features=100, hidden=256, classes=47, exponent=3.0, variance=0.1
)
MILLION = Synthetic(
    20_000_000, nodes=1_000_000, features=128, hidden=128, classes=40, exponent=3.0, variance=0.1
)


def power_law_links(
    nodes: int, links: int, draw: torch.Generator, exponent: float, device: torch.device
) -> Tensor:  # [2, links]
    r"""Both ends of each link drawn with chances :math:`i^{-1/(\gamma - 1)}`, node ids shuffled.

    Each link is listed once in each direction, and none is a loop. The graph is the same on any
    device: random numbers are drawn on the processor.

    Args:
        nodes: how many.
        links: how many, both directions counted.
        draw: the generator.
        exponent: :math:`\gamma`.
        device: where it is wanted.
    """
    wanted = links // 2
    rank = torch.arange(1, nodes + 1, dtype=torch.float64)
    chances = rank.pow(-1 / (exponent - 1)).cumsum(0)
    level = torch.rand(2, int(SURPLUS * wanted), generator=draw, dtype=torch.float64) * chances[-1]
    names = torch.randperm(nodes, generator=draw).to(device)
    found = torch.searchsorted(chances.to(device), level.to(device)).clamp_max_(nodes - 1)
    low, high = names[found].sort(0).values
    keys = torch.unique((low * nodes + high)[low != high])
    keys = keys[_evenly(len(keys), wanted, device)]
    ends = torch.stack([keys // nodes, keys % nodes])
    return torch.cat([ends, ends.flip(0)], 1)


def _evenly(count: int, wanted: int, device: torch.device) -> Tensor:  # [wanted or fewer]
    """Places of as many as are wanted, spread over all."""
    if count <= wanted:
        return torch.arange(count, device=device)
    return torch.arange(wanted, device=device) * count // wanted
