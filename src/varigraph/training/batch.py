"""A graph, or a part of it, as one step of the training sees it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.data import feature_variance
from varigraph.moments import LinkProbabilities
from varigraph.moments.messages import scaled_messages
from varigraph.training.sampling import Subgraph


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
