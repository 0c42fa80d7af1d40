"""Calibration of nodes by their place in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.errors import GraphError
from varigraph.metrics.calibration import BINS, equal_width, sums
from varigraph.metrics.inputs import Numbers, check_bins, check_classes, tensors

#: Distances that have a group of their own.
NEAR = 3
DISTANCES = (*map(str, range(NEAR + 1)), "more", "unreachable")
#: The distance of a node that no path leads to.
UNREACHABLE = -1


@dataclass(frozen=True, eq=False)
class NodeGroups:
    r"""Calibration in each group of nodes; groups without nodes are left out.

    The calibration error of a small group is large by chance, up to about
    :math:`0.3 \sqrt{b / n}` for n nodes in b intervals: look at ``count`` first.

    Args:
        names: what the nodes of each group have in common.
        ece: expected calibration error in each group, ``[groups]``.
        accuracy: share of its nodes classified right, ``[groups]``.
        confidence: mean of their highest probability, ``[groups]``.
        count: how many nodes it has, ``[groups]``.
    """

    names: tuple[str, ...]
    ece: Tensor
    accuracy: Tensor
    confidence: Tensor
    count: Tensor


def ece_by_degree(
    mean: Numbers,  # [nodes, classes]
    labels: Numbers,  # [nodes]
    edge_index: Numbers,  # [2, edges]
    *,
    nodes: Numbers | None = None,  # [nodes] bool
    bins: int = BINS,
) -> NodeGroups:
    r"""Calibration error of nodes with 0, 1, 2, 3-4, 5-8, 9-16, ... links.

    .. math:: g_i = 1 + \lceil \log_2 d_i \rceil \text{ for } d_i > 0, \text{ else } 0

    with the degree :math:`d_i`: how often node i is the second end of a link, which is the usual
    degree where links are listed in both directions.

    Args:
        mean: expected class probabilities of all nodes of the graph.
        labels: true classes, integers from 0; those of nodes that are not scored do not matter.
        edge_index: the links.
        nodes: mask of the nodes to score, such as ``graph.test_mask``; all by default.
        bins: number of intervals of confidence, of equal width.

    Example:
        >>> mean = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]])
        >>> links = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> found = ece_by_degree(mean, torch.tensor([0, 0, 0]), links)
        >>> found.names, found.count.tolist(), [round(e, 4) for e in found.ece.tolist()]
        (('1', '2'), [2, 1], [0.35, 0.2])
    """
    mean, labels, edge_index = tensors(mean=mean, labels=labels, edge_index=edge_index)
    _check_links(mean, edge_index)
    degree = torch.bincount(edge_index[1], minlength=len(mean))
    # The exponent of d - 1 is its number of binary digits: a logarithm without rounding.
    exponent = torch.frexp((degree - 1).clamp_min(0).double()).exponent.long()
    group = torch.where(degree > 0, 1 + exponent, 0)
    names = _degrees(int(group.max()) + 1)
    return _grouped(mean, labels, group, names, nodes=nodes, bins=bins)


def ece_by_distance(
    mean: Numbers,  # [nodes, classes]
    labels: Numbers,  # [nodes]
    edge_index: Numbers,  # [2, edges]
    train_mask: Numbers,  # [nodes] bool
    *,
    nodes: Numbers | None = None,  # [nodes] bool
    bins: int = BINS,
) -> NodeGroups:
    """Calibration error of nodes that are 0, 1, 2, 3 or more links from the nearest training node.

    Links lead in both directions. Nodes that no path joins to a training node are a group of
    their own, ``unreachable``.

    Args:
        mean: expected class probabilities of all nodes of the graph.
        labels: true classes, integers from 0; those of nodes that are not scored do not matter.
        edge_index: the links.
        train_mask: which nodes were trained on; they are at distance 0.
        nodes: mask of the nodes to score, such as ``graph.test_mask``; all by default.
        bins: number of intervals of confidence, of equal width.

    Example:
        >>> mean = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]])
        >>> known = torch.tensor([True, False, False])
        >>> links = torch.tensor([[0], [1]])
        >>> found = ece_by_distance(mean, torch.tensor([0, 0, 0]), links, known)
        >>> found.names, [round(share, 4) for share in found.confidence.tolist()]
        (('0', '1', 'unreachable'), [0.9, 0.8, 0.6])
    """
    mean, labels, edge_index, train_mask = tensors(
        mean=mean, labels=labels, edge_index=edge_index, train_mask=train_mask
    )
    _check_links(mean, edge_index)
    _check_mask("train_mask", train_mask, mean)
    steps = distances(edge_index, train_mask)
    far = len(DISTANCES) - 1
    group = torch.where(steps == UNREACHABLE, far, steps.clamp_max(NEAR + 1))
    return _grouped(mean, labels, group, DISTANCES, nodes=nodes, bins=bins)


def _grouped(
    mean: Tensor,  # [nodes, classes]
    labels: Tensor,  # [nodes]
    group: Tensor,  # [nodes]
    names: Sequence[str],
    *,
    nodes: Numbers | None,  # [nodes] bool
    bins: int,
) -> NodeGroups:
    if nodes is not None:
        mean, nodes = tensors(mean=mean, nodes=nodes)
        _check_mask("nodes", nodes, mean)
        _check_mask("nodes", nodes, labels)
        mean, labels, group = mean[nodes], labels[nodes], group[nodes]
    mean, labels = check_classes(mean, labels)
    bins = check_bins(bins)
    confidence, best = mean.double().max(dim=1)
    right = best == labels
    count = torch.bincount(group, minlength=len(names))
    held = count > 0
    cell = group * bins + equal_width(confidence, bins)  # [nodes]: interval within group
    gaps = sums(right.double() - confidence, cell, len(names) * bins)
    totals = (gaps.view(-1, bins).abs().sum(dim=1), sums(right, group, len(names)))
    ece, accuracy, sure = (
        total[held] / count[held] for total in (*totals, sums(confidence, group, len(names)))
    )
    kept = tuple(name for name, any_there in zip(names, held.tolist(), strict=True) if any_there)
    return NodeGroups(kept, ece, accuracy, sure, count[held])


def _degrees(groups: int) -> tuple[str, ...]:
    """``0``, ``1``, ``2``, ``3-4``, ``5-8`` and so on."""
    ranges = [f"{2 ** (k - 2) + 1}-{2 ** (k - 1)}" for k in range(3, groups)]
    return ("0", "1", "2", *ranges)[:groups]


def _check_links(mean: Tensor, edge_index: Tensor) -> None:
    if mean.dim() != 2:
        raise GraphError(
            f"mean has shape {tuple(mean.shape)}", "pass class probabilities: [nodes, classes]"
        )
    form = edge_index.dim() == 2 and edge_index.size(0) == 2 and edge_index.dtype == torch.int64
    inside = form and bool(((edge_index >= 0) & (edge_index < len(mean))).all())
    if not inside:
        raise GraphError(
            f"edge_index is {edge_index.dtype} of shape {tuple(edge_index.shape)} and does not "
            f"join nodes 0 to {len(mean) - 1}",
            "give mean for all nodes of the graph, links as [2, edges] int64, and choose with "
            "nodes=graph.test_mask",
        )


def _check_mask(name: str, mask: Tensor, mean: Tensor) -> None:
    if mask.dtype != torch.bool or mask.shape != mean.shape[:1]:
        raise GraphError(
            f"{name} is {mask.dtype} of shape {tuple(mask.shape)}, but there are {len(mean)} nodes",
            f"give a mask of all nodes, [nodes] bool: {name}=graph.test_mask",
        )


def distances(edge_index: Tensor, start: Tensor) -> Tensor:  # [2, edges], [nodes] bool -> [nodes]
    """Fewest links to any of the starting nodes, in either direction; -1 where there is no path.

    Breadth first: all nodes of one distance are found at once.

    Example:
        >>> links = torch.tensor([[0, 1], [1, 2]])
        >>> distances(links, torch.tensor([True, False, False, False])).tolist()
        [0, 1, 2, -1]
    """
    found, reached = torch.where(start, 0, UNREACHABLE), start.clone()
    source, target = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    for distance in range(1, len(start)):
        waiting = ~reached[target]
        source, target = source[waiting], target[waiting]
        fresh = target[reached[source]]
        if not len(fresh):
            break
        found[fresh], reached[fresh] = distance, True
    return found
