"""How far nodes are apart: by their vectors, and by the labels around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected

from varigraph.errors import GraphError
from varigraph.links.link_pairs import numbered_pairs, pair_numbers

#: Distances held at a time.
BLOCK = 2**23


@dataclass(frozen=True, eq=False)
class NodeDistances:
    r""":math:`Z = Z_1 + \delta Z_2` with :math:`\delta = \max Z_1 / \max Z_2` over all pairs.

    :math:`Z_1` is the distance of two nodes' vectors. :math:`Z_2` is the share of label pairs
    that differ, one from either neighbourhood,

    .. math:: Z_{2,ij} = \frac{1}{|N_i| |N_j|} \sum_{k \in N_i} \sum_{l \in N_j} [c_k \ne c_l]
        = 1 - F_i \cdot F_j

    for the shares :math:`F_i` of the labels around node i. Where labels are known as
    probabilities it is the expected share, as if they were drawn independently.

    Args:
        vectors: of the nodes, ``[nodes, size]``.
        shares: of each label around each node, ``[nodes, classes]``.
        delta: weight of the labels.
        squared: whether :math:`Z_1` is the squared distance.
    """

    vectors: Tensor
    shares: Tensor
    delta: float
    squared: bool = False

    def of(self, pairs: Tensor) -> Tensor:  # [2, pairs] -> [pairs], double
        """Distance of each pair."""
        one, two = pairs
        apart = (self.vectors[one].double() - self.vectors[two].double()).square().sum(dim=1)
        apart = apart if self.squared else apart.sqrt()
        alike = (self.shares[one].double() * self.shares[two].double()).sum(dim=1)
        return apart + self.delta * (1 - alike)

    def nearest(self, count: int) -> Tensor:  # -> [nodes, count]
        """The nearest other nodes of each node."""
        nodes = len(self.vectors)
        if not 0 < count < nodes:
            raise GraphError(
                f"{count} nearest nodes are wanted among {nodes - 1} others",
                "ask for fewer, or give a larger graph",
            )
        found = []
        for rows, apart, differ in _blocks(self.vectors, self.shares, squared=self.squared):
            distance = apart.add_(differ, alpha=self.delta)
            distance[torch.arange(len(rows)), rows] = torch.inf
            found.append(distance.topk(count, largest=False).indices)
        return torch.cat(found)


def node_distances(
    vectors: Tensor,  # [nodes, size]
    shares: Tensor,  # [nodes, classes]
    *,
    squared: bool = False,
) -> NodeDistances:
    """Distances in which vectors and labels have the same range."""
    farthest = most = 0.0
    for _, apart, differ in _blocks(vectors, shares, squared=squared):
        farthest = max(farthest, float(apart.max()))
        most = max(most, float(differ.max()))
    # Without any disagreement between labels only the vectors tell nodes apart.
    return NodeDistances(vectors, shares, farthest / most if most > 1e-6 else 0.0, squared)


def label_shares(
    labels: Tensor,  # [nodes, classes]
    edge_index: Tensor,  # [2, edges]
    *,
    closed: bool = True,
) -> Tensor:  # [nodes, classes]
    """Share of each label among the neighbours of each node: the mean of their labels.

    Args:
        labels: 1 for the label of each node; or probabilities, which give the expected shares.
        edge_index: links; directions do not count.
        closed: whether a node is its own neighbour. If not, this holds for lone nodes only.
    """
    nodes = len(labels)
    each = torch.arange(nodes, device=labels.device)
    links = to_undirected(remove_self_loops(edge_index)[0], num_nodes=nodes)
    alone = torch.bincount(links[0], minlength=nodes) == 0
    own = each if closed else each[alone]
    rows, columns = torch.cat([links, own.expand(2, -1)], dim=1)
    total = torch.zeros_like(labels).index_add_(0, rows, labels[columns])
    return total / torch.bincount(rows, minlength=nodes)[:, None]


def candidate_pairs(nearest: Tensor) -> Tensor:  # [nodes, count] -> [2, pairs]
    """The pairs in which one node is among the nearest of the other, each once."""
    one = torch.arange(len(nearest), device=nearest.device)[:, None].expand_as(nearest)
    numbers = pair_numbers(torch.stack([one.flatten(), nearest.flatten()]))
    return numbered_pairs(numbers.unique())


def _blocks(
    vectors: Tensor, shares: Tensor, *, squared: bool
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Some rows of both distances at a time: which, and the two blocks ``[rows, nodes]``."""
    nodes = len(vectors)
    for rows in torch.arange(nodes).split(max(1, BLOCK // nodes)):
        apart = torch.cdist(vectors[rows], vectors, compute_mode="donot_use_mm_for_euclid_dist")
        yield rows, apart.square_() if squared else apart, 1 - shares[rows] @ shares.T
