"""One epoch after the other: batches, losses, steps of the optimiser, validation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.errors import ModelError
from varigraph.moments.softmax import normal_points
from varigraph.options import place_of
from varigraph.training.batch import Batch, NeighbourSampler
from varigraph.training.propagated import PropagatedLogits

#: Points that stand for the normal distribution of a node's logits.
POINTS = 64
#: Variance of a logit below which noise does not matter; the root of a covariance needs some.
FLOOR = 1e-6
Noise = Literal["propagate", "inject"]


@dataclass(frozen=True, eq=False)
class Lesson:
    """What stays the same from epoch to epoch.

    Args:
        model: the network to train.
        graph: what it learns from.
        optimiser: of the network's weights.
        generator: draws batches, neighbours and noise.
        noise: how the noise of the features enters; None where it does not.
        sampler: draws neighbourhoods; None where every step sees the whole graph.
        batch_size: training nodes per step, with a sampler.
    """

    model: nn.Module
    graph: Data
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    noise: Noise | None = None
    sampler: NeighbourSampler | None = None
    batch_size: int = 50

    def epoch(self) -> float:
        """One pass over the training nodes; their mean loss."""
        self.model.train()
        total, count = 0.0, 0
        for batch, nodes, labels in self._batches():
            loss = self._loss(batch, nodes, labels)
            self._step(loss)
            total, count = total + loss.item() * len(nodes), count + len(nodes)
        return total / count

    @torch.no_grad()
    def validation_loss(self) -> float:
        """Loss with full neighbourhoods; leaves the network in evaluation mode."""
        self.model.eval()
        mask = self.graph.val_mask
        logits = self.whole.logits(self.model, self._validation_features)
        return cross_entropy(logits[mask], self.graph.y[mask]).item()

    def _step(self, loss: Tensor) -> None:
        name = type(self.model).__name__
        if not loss.requires_grad:
            raise ModelError(
                f"the answer of {name} does not depend on weights that can be learned",
                "leave out of its forward what cuts them off: detach(), torch.no_grad(), argmax()",
            )
        self.optimiser.zero_grad()
        try:
            loss.backward()
        except RuntimeError as error:
            raise ModelError(
                f"{name} has no gradients: {place_of(error)}",
                "let its forward change no tensor in place, and keep none for its next call",
            ) from error
        self.optimiser.step()

    def _batches(self) -> Iterator[tuple[Batch, Tensor, Tensor]]:
        """Batches, the nodes in each to learn from, and their labels."""
        seeds = self.graph.train_mask.nonzero().flatten()
        order = torch.randperm(len(seeds), generator=self.generator).to(seeds.device)
        if self.sampler is None:
            yield self.whole, seeds[order], self.graph.y[seeds[order]]
            return
        for some in seeds[order].split(self.batch_size):
            piece = self.sampler.sample(some, self.generator)
            first = torch.arange(len(some), device=some.device)
            yield self.whole.part(piece), first, self.graph.y[some]

    def _loss(self, batch: Batch, nodes: Tensor, labels: Tensor) -> Tensor:
        if self.noise == "propagate":
            known = batch is self.whole
            propagation = self._propagation if known else PropagatedLogits(self.model, batch)
            found = propagation.moments(nodes)
            cost = cost_of_noise(found.mean[found.rows], found.covariance)
            return cross_entropy(found.mean[nodes], labels) + cost
        x = batch.drawn(self.generator) if self.noise == "inject" else batch.x
        return cross_entropy(batch.logits(self.model, x)[nodes], labels)

    @cached_property
    def whole(self) -> Batch:
        """The whole graph."""
        return Batch.of(self.graph)

    @cached_property
    def _propagation(self) -> PropagatedLogits:
        return PropagatedLogits(self.model, self.whole)

    @cached_property
    def _validation_features(self) -> Tensor:
        """As they are, or through one draw of the noise, the same in every epoch."""
        if self.noise is None:
            return self.whole.x
        return self.whole.drawn(torch.Generator().manual_seed(0))


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:  # [nodes, classes], [nodes] -> []
    r"""Mean of :math:`-\log \operatorname{softmax}(z)_y`.

    Args:
        logits: the network's answers.
        labels: true classes.

    Raises:
        ModelError: if a class occurs that the network has no output for.
    """
    if logits.dim() != 2 or logits.size(1) <= labels.max():
        raise ModelError(
            f"the model answers with shape {tuple(logits.shape)}, but class {labels.max()} occurs",
            "give it one output per class",
        )
    return F.cross_entropy(logits, labels.long())


def cost_of_noise(mean: Tensor, covariance: Tensor) -> Tensor:  # [n, c], [n, c, c] -> []
    r"""What uncertain logits :math:`z \sim N(\mu, \Sigma)` add to the expected cross entropy.

    .. math::
        E\left[-\log \operatorname{softmax}(z)_y\right]
        = -\log \operatorname{softmax}(\mu)_y + E[\operatorname{lse}(z)] - \operatorname{lse}(\mu)

    The last difference does not depend on the label and is never negative (Jensen). The
    expectation is a mean over fixed points with the moments of a normal distribution, so the loss
    is as smooth in the weights as the network is.

    Args:
        mean: mean logits.
        covariance: their covariance, node by node.

    Example:
        >>> mean, covariance = torch.zeros(1, 2), torch.tensor([[[0.01, 0.0], [0.0, 0.01]]])
        >>> round(cost_of_noise(mean, covariance).item(), 4)  # half of tr(H Σ), here
        0.0025
    """
    classes = mean.shape[1]
    points = normal_points(1, classes, POINTS)[0].to(mean)  # [points, classes]
    size = covariance.diagonal(dim1=1, dim2=2).mean(1)
    ridge = (FLOOR + 1e-5 * size)[:, None, None] * torch.eye(classes).to(mean)
    root = torch.linalg.cholesky((covariance + ridge).double()).to(mean)
    drawn = mean[:, None] + points @ root.mT  # [nodes, points, classes]
    cost: Tensor = drawn.logsumexp(-1).mean(1) - mean.logsumexp(-1)
    return cost.mean()
