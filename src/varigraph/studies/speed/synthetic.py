"""Graphs of any size, with a few nodes that have many links and many that have few."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from varigraph.studies.speed.subject import Subject
from varigraph.training.networks import own_randomness

LINKS_PER_NODE = 10
#: Links that are drawn for every one that is wanted: some are drawn twice, or are loops.
SURPLUS = 1.05


@dataclass(frozen=True)
class Synthetic:
    """A graph with power-law degrees and a GraphSAGE network of two layers, untrained.

    Args:
        links: as many, both directions counted; fewer where so many different ones are not found.
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

    def build(self) -> Subject:
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
        return Subject(model.eval().to(device), graph, self.masks, self.memory, self.seed)


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
