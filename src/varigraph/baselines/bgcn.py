"""Bayesian graph convolution on the most probable graph (Pal, Regol and Coates, 2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from varigraph.baselines.gcn import Gcn, GcnTrainer, lean, normalised
from varigraph.baselines.log_degree import distance_scale, log_degree_graph
from varigraph.baselines.node_distances import (
    NodeDistances,
    candidate_pairs,
    label_shares,
    node_distances,
)
from varigraph.baselines.plain import from_draws
from varigraph.baselines.vgae import embedding
from varigraph.data import check_one_kind
from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.prediction import Prediction

#: Called with the fraction done, from 0 to 1, and what is done next.
Progress = Callable[[float, str], None]
#: Passes with dropout over which predicted labels are averaged.
BASE_DRAWS = 60
#: Weights below this are not links.
FAINT = 1e-4


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
        """Learns a graph, then trains a network on it. Only labels of training nodes are read.

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
        """Mean and variance over draws of the weights.

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


def map_graph(
    graph: Data,
    *,
    edges_per_node: int = 30,
    candidates: int = 3,
    squared: bool = False,
    closed: bool = True,
    hard: bool = False,
    base_epochs: int = 300,
    embedding_epochs: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Tensor, Tensor]:  # [2, edges], [edges]
    r"""Links and weights of the most probable graph.

    It minimises

    .. math:: \lVert A \circ \theta Z \rVert_1 - 1^\top \log (A 1) + \tfrac12 \lVert A \rVert_F^2 .

    :math:`Z` is small between nodes whose vectors are near (an auto-encoder's, from features and
    links) and around which the same labels prevail: the known ones of the training nodes, and for
    all others those that a network trained on them predicts. :math:`\theta` sets the number of
    edges. Weights are divided by their mean, so that a node itself, whose weight is 1 in the
    network, counts as much as a neighbour.

    Labels outside ``train_mask`` are not read. (https://arxiv.org/abs/1910.12132)

    Args:
        graph: with ``x``, ``edge_index``, ``y`` and ``train_mask``. It stays as it is.
        edges_per_node: wanted on average. With few labels, more edges carry them further.
        candidates: times ``edges_per_node``: the nearest nodes of each that are looked at.
        squared: whether distances between vectors are squared.
        closed: whether a node's own label counts among those around it.
        hard: whether other nodes count with their most likely label, as in the original, or with
            the probability of each.
        base_epochs: of the network that predicts labels.
        embedding_epochs: of the auto-encoder.
        seed: of both.
        progress: called before each part of the work.

    Returns:
        Links, each in both directions, and their weights.

    Raises:
        GraphError: if the graph lacks something, or has too few nodes for so many edges.
        OptionError: if an option makes no sense.
    """
    _check(graph, edges_per_node, candidates)
    report = progress if progress is not None else _silence
    report(0.0, "labels")
    labels = predicted_labels(graph, epochs=base_epochs, hard=hard, seed=seed)
    report(0.3, "vectors")
    vectors = embedding(graph.x, graph.edge_index, epochs=embedding_epochs, seed=seed)
    report(0.8, "distances")
    shares = label_shares(labels, graph.edge_index, closed=closed)
    distances = node_distances(vectors, shares, squared=squared)
    wanted = min(candidates * edges_per_node, graph.num_nodes - 1)
    nearest = distances.nearest(wanted)
    report(0.95, "weights")
    pairs = candidate_pairs(nearest)
    scale = distance_scale(_sorted_distances(distances, nearest), edges_per_node)
    found = log_degree_graph(pairs, scale * distances.of(pairs), nodes=graph.num_nodes)
    linked = found.weight >= FAINT
    weight = (found.weight[linked] / found.weight[linked].mean()).float()
    edge_index, weight = to_undirected(pairs[:, linked], weight, graph.num_nodes)
    report(1.0, "done")
    return edge_index, weight


def predicted_labels(graph: Data, *, epochs: int, hard: bool, seed: int) -> Tensor:
    """Probability of each label, ``[nodes, classes]``, from what is known of the training nodes.

    Training nodes have theirs for certain; the others get what a network trained on those says,
    averaged over dropout. Classes are counted among the training nodes: no other label is read.
    """
    known = graph.train_mask
    classes = int(graph.y[known].max()) + 1
    adjacency = normalised(graph.edge_index, graph.num_nodes)
    trainer = GcnTrainer(graph.x, graph.y, known, classes=classes, seed=seed)
    trainer.fit(adjacency, epochs=epochs)
    labels = from_draws(trainer.draws(adjacency, BASE_DRAWS), method="dropout").mean
    if hard:
        labels = F.one_hot(labels.argmax(dim=1), classes).float()
    labels[known] = F.one_hot(graph.y[known], classes).float()
    return labels


def _sorted_distances(distances: NodeDistances, nearest: Tensor) -> Tensor:
    """Distances of each node's nearest ones, ascending, ``[nodes, count]``."""
    each = torch.arange(len(nearest), device=nearest.device)[:, None].expand_as(nearest)
    pairs = torch.stack([each.flatten(), nearest.flatten()])
    return distances.of(pairs).view(nearest.shape).sort(dim=1).values


def _silence(fraction: float, what: str) -> None:
    pass


def _check(graph: Data, edges_per_node: int, candidates: int) -> None:
    check_one_kind(graph)
    if edges_per_node < 1 or candidates < 2:
        raise OptionError(
            f"edges_per_node={edges_per_node}, candidates={candidates}",
            "edges_per_node=30, candidates=3: look at several times as many nodes as wanted",
        )
    for name in ("edge_index", "y", "train_mask"):
        if graph.get(name) is None:
            raise GraphError(f"the graph has no {name}", f"Data(x=..., {name}=...)")
    if graph.train_mask.shape != (graph.num_nodes,) or not graph.train_mask.any():
        raise GraphError(
            "the graph has no nodes in train_mask",
            "graph.train_mask = mask, [nodes], true for at least one node",
        )
    if graph.num_nodes < edges_per_node + 2:
        raise GraphError(
            f"{edges_per_node} edges per node are wanted in a graph of {graph.num_nodes} nodes",
            f"ask for fewer: edges_per_node={max(1, graph.num_nodes // 4)}",
        )
