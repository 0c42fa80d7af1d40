"""The paper's recipe for training: small batches of nodes with sampled neighbourhoods."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from varigraph.errors import ModelError, OptionError
from varigraph.moments import LinkProbabilities
from varigraph.moments.messages import scaled_messages
from varigraph.training.checks import check_trainable
from varigraph.training.sampling import Flow, NeighbourSampler

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class History:
    """How a training went.

    Args:
        loss: training loss of each epoch.
        validation: loss on the validation nodes after each epoch.
        best_epoch: the epoch, from 1, whose weights were kept.
        seconds: time it took.
    """

    loss: tuple[float, ...]
    validation: tuple[float, ...]
    best_epoch: int
    seconds: float


def train(
    model: nn.Module,
    graph: Data,
    *,
    epochs: int = 50,
    batch_size: int = 50,
    learning_rate: float = 1e-3,
    fanouts: Sequence[int] = (10, 8),
    seed: int = 0,
    progress: Progress | None = None,
) -> History:
    r"""Train a network that classifies nodes; afterwards it is in evaluation mode.

    Cross entropy on the mean, Adam, batches of seed nodes with sampled neighbourhoods. After each
    epoch the loss on ``val_mask`` is taken with full neighbourhoods, and the weights with the
    smallest one are kept. Where the graph has ``edge_prob``, every message :math:`m_{vu}` counts
    as :math:`p_{vu} m_{vu}`, in training and in validation.

    Args:
        model: any network that maps ``(x, edge_index)`` to logits. It is changed: that is the aim.
        graph: with ``x``, ``edge_index``, ``y``, ``train_mask`` and ``val_mask``.
        epochs: passes over the training nodes.
        batch_size: seed nodes per step.
        learning_rate: of Adam.
        fanouts: neighbours sampled per seed, per neighbour, and so on; the last one is repeated
            for a deeper network.
        seed: draws batches, neighbours and dropout; torch's global generator is left alone.
        progress: called after each epoch with the epoch, ``epochs`` and the training loss.
    """
    _check_counts(epochs, batch_size)
    check_trainable(model, graph)
    lesson = _Lesson(
        model,
        graph,
        NeighbourSampler(graph.edge_index, graph.num_nodes, _fanouts(fanouts, model), _flow(model)),
        torch.optim.Adam(model.parameters(), lr=learning_rate),
        torch.Generator().manual_seed(seed),
        batch_size,
    )
    losses: list[float] = []
    validation: list[float] = []
    best: dict[str, Tensor] = {}
    start = time.perf_counter()
    with _own_randomness(graph.x.device, seed):
        for epoch in range(1, epochs + 1):
            losses.append(lesson.epoch())
            current = lesson.validation_loss()
            if current < min(validation, default=math.inf):
                best = {name: value.detach().clone() for name, value in model.state_dict().items()}
            validation.append(current)
            if progress is not None:
                progress(epoch, epochs, losses[-1])
    if not all(map(math.isfinite, validation)):
        raise ModelError(
            "the validation loss stopped being a number",
            "lower the learning rate: learning_rate=1e-4",
        )
    model.load_state_dict(best)
    return History(
        loss=tuple(losses),
        validation=tuple(validation),
        best_epoch=validation.index(min(validation)) + 1,
        seconds=time.perf_counter() - start,
    )


@dataclass(frozen=True, eq=False)
class _Lesson:
    """What stays the same from epoch to epoch."""

    model: nn.Module
    graph: Data
    sampler: NeighbourSampler
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    batch_size: int

    def epoch(self) -> float:
        """One pass over the training nodes; their mean loss."""
        self.model.train()
        seeds = self.graph.train_mask.nonzero().flatten()
        order = torch.randperm(len(seeds), generator=self.generator).to(seeds.device)
        batches = seeds[order].split(self.batch_size)
        return sum(self.step(batch) * len(batch) for batch in batches) / len(seeds)

    def step(self, seeds: Tensor) -> float:  # [seeds]
        """One step of the optimiser; the loss before it."""
        piece = self.sampler.sample(seeds, self.generator)
        with self.weighted(piece.edge_index, piece.edges):
            logits = self.model(self.graph.x[piece.nodes], piece.edge_index)
        loss = _loss(logits[: len(seeds)], self.graph.y[seeds])
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()

    @torch.no_grad()
    def validation_loss(self) -> float:
        """Loss with full neighbourhoods; leaves the network in evaluation mode."""
        self.model.eval()
        with self.weighted(self.graph.edge_index):
            logits = self.model(self.graph.x, self.graph.edge_index)
        mask = self.graph.val_mask
        return _loss(logits[mask], self.graph.y[mask]).item()

    def weighted(
        self, edge_index: Tensor, edges: Tensor | None = None
    ) -> AbstractContextManager[None]:  # [2, e] and the graph's links [e] that they are
        """Messages weighted by ``edge_prob`` where the graph has it."""
        prob = self.graph.get("edge_prob")
        if prob is None:
            return nullcontext()
        prob = prob if edges is None else prob[edges]
        return scaled_messages(
            self.model, LinkProbabilities(edge_index, prob, self.graph.num_nodes)
        )


def _loss(logits: Tensor, labels: Tensor) -> Tensor:  # [nodes, classes], [nodes] -> []
    if logits.dim() != 2 or logits.size(1) <= labels.max():
        raise ModelError(
            f"the model answers with shape {tuple(logits.shape)}, but class {labels.max()} occurs",
            "give it one output per class",
        )
    return F.cross_entropy(logits, labels)


@contextmanager
def _own_randomness(device: torch.device, seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def _layers(model: nn.Module) -> list[MessagePassing]:
    return [module for module in model.modules() if isinstance(module, MessagePassing)]


def _fanouts(fanouts: Sequence[int], model: nn.Module) -> list[int]:
    # SGConv, APPNP and their like take K steps in one layer.
    steps = sum(
        layer.K if isinstance(getattr(layer, "K", None), int) else 1 for layer in _layers(model)
    )
    return [*fanouts, *([fanouts[-1]] * (steps - len(fanouts)) if fanouts else ())]


def _flow(model: nn.Module) -> Flow:
    flows: set[Flow] = {layer.flow for layer in _layers(model)}
    if len(flows) > 1:
        raise ModelError(
            "the layers send messages in both directions, so no neighbourhood serves them all",
            "train it your own way: vg.predict takes any trained network",
        )
    return flows.pop() if flows else "source_to_target"


def _check_counts(epochs: int, batch_size: int) -> None:
    if epochs < 1 or batch_size < 1:
        raise OptionError(
            f"epochs={epochs}, batch_size={batch_size}",
            "train at least once: epochs=50, batch_size=50",
        )
