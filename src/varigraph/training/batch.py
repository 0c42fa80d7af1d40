"""A graph, or a small neighbourhood of a few nodes, as one step of the training sees it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.data import feature_variance
from varigraph.errors import OptionError
from varigraph.moments import LinkProbabilities
from varigraph.moments.messages import scaled_messages

Flow = Literal["source_to_target", "target_to_source"]


@dataclass(frozen=True, eq=False)
class Batch:
    """What a network is run on.

    Args:
        x: features, ``[nodes, features]``.
        var: variance of their noise, ``[nodes, features]``.
        edge_index: links, ``[2, edges]``.
        prob: probabilities of the links, ``[edges]``; None where all are certain.
    """

    x: Tensor
    var: Tensor
    edge_index: Tensor
    prob: Tensor | None

    @classmethod
    def of(cls, graph: Data) -> Batch:
        """The whole graph."""
        return cls(graph.x, feature_variance(graph), graph.edge_index, graph.get("edge_prob"))

    def part(self, piece: Subgraph) -> Batch:
        """A part of it."""
        prob = None if self.prob is None else self.prob[piece.edges]
        return Batch(self.x[piece.nodes], self._var(piece.nodes), piece.edge_index, prob)

    def _var(self, nodes: Tensor) -> Tensor:
        # A variance that is the same for all nodes stays one row in memory.
        if self.var.stride(0) == 0:
            return self.var[:1].expand(len(nodes), -1)
        return self.var[nodes]

    @property
    def noisy(self) -> bool:
        """Whether any feature has noise."""
        return bool(self.var.any())

    def drawn(self, generator: torch.Generator) -> Tensor:  # -> [nodes, features]
        """The features with one draw of their noise."""
        noise = torch.randn(self.x.shape, generator=generator, dtype=self.x.dtype)
        return self.x + self.var.sqrt() * noise.to(self.x.device)

    def logits(self, model: nn.Module, x: Tensor) -> Tensor:  # [nodes, features]
        """The network's answer, messages weighted by the probabilities of their links."""
        weighted: AbstractContextManager[None] = nullcontext()
        if self.prob is not None:
            links = LinkProbabilities(self.edge_index, self.prob, len(x))
            weighted = scaled_messages(model, links)
        with weighted:
            logits: Tensor = model(x, self.edge_index)
        return logits


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A piece of a graph, its nodes numbered anew.

    Args:
        nodes: numbers of the nodes in the graph, ``[nodes]``; the seeds come first.
        edge_index: links between them, in the new numbers, ``[2, edges]``.
        edges: columns of the graph's ``edge_index`` that they are, ``[edges]``.
    """

    nodes: Tensor
    edge_index: Tensor
    edges: Tensor


class NeighbourSampler:
    """Draws a few incoming neighbours of a few nodes, and of those neighbours in turn.

    Uniformly and without replacement: a node with at most ``fanout`` incoming links keeps them
    all, any other keeps ``fanout`` of them. Each node is expanded once, where it is first met.

    Args:
        edge_index: links of the graph, ``[2, edges]``.
        num_nodes: number of nodes.
        fanouts: links kept per node: of the seeds, of their neighbours, and so on.
        flow: which row of ``edge_index`` messages come from, as in torch_geometric.

    Example:
        >>> star = torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]])
        >>> sampler = NeighbourSampler(star, 5, fanouts=[2])
        >>> sampler.sample(torch.tensor([0]), torch.Generator().manual_seed(0)).edge_index.shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        fanouts: Sequence[int],
        flow: Flow = "source_to_target",
    ) -> None:
        if not fanouts or min(fanouts) < 1:
            raise OptionError(f"fanouts are {tuple(fanouts)}", "keep a neighbour: fanouts=(10, 8)")
        self.num_nodes, self.fanouts = num_nodes, tuple(fanouts)
        self.forwards = flow == "source_to_target"
        self.source, target = edge_index if self.forwards else edge_index.flip(0)
        self.by_target = torch.argsort(target, stable=True)
        self.degree = torch.bincount(target, minlength=num_nodes)
        self.start = self.degree.cumsum(0) - self.degree

    def sample(self, seeds: Tensor, generator: torch.Generator) -> Subgraph:  # [seeds]
        """A random neighbourhood.

        Args:
            seeds: distinct nodes to start from.
            generator: source of all randomness.
        """
        number = self.source.new_full((self.num_nodes,), -1)  # new numbers of the nodes
        number[seeds] = torch.arange(len(seeds), device=seeds.device)
        if len(seeds) != int((number >= 0).sum()):
            raise OptionError("a seed node occurs twice", "pass distinct nodes: seeds.unique()")
        rings: list[Tensor] = [seeds]
        edges: list[Tensor] = []
        targets: list[Tensor] = []
        for fanout in self.fanouts:
            drawn, target = self._draw(rings[-1], fanout, generator)
            ring = self.source[drawn].unique()
            ring = ring[number[ring] < 0]
            first = sum(map(len, rings))
            number[ring] = torch.arange(first, first + len(ring), device=ring.device)
            rings.append(ring)
            edges.append(drawn)
            targets.append(target)
        chosen = torch.cat(edges)
        links = torch.stack([number[self.source[chosen]], number[torch.cat(targets)]])
        return Subgraph(torch.cat(rings), links if self.forwards else links.flip(0), chosen)

    def _draw(
        self, nodes: Tensor, fanout: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:  # [nodes] -> edges [drawn] and the nodes they end in [drawn]
        degree = self.degree[nodes]
        owner = torch.repeat_interleave(degree)  # every incoming link, in the order of `nodes`
        first = degree.cumsum(0) - degree
        rank = torch.arange(len(owner), device=owner.device) - first[owner]
        edges = self.by_target[self.start[nodes][owner] + rank]
        # One integer sorts by owner and, within an owner, at random: no rounding can mix owners.
        lot = torch.randint(2**31, (len(owner),), generator=generator, device=generator.device)
        shuffled = torch.argsort(owner * 2**31 + lot.to(owner.device))
        kept = shuffled[rank < fanout]
        return edges[kept], nodes[owner[kept]]
