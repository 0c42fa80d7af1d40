"""The most probable graph behind features, links and known labels (Pal et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from varigraph.baselines.draws import from_draws
from varigraph.baselines.edge_count import distance_scale
from varigraph.baselines.gcn import GcnTrainer, normalised
from varigraph.baselines.log_degree import log_degree_graph
from varigraph.baselines.node_distances import (
    NodeDistances,
    candidate_pairs,
    label_shares,
    node_distances,
)
from varigraph.baselines.vgae import embedding
from varigraph.data import check_graph
from varigraph.errors import GraphError, OptionError

#: Called with the fraction done, from 0 to 1, and what is done next.
Progress = Callable[[float, str], None]
#: Passes with dropout over which predicted labels are averaged.
BASE_DRAWS = 60
#: Weights below this are not links.
FAINT = 1e-4


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
    tell = progress if progress is not None else _silence
    tell(0.0, "labels")
    labels = predicted_labels(graph, epochs=base_epochs, hard=hard, seed=seed)
    tell(0.3, "vectors")
    vectors = embedding(graph.x, graph.edge_index, epochs=embedding_epochs, seed=seed)
    tell(0.8, "distances")
    shares = label_shares(labels, graph.edge_index, closed=closed)
    distances = node_distances(vectors, shares, squared=squared)
    wanted = min(candidates * edges_per_node, graph.num_nodes - 1)
    nearest = distances.nearest(wanted)
    tell(0.95, "weights")
    pairs = candidate_pairs(nearest)
    scale = distance_scale(_sorted_distances(distances, nearest), edges_per_node)
    found = log_degree_graph(pairs, scale * distances.of(pairs), nodes=graph.num_nodes)
    kept = found.weight >= FAINT
    weight = (found.weight[kept] / found.weight[kept].mean()).float()
    edge_index, weight = to_undirected(pairs[:, kept], weight, graph.num_nodes)
    tell(1.0, "done")
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
    check_graph(graph)
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
