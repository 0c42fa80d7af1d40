"""The graph convolutional network that the Bayesian ones train, with dropout of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.utils import remove_self_loops, to_undirected

from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.sparse import Sparse

#: Features of which fewer than this share differ from 0 are stored as a sparse matrix.
SHARE = 0.2


def normalised(edge_index: Tensor, num_nodes: int, weight: Tensor | None = None) -> Sparse:
    r""":math:`D^{-1/2} (A + I) D^{-1/2}`, symmetric, float, ``[nodes, nodes]``.

    A link listed in one direction counts in both, listed twice it counts once (with the larger
    weight), and a node's link to itself gives way to the identity.

    Args:
        edge_index: links, ``[2, edges]``.
        num_nodes: how many nodes there are.
        weight: of each link, not negative, ``[edges]``; 1 if None.
    """
    weight = torch.ones(edge_index.size(1), device=edge_index.device) if weight is None else weight
    links, weight = remove_self_loops(edge_index, weight)
    links, weight = to_undirected(links, weight, num_nodes, reduce="max")
    each = torch.arange(num_nodes, device=links.device)
    rows, columns = torch.cat([links, each.expand(2, -1)], dim=1)
    weight = torch.cat([weight.float(), weight.new_ones(num_nodes).float()])
    degree = torch.zeros(num_nodes, device=links.device).index_add_(0, rows, weight)
    order = (rows * num_nodes + columns).argsort()
    values = weight * (degree[rows] * degree[columns]).rsqrt()
    entries = rows[order], columns[order], values[order]
    return Sparse(*entries, (num_nodes, num_nodes), symmetric=True)


class Gcn(nn.Module):
    r"""Logits :math:`\hat A \,\mathrm{ReLU}(\hat A X W_1)\, W_2`, without biases.

    Args:
        features: per node.
        classes: how many there are.
        hidden: width of the hidden layer.
        dropout: share of each layer's inputs that is dropped when a generator is given.
        generator: draws the first weights (Glorot); torch's own is left alone.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: int = 16,
        dropout: float = 0.5,
        *,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise OptionError(f"dropout={dropout}", "drop a share of the inputs: dropout=0.5")
        self.first = glorot(features, hidden, generator)
        self.second = glorot(hidden, classes, generator)
        self.dropout = dropout

    def forward(
        self,
        x: Tensor | Sparse,
        adjacency: Sparse,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Logits ``[nodes, classes]``.

        Args:
            x: features, ``[nodes, features]``.
            adjacency: as :func:`normalised` gives it.
            generator: draws what is dropped; None drops nothing.
        """
        hidden = (adjacency @ (self._inputs(x, generator) @ self.first)).relu()
        return adjacency @ (self._inputs(hidden, generator) @ self.second)

    def _inputs(self, x: Tensor | Sparse, generator: torch.Generator | None) -> Tensor | Sparse:
        return x if generator is None else dropped(x, self.dropout, generator)


class GcnTrainer:
    """Trains a :class:`Gcn` on some nodes, step by step, so that the graph may change in between.

    Cross entropy, Adam, L2 on the first layer only. Of the labels, only those of the nodes to
    train on are ever read.

    Args:
        x: features, ``[nodes, features]``.
        y: labels, ``[nodes]``.
        train_mask: the nodes to train on, ``[nodes]``.
        classes: how many there are.
        hidden: width of the hidden layer.
        dropout: share of each layer's inputs that is dropped.
        learning_rate: of Adam.
        decay: the loss has ``decay / 2`` times the sum of the squared weights of the first layer.
        seed: of the first weights and of what is dropped.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        train_mask: Tensor,
        *,
        classes: int,
        hidden: int = 16,
        dropout: float = 0.5,
        learning_rate: float = 0.01,
        decay: float = 5e-4,
        seed: int = 0,
    ) -> None:
        self._nodes = train_mask.nonzero().flatten()
        self._labels = y[self._nodes]
        _check_labels(self._labels, classes)
        self._x, self._generator = lean(x), torch.Generator(x.device).manual_seed(seed)
        self.model = Gcn(x.size(1), classes, hidden, dropout, generator=self._generator)
        groups = [
            {"params": [self.model.first], "weight_decay": decay},
            {"params": [self.model.second], "weight_decay": 0.0},
        ]
        self._optimiser = torch.optim.Adam(groups, lr=learning_rate)

    def step(self, adjacency: Sparse) -> float:  # [nodes, nodes]
        """One step on this graph; the loss before it."""
        logits = self.model(self._x, adjacency, self._generator)
        loss = F.cross_entropy(logits[self._nodes], self._labels)
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()
        return loss.item()

    def fit(self, adjacency: Sparse, *, epochs: int) -> Gcn:  # [nodes, nodes]
        """The network after some steps on this graph.

        Raises:
            ModelError: if the loss is not a number in the end.
        """
        loss = 0.0
        for _ in range(epochs):
            loss = self.step(adjacency)
        if not math.isfinite(loss):
            raise ModelError(
                "the loss is not a number",
                "bring the features to a common scale: graph.x = graph.x / graph.x.abs().max()",
            )
        return self.model

    @torch.no_grad()
    def logits(self, adjacency: Sparse) -> Tensor:  # [nodes, nodes] -> [nodes, classes]
        """What the network says now, with nothing dropped."""
        logits: Tensor = self.model(self._x, adjacency)
        return logits

    @torch.no_grad()
    def draws(self, adjacency: Sparse, samples: int) -> Iterator[Tensor]:  # each [nodes, classes]
        """Logits with dropout left on, drawn anew each time."""
        for _ in range(samples):
            yield self.model(self._x, adjacency, self._generator)


def glorot(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    """A matrix with entries uniform in ± sqrt(6 / (rows + columns))."""
    bound = math.sqrt(6 / (rows + columns))
    weight = torch.empty(rows, columns, device=generator.device)
    return nn.Parameter(weight.uniform_(-bound, bound, generator=generator))


def _check_labels(labels: Tensor, classes: int) -> None:  # [train nodes]
    if not len(labels):
        raise GraphError(
            "there is no node to train on",
            "graph.train_mask = mask, [nodes], true for at least one node",
        )
    if labels.is_floating_point() or labels.min() < 0 or labels.max() >= classes:
        raise GraphError(
            f"the labels of the training nodes are not integers from 0 to {classes - 1}",
            "graph.y = labels, [nodes], integers from 0; classes = largest label + 1",
        )


def lean(x: Tensor) -> Tensor | Sparse:  # [nodes, features] -> the same
    """The same features, sparse where few of them differ from 0; that saves most of the time."""
    if x.count_nonzero() >= SHARE * x.numel():
        return x
    rows, columns = x.nonzero().unbind(dim=1)
    return Sparse(rows, columns, x[rows, columns], (x.size(0), x.size(1)))


def dropped(
    x: Tensor | Sparse, rate: float, generator: torch.Generator
) -> Tensor | Sparse:  # [nodes, features] -> the same
    """Features of which a share is set to 0 and the rest scaled up, so the mean is the same."""
    values = x.values if isinstance(x, Sparse) else x
    chance = torch.rand(values.shape, generator=generator, device=values.device)
    # In place: most of the time of a step goes into touching new memory here.
    scaled_mask = chance.ge_(rate).div_(1 - rate)
    if isinstance(x, Sparse):
        return x.with_values(scaled_mask.mul_(values))
    return scaled_mask.mul_(x) if not x.requires_grad else x * scaled_mask
