"""Equation 13 as one would write it by hand: the closed form under each dropout mask in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import scatter

from varigraph.moments.softmax_moments import points_per_mask
from varigraph.studies.speed.answer import Answer
from varigraph.studies.speed.subject import Subject
from varigraph.training import PaperNetwork

#: Gives the scaled mask of a place in the network, by its number and the shape that it meets.
Draw = Callable[[int, torch.Size], Tensor]
Pair = tuple[Tensor, Tensor]


def equation_13(subject: Subject) -> Answer:
    """Mean and variance for every mask, one message for every link."""
    return looped(subject, subject.graph.edge_index)


def equation_13_csr(subject: Subject) -> Answer:
    """The same with the links in compressed rows."""
    return looped(subject, subject.adjacency)


@torch.no_grad()
def looped(subject: Subject, links: Tensor, draw: Callable[[int], Draw] | None = None) -> Answer:
    r"""Total variance over T masks, of logits and of class probabilities.

    .. math::
        \text{total} = \frac{1}{T} \sum_t v_t + \frac{1}{T} \sum_t (m_t - \bar m)^2

    Args:
        subject: the paper's network and a graph without loops or repeated links, whose noise
            would come in more than once.
        links: ``edge_index``, or the transposed adjacency in compressed rows.
        draw: masks by the number of the pass; torch's own generator if left out.
    """
    model = cast(PaperNetwork, subject.model)
    x, classes = subject.graph.x, model.dense3.out_features
    var = torch.as_tensor(subject.graph.x_var, device=x.device).expand_as(x)
    points = points_per_mask(subject.masks, classes) // 2
    logits, chances = [], []
    for number in range(subject.looped):
        masks = draw(number) if draw is not None else _bernoulli(x, model.dropout)
        moments = _one_mask(model, x, var, links, masks)
        half = torch.randn(points, classes, dtype=x.dtype, device=x.device)
        logits.append(moments)
        chances.append(_softmax(*moments, torch.cat([half, -half])))
    return Answer(*_total(logits), *_total(chances))


def _one_mask(model: PaperNetwork, x: Tensor, var: Tensor, links: Tensor, draw: Draw) -> Pair:
    """Mean and variance of the logits under one mask for each hidden representation."""
    hidden = _dropped(*_convolved(model.conv1, x, var, links), draw, 0)
    hidden = _dropped(*_convolved(model.conv2, *hidden, links), draw, 1)
    hidden = _dropped(*_dense(model.dense1, *hidden), draw, 2)
    hidden = _dropped(*_dense(model.dense2, *hidden), draw, 3)
    return _dense(model.dense3, *hidden)


def _convolved(conv: SAGEConv, mean: Tensor, var: Tensor, links: Tensor) -> Pair:
    """Theorem 1 with certain links: the mean is the layer itself, the variance its squares."""
    summed, degree = _neighbour_sum(var, links)
    from_neighbours = summed / degree.clamp_min(1)[:, None].square()
    own = var @ conv.lin_r.weight.square().T
    return conv(mean, links), from_neighbours @ conv.lin_l.weight.square().T + own


def _neighbour_sum(values: Tensor, links: Tensor) -> Pair:  # [nodes, n] -> [nodes, n], [nodes]
    if links.layout == torch.sparse_csr:
        return links @ values, links.crow_indices().diff()
    source, target = links
    summed = scatter(values[source], target, dim=0, dim_size=len(values), reduce="sum")
    return summed, target.bincount(minlength=len(values))


def _dense(layer: torch.nn.Linear, mean: Tensor, var: Tensor) -> Pair:
    return layer(mean), var @ layer.weight.square().T


def _dropped(mean: Tensor, var: Tensor, draw: Draw, place: int) -> Pair:
    mask = draw(place, mean.shape)
    return mean * mask, var * mask.square()


def _bernoulli(like: Tensor, rate: float) -> Draw:
    def draw(place: int, shape: torch.Size) -> Tensor:
        return like.new_empty(shape).bernoulli_(1 - rate) / (1 - rate)

    return draw


def _softmax(mean: Tensor, var: Tensor, points: Tensor) -> Pair:  # points: [points, classes]
    drawn = (mean + var.sqrt() * points[:, None]).softmax(-1)  # [points, nodes, classes]
    return drawn.mean(0), drawn.var(0, correction=0)


def _total(moments: list[Pair]) -> Pair:
    means, variances = (torch.stack(part) for part in zip(*moments, strict=True))
    return means.mean(0), variances.mean(0) + means.var(0, correction=0)
