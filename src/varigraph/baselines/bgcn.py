"""Bayesian graph convolution on the most probable graph (Pal, Regol and Coates, 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.baselines.draws import from_draws
from varigraph.baselines.gcn import Gcn, GcnTrainer, normalised
from varigraph.baselines.map_graph import Progress, map_graph
from varigraph.baselines.sparse_features import lean
from varigraph.errors import ModelError, OptionError
from varigraph.prediction import Prediction


@dataclass(frozen=True, eq=False)
class Bgcn:
    r"""A graph convolutional network on a learnt graph, its weights drawn by dropout.

    .. math:: p(y \mid D) \approx \frac1S \sum_s \operatorname{softmax}
        \big( \mathrm{GCN}(W_s, \hat A, X) \big)

    The posterior of the graph is a point, its maximum :math:`\hat A`; that of the weights is
    Monte-Carlo dropout. (https://arxiv.org/abs/1910.12132)

    Args:
        model: the trained network.
        edge_index: links of the learnt graph, both directions, ``[2, edges]``.
        edge_weight: their weights, ``[edges]``.
        num_nodes: how many nodes the graph has.
    """

    model: Gcn
    edge_index: Tensor
    edge_weight: Tensor
    num_nodes: int

    @classmethod
    def fit(
        cls,
        graph: Data,
        *,
        edges_per_node: int = 30,
        epochs: int = 300,
        squared: bool = False,
        closed: bool = True,
        hard: bool = False,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Bgcn:
        """Learns a graph, then trains a network on it. Labels of training nodes only are read.

        Args:
            graph: with ``x``, ``edge_index``, ``y`` and ``train_mask``. It stays as it is.
            edges_per_node: wanted in the learnt graph, on average. With few labels, more edges
                carry them further.
            epochs: of the network, and of the one that predicts labels for the graph; the
                original takes 400 for 5 labels per class, 350 for 10 and 300 for 20.
            squared: whether distances between the nodes' vectors are squared.
            closed: whether a node's own label counts among those around it.
            hard: whether nodes without a label count with their most likely one, as in the
                original, or with the probability of each.
            seed: of everything random; torch's global generator is left alone.
            progress: called with the fraction done, from 0 to 1, and what is done next.

        Raises:
            GraphError: if the graph lacks something.
            OptionError: if an option makes no sense.
        """
        if epochs < 1:
            raise OptionError(f"epochs={epochs}", "train at least once: epochs=300")
        links, weight = map_graph(
            graph,
            edges_per_node=edges_per_node,
            squared=squared,
            closed=closed,
            hard=hard,
            base_epochs=epochs,
            seed=seed,
            progress=_first_half(progress),
        )
        classes = int(graph.y[graph.train_mask].max()) + 1
        trainer = GcnTrainer(graph.x, graph.y, graph.train_mask, classes=classes, seed=seed)
        model = trainer.fit(normalised(links, graph.num_nodes, weight), epochs=epochs)
        if progress is not None:
            progress(1.0, "done")
        return cls(model, links, weight, graph.num_nodes)

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """Mean and variance over so many draws of the weights.

        Args:
            graph: with the features ``x`` to predict from. Its links are not looked at: messages
                travel over those that were learnt. Labels are not read.
            samples: number of draws.
            seed: of the draws; torch's global generator is left alone.

        Raises:
            ModelError: if the graph has other nodes or features than the one learnt from.
            OptionError: if there are no samples.
        """
        expected = (self.num_nodes, self.model.first.size(0))
        if tuple(graph.x.shape) != expected:
            raise ModelError(
                f"x has shape {tuple(graph.x.shape)}, but {expected} were learnt from",
                "predict the graph that was given to Bgcn.fit; its features may be noisy",
            )
        return from_draws(self._draws(graph.x, samples, seed), method="bgcn")

    @torch.no_grad()
    def _draws(self, x: Tensor, samples: int, seed: int) -> Iterator[Tensor]:
        generator = torch.Generator(x.device).manual_seed(seed)
        adjacency = normalised(self.edge_index, self.num_nodes, self.edge_weight)
        inputs = lean(x)
        for _ in range(samples):
            yield self.model(inputs, adjacency, generator)


def _first_half(progress: Progress | None) -> Progress | None:
    if progress is None:
        return None
    return lambda fraction, what: progress(fraction / 2, what if fraction < 1 else "network")
