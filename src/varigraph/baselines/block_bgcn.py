"""The Bayesian GCN over graphs of a block model (Zhang, Pal, Coates and Üstebay, 2019)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.baselines.block_model import ACROSS, Blocks, drawn_links, fitted_blocks
from varigraph.baselines.gcn import Gcn, GcnTrainer, lean, normalised
from varigraph.baselines.plain import from_draws
from varigraph.data import check_one_kind
from varigraph.data.graph_parts import finite_features
from varigraph.errors import GraphError, OptionError
from varigraph.links.link_pairs import link_pairs
from varigraph.prediction import Prediction


@dataclass(frozen=True, eq=False)
class BlockSample:
    """A graph, and weights that were trained on graphs like it.

    Args:
        network: with the weights.
        links: of the graph, each once, ``[2, links]``.
    """

    network: Gcn
    links: Tensor


@dataclass(frozen=True, eq=False)
class BlockBgcn:
    r"""Mean and variance of the softmax over V graphs and S draws of the weights for each.

    .. math::
        \bar y = \frac{1}{VS} \sum_{v=1}^V \sum_{s=1}^S
            \operatorname{softmax}(\operatorname{GCN}(X; W_{vs}, G_v))

    The graphs come from a block model whose classes are those of the nodes, fitted to the
    observed links from what the network says. :math:`W_{vs}` are the weights after the step of
    training on :math:`G_v`, under a dropout mask of their own.
    https://arxiv.org/abs/1811.11103

    The observed links are not in the graphs: what is known about a node's neighbours enters
    through its class alone.

    Args:
        samples: the V graphs and weights, the latest last.
        blocks: the block model as it was last fitted.
    """

    samples: Sequence[BlockSample]
    blocks: Blocks

    @classmethod
    def fit(
        cls,
        graph: Data,
        *,
        classes: int | None = None,
        epochs: int = 300,
        observed_epochs: int = 200,
        refit_every: int = 20,
        kept: int = 60,
        block_steps: int = 30,
        across: float = ACROSS,
        hidden: int = 16,
        dropout: float = 0.5,
        seed: int = 0,
    ) -> BlockBgcn:
        """Train on the observed graph, then one step on each of many graphs of the block model.

        Of the labels, only those of ``train_mask`` are read. There is no early stopping.

        Args:
            graph: with ``x``, ``edge_index``, ``y`` and ``train_mask``. Its ``edge_prob``, if
                any, weights the observed links; to the block model a link is a link.
            classes: how many there are; the largest label of the training nodes + 1 if None.
            epochs: steps of training in all. The authors take 300, 350 and 400 for 20, 10 and 5
                labels per class.
            observed_epochs: how many of them, the first, are on the observed graph.
            refit_every: steps between two fits of the block model.
            kept: how many of the last steps, V, predictions are made from.
            block_steps: steps of a fit of the block model.
            across: probability of a link between different classes.
            hidden: width of the hidden layer.
            dropout: share of each layer's inputs that is dropped.
            seed: of everything random; torch's global generator is left alone.

        Raises:
            GraphError: if the graph lacks something, or cannot be right.
            OptionError: if an option makes no sense.
        """
        _check_steps(epochs, observed_epochs, refit_every, kept)
        x, links = _features(graph), link_pairs(_edges(graph), nodes=graph.num_nodes)
        trainer = GcnTrainer(
            x,
            graph.y,
            graph.train_mask,
            classes=_classes(graph) if classes is None else classes,
            hidden=hidden,
            dropout=dropout,
            seed=seed,
        )
        generator = _generator(seed)
        observed = normalised(graph.edge_index, links.nodes, graph.get("edge_prob"))
        trainer.fit(observed, epochs=observed_epochs)
        samples = []
        for step in range(epochs - observed_epochs):
            if step % refit_every == 0:
                guess = trainer.logits(observed).softmax(dim=1)
                blocks = fitted_blocks(
                    links, guess, generator=generator, across=across, steps=block_steps
                )
                labels = blocks.memberships.argmax(dim=1)
            drawn = drawn_links(labels, blocks.strengths, across=across, generator=generator)
            network = trainer.fit(normalised(drawn, links.nodes), epochs=1)
            if step >= epochs - observed_epochs - kept:
                samples.append(BlockSample(copy.deepcopy(network).requires_grad_(False), drawn))
        return cls(samples, blocks)

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The mean over that many draws: equally many for each graph, give or take one.

        Args:
            graph: whose features ``x`` are used; its nodes are those of the graph of the
                training, and its links are not looked at.
            samples: draws, V S. If fewer than V, the latest graphs are used.
            seed: of the dropout masks.

        Raises:
            GraphError: if the features do not fit.
            OptionError: if there is nothing to draw.
        """
        if samples < 1:
            raise OptionError(f"samples={samples}", "draw at least once: samples=100")
        x = _features(graph)
        wanted = len(self.blocks.shares), self.samples[0].network.first.size(0)
        if tuple(x.shape) != wanted:
            raise GraphError(
                f"x has shape {tuple(x.shape)}, but that of the training had {wanted}",
                "predict the nodes of the training; their features may be others",
            )
        return from_draws(self._logits(x, samples, _generator(seed)), method="block-bgcn")

    def _logits(self, x: Tensor, draws: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Draws of the logits, ``[nodes, classes]`` each, graph by graph from the latest on."""
        features = lean(x)
        for number, sample in enumerate(self.samples[: -draws - 1 : -1]):
            adjacency = normalised(sample.links, len(x))
            for _ in range(number, draws, len(self.samples)):
                yield sample.network(features, adjacency, generator)


def _generator(seed: int) -> torch.Generator:
    # The network's own generator has the plain seed, and the two must not give the same numbers.
    return torch.Generator().manual_seed((seed + 1) * 0x9E3779B97F4A7C15 % 2**31)


def _features(graph: Data) -> Tensor:  # -> [nodes, features]
    return finite_features(graph).float()


def _edges(graph: Data) -> Tensor:  # -> [2, edges]
    """The links of a graph that is known to have all that training needs."""
    check_one_kind(graph)
    for name in ("edge_index", "y", "train_mask"):
        if graph.get(name) is None:
            raise GraphError(f"the graph has no {name}", f"graph.{name} = ...")
    for name in ("y", "train_mask"):
        if graph[name].shape != (graph.num_nodes,):
            raise GraphError(
                f"{name} has shape {tuple(graph[name].shape)} for {graph.num_nodes} nodes",
                f"give one entry for every node: graph.{name} = ..., [nodes]",
            )
    edges: Tensor = graph.edge_index
    return edges


def _classes(graph: Data) -> int:
    labels = graph.y[graph.train_mask.bool()]
    return int(labels.max()) + 1 if len(labels) else 0


def _check_steps(epochs: int, observed_epochs: int, refit_every: int, kept: int) -> None:
    if not (observed_epochs >= 0 and 1 <= kept <= epochs - observed_epochs and refit_every >= 1):
        raise OptionError(
            f"epochs={epochs}, observed_epochs={observed_epochs}, refit_every={refit_every}, "
            f"kept={kept}",
            "epochs=300, observed_epochs=200, refit_every=20, kept=60: the kept ones come after "
            "the observed ones",
        )
