"""Graphs of any size, with a few nodes that have many links and many that have few."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.utils import to_undirected

from varigraph.studies.speed.subject import Subject
from varigraph.training.randomness import own_randomness

WIDTH, CLASSES, LINKS_PER_NODE = 64, 8, 10
#: Share of nodes with d links falls as d to the minus this.
EXPONENT = 2.5
VARIANCE = 0.01


@dataclass(frozen=True)
class Synthetic:
    """A graph with power-law degrees and a GraphSAGE network of two layers, untrained.

    Args:
        links: about as many, both directions counted.
        masks: dropout masks.
        memory: bound of :func:`varigraph.predict`.
        seed: of graph, features and weights.
        device: to measure on.
    """

    links: int
    masks: int = 10
    memory: str = "4GiB"
    seed: int = 0
    device: str = "cpu"

    def build(self) -> Subject:
        """Make it."""
        draw = torch.Generator().manual_seed(self.seed)
        nodes = self.links // LINKS_PER_NODE
        graph = Data(
            x=torch.randn(nodes, WIDTH, generator=draw),
            edge_index=power_law_links(nodes, self.links, draw),
            x_var=torch.tensor(VARIANCE),
        )
        with own_randomness(self.seed):
            model = GraphSAGE(WIDTH, WIDTH, num_layers=2, out_channels=CLASSES, dropout=0.5)
        model, graph = model.eval().to(self.device), graph.to(self.device)
        return Subject(model, graph, self.masks, self.memory, self.seed)


def power_law_links(nodes: int, links: int, draw: torch.Generator) -> Tensor:  # [2, links]
    r"""Both ends of each link drawn with chances :math:`i^{-1/(\gamma - 1)}`, node ids shuffled.

    Each link is listed once in each direction; loops and repetitions are left out, so that there
    are somewhat fewer than asked for.

    Args:
        nodes: how many.
        links: how many, both directions counted.
        draw: the generator.
    """
    rank = torch.arange(1, nodes + 1, dtype=torch.float64)
    chances = rank.pow(-1 / (EXPONENT - 1)).cumsum(0)
    level = torch.rand(2, links // 2, generator=draw, dtype=torch.float64) * chances[-1]
    names = torch.randperm(nodes, generator=draw)
    ends = names[torch.searchsorted(chances, level).clamp_max(nodes - 1)]
    ends = ends[:, ends[0] != ends[1]]
    both_ways: Tensor = to_undirected(ends, num_nodes=nodes)
    return both_ways
