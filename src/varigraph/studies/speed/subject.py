"""What the clock runs on: a trained network and a noisy graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.moments.sparse import csr_tensor
from varigraph.training import paper_network

#: Nodes of the graph that code is tried on before anything is measured.
FEW = 32


@dataclass(frozen=True, eq=False)
class Subject:
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
    def miniature(self) -> Subject:
        """The same network on a ring of a few nodes, to load what is loaded at the first call."""
        x = self.graph.x[:FEW]
        nodes = torch.arange(len(x), device=x.device)
        ring = torch.stack([nodes, nodes.roll(1)])
        graph = Data(x=x, edge_index=torch.cat([ring, ring.flip(0)], 1), x_var=self.graph.x_var)
        return replace(self, graph=graph, masks=min(self.masks, 2))


def csr_adjacency(graph: Data) -> Tensor:  # [nodes, nodes]
    """The transposed adjacency that torch_geometric's layers take in the place of links.

    Args:
        graph: whose ``edge_index`` leads from row 0 to row 1.
    """
    source, target = graph.edge_index
    rows, order = target.sort(stable=True)
    start = torch.cat([rows.new_zeros(1), rows.bincount(minlength=graph.num_nodes).cumsum(0)])
    ones = graph.x.new_ones(graph.num_edges)
    return csr_tensor(start, source[order], ones, (graph.num_nodes, graph.num_nodes))


class Builder(Protocol):
    """What another process can make a subject of."""

    def build(self) -> Subject:
        """Make it, where it is to be measured."""


@dataclass(frozen=True)
class Saved:
    """The paper's network and a graph, in a file.

    Args:
        path: written by :meth:`of`.
        masks: as in :class:`Subject`, and so is the rest.
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
    def of(cls, subject: Subject, path: Path, *, device: str) -> Saved:
        """Write a subject to a file.

        Args:
            subject: the paper's network and a graph, on the CPU.
            path: to write.
            device: to measure on.
        """
        torch.save({"graph": subject.graph.to_dict(), "weights": subject.model.state_dict()}, path)
        return cls(path, subject.masks, subject.memory, subject.seed, device)

    def build(self) -> Subject:
        """Read it back."""
        stored = torch.load(self.path, weights_only=True)
        graph = Data(**stored["graph"])
        model = paper_network(graph)
        model.load_state_dict(stored["weights"])
        model, graph = model.eval().to(self.device), graph.to(self.device)
        return Subject(model, graph, self.masks, self.memory, self.seed)
