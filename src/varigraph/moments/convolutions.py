"""Message-passing layers of torch_geometric."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.utils import add_remaining_self_loops, is_torch_sparse_tensor

from varigraph.errors import MissingRuleError, ModelError
from varigraph.moments.arithmetic import joined, mul
from varigraph.moments.far_rows import normalised_links, refuse_far_degrees
from varigraph.moments.gaussian import ByRows, Gaussian, PerNode, by_node
from varigraph.moments.layers import linear, normalize, shifted
from varigraph.moments.maximum import group_max
from varigraph.moments.neighbours import Neighbours, NeighbourSum, as_edge_index, neighbours_of
from varigraph.moments.neighbours_left import MeanLeft, NormalisedLeft
from varigraph.moments.pieces import relu
from varigraph.moments.propagation import current, recorded
from varigraph.moments.registry import Exactness, implements
from varigraph.moments.tape import Sum
from varigraph.sparse import Sparse, made_once, without_notices

INDEPENDENT: Exactness = "exact for independent inputs"
AGGREGATIONS = (
    "aggr mean and sum; max, normalize and project are approximate where self-loops, coins or "
    "lengths tie their parts together"
)
#: Steps of one propagation over links in doubt that are followed in full.
STEPS_IN_FULL = 2
HOPS = "exact for one hop; neighbours are taken as independent after each"


@implements(gnn.SAGEConv, exactness=INDEPENDENT, note=AGGREGATIONS)
def sage_conv(layer: gnn.SAGEConv, x: Gaussian, edge_index: Tensor, size: Any = None) -> Gaussian:
    r"""Theorem 1: moments of :math:`C x_u + A \frac{1}{n} \sum_{v \in N(u)} p_{uv} x_v`."""
    _one_kind_of_node(layer, x, size)
    messages = relu(layer.lin(x)) if layer.project else x
    root = layer.lin_r if layer.root_weight else None
    out = _self_and_neighbours(layer, x, messages, edge_index, None, layer.lin_l, root)
    return normalize(out, dim=-1) if layer.normalize else out


@implements(gnn.GraphConv, exactness=INDEPENDENT, note=AGGREGATIONS)
def graph_conv(
    layer: gnn.GraphConv,
    x: Gaussian,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    size: Any = None,
) -> Gaussian:
    r"""Moments of :math:`C x_u + A \sum_{v \in N(u)} w_{uv} x_v`."""
    _one_kind_of_node(layer, x, size)
    return _self_and_neighbours(layer, x, x, edge_index, edge_weight, layer.lin_rel, layer.lin_root)


@implements(gnn.GCNConv, exactness=INDEPENDENT)
def gcn_conv(
    layer: gnn.GCNConv, x: Gaussian, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Gaussian:
    r"""Moments of :math:`\sum_v \hat A_{uv} W x_v + b`; degrees are those of the observed graph."""
    _one_kind_of_node(layer, x)
    summed = _normalised(layer, x, edge_index, edge_weight).sum(layer.lin(x))
    return shifted(summed, layer.bias, disposable=True)


@implements(gnn.SGConv, exactness="approximate", note=HOPS)
def sg_conv(
    layer: gnn.SGConv, x: Gaussian, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Gaussian:
    r"""Moments of :math:`\hat A^K x W + b`. The map goes first: the order does not matter."""
    _one_kind_of_node(layer, x)
    neighbours, hidden = _normalised(layer, x, edge_index, edge_weight), linear(x, layer.lin.weight)
    _note_steps(layer, neighbours)
    for step in neighbours.steps(layer.K):
        hidden = step.sum(hidden)
    return shifted(hidden, layer.lin.bias, disposable=True)


@implements(gnn.APPNP, exactness="approximate", note=HOPS)
def appnp(
    layer: gnn.APPNP, x: Gaussian, edge_index: Tensor, edge_weight: Tensor | None = None
) -> Gaussian:
    r"""Moments of K steps :math:`h \leftarrow (1 - \alpha) \hat A h + \alpha x`.

    The covariance c of a node's h with its own x is carried along: :math:`\hat A` has loops.
    """
    _one_kind_of_node(layer, x)
    if layer.dropout > 0 and current().masked:
        raise ModelError(
            f"APPNP(dropout={layer.dropout}) drops links at prediction time, which has no rule",
            "set layer.dropout = 0, or leave the weights out with samples=0",
        )
    neighbours = _normalised(layer, x, edge_index, edge_weight)
    _note_steps(layer, neighbours)
    loops = 0 if neighbours.loops is None else neighbours.loops
    start, hidden, shared = mul(x, layer.alpha), x, layer.alpha * x.var
    for _ in range(layer.K):
        summed = mul(neighbours.sum(hidden), 1 - layer.alpha)
        shared = (1 - layer.alpha) * loops * shared
        hidden = joined(summed, start, shared=shared)
        shared = shared + start.var
    return hidden


def _note_steps(layer: Any, neighbours: Neighbours) -> None:
    """Coins that many steps meet again are followed over the ends of their links alone."""
    if layer.K > STEPS_IN_FULL and bool(neighbours.tossed.any()):
        current().approximates(type(layer).__name__)


@implements(gnn.GINConv, exactness=INDEPENDENT, note="up to the first linear map of its network")
def gin_conv(layer: gnn.GINConv, x: Gaussian, edge_index: Tensor, size: Any = None) -> Any:
    r"""Moments of :math:`f((1 + \epsilon) x_u + \sum_{v \in N(u)} x_v)`."""
    _one_kind_of_node(layer, x, size)
    neighbours = incoming(layer, x, edge_index, None)
    if _aggregation(layer) == "max":
        raise MissingRuleError(
            "GINConv(aggr='max') has no moment rule", "use aggr='sum' or 'mean', or write a rule"
        )
    return layer.nn(NeighbourSum(neighbours.with_self(1 + layer.eps), x))


def _self_and_neighbours(
    layer: gnn.MessagePassing,
    x: Gaussian,  # [nodes, features]
    messages: Gaussian,  # [nodes, features]
    edge_index: Tensor,
    edge_weight: Tensor | None,
    of_neighbours: gnn.Linear,
    of_self: gnn.Linear | None,
) -> Gaussian:
    r"""Moments of :math:`C x_u + A \sum_v S_{uv} x_v + b`.

    A self-loop brings the node's own noise in twice: :math:`2 E[S_{uu}] (C \circ A) \sigma_u^2`.
    """
    if isinstance(x, ByRows) and of_self is not None:
        x.settle()
    neighbours = incoming(layer, x, edge_index, edge_weight)
    largest = _aggregation(layer) == "max"
    summed = _largest(neighbours, messages) if largest else NeighbourSum(neighbours, messages)
    if of_self is None:
        return linear(summed, of_neighbours.weight, of_neighbours.bias)
    own = linear(x, of_self.weight, of_self.bias)
    if neighbours.loops is None or largest or messages is not x:
        return _onto(own, summed, of_neighbours)
    out = linear(summed, of_neighbours.weight, of_neighbours.bias)
    both = of_self.weight * of_neighbours.weight
    return _joined_with_loops(out, own, x, PerNode(neighbours.loops), both)


def _onto(own: Gaussian, summed: Gaussian, layer: gnn.Linear) -> Gaussian:
    """A node's own part, which is not looked at any more, plus the mapped sum of the others."""
    if isinstance(summed, NeighbourSum) and summed.goes_onto(own, len(layer.weight)):
        out = summed.neighbours.sum_onto(own, linear(summed.x, layer.weight))
        return shifted(out, layer.bias, disposable=True)
    return joined(own, linear(summed, layer.weight, layer.bias), disposable=True)


@by_node
def _joined_with_loops(
    out: Gaussian,
    own: Gaussian,
    x: Gaussian,
    loops: Any,  # [nodes, 1]
    both: Tensor,  # [outputs, features]
) -> Gaussian:
    return joined(own, out, shared=loops * F.linear(x.var, both), disposable=True)


def _largest(neighbours: Neighbours, x: Gaussian) -> Gaussian:  # [nodes, features]
    """Moments of the largest message of each feature."""
    weight, source = neighbours.weight[:, None], neighbours.source
    messages = Gaussian(weight * x.mean[source], weight.square() * x.var[source])
    if neighbours.prob is None:
        each = torch.arange(len(source), device=source.device)
        sent = Sparse(each, source, neighbours.weight, (len(source), len(x)))
        recorded(messages, (x, Sum(sent)))
    return group_max(messages, neighbours.target, groups=neighbours.nodes, prob=neighbours.prob)


def incoming(
    layer: gnn.MessagePassing,
    x: Gaussian,  # [nodes, features]
    edge_index: Tensor,
    edge_weight: Tensor | None = None,  # [edges]
) -> Neighbours:
    """Who sends to whom in a layer, weighted as its aggregation asks: mean, sum or max.

    ``incoming(layer, x, edge_index).sum(x)`` has the moments of what the layer sums up, the chances
    of links included, and their responses are on record.

    Args:
        layer: the layer, with its ``aggr`` and ``flow``.
        x: what is sent.
        edge_index: the links, in any form that the layer takes.
        edge_weight: weights of the messages.
    """
    _refuse_uncertain(layer, edge_weight)
    aggregation, links = _aggregation(layer), current().links
    divided = aggregation == "mean" and links is not None and links.reading == "removed"

    def messages(weight: Tensor | None) -> Neighbours:
        return neighbours_of(
            edge_index,
            weight,
            len(x),
            dtype=x.dtype,
            flow=layer.flow,
            average=aggregation == "mean" and not divided,
            largest=aggregation == "max",
            links=links,
        )

    def build() -> Neighbours:
        summed = messages(edge_weight)
        return MeanLeft.of(summed, copies=messages(None).weight) if divided else summed

    return _prepared(build, edge_index, edge_weight, layer.flow, aggregation, len(x), x.dtype)


def _normalised(
    layer: gnn.MessagePassing, x: Gaussian, edge_index: Tensor, edge_weight: Tensor | None
) -> Neighbours:
    """The layer's neighbours with GCN's symmetric normalisation, self-loops included.

    What the layer may have cached in training is left alone: it belongs to the training graph.
    """
    _refuse_uncertain(layer, edge_weight)
    loops, links = layer.add_self_loops, current().links
    improved, normalize = getattr(layer, "improved", False), getattr(layer, "normalize", True)

    def build() -> Neighbours:
        if normalize and links is not None and links.reading == "removed":
            return _normalised_left(layer, x, edge_index, edge_weight)
        index, weight = edge_index, edge_weight
        sparse = isinstance(index, Tensor) and is_torch_sparse_tensor(index)
        if not (sparse and normalize):  # which the layer would give another loop than others get
            index, weight = as_edge_index(index, weight, layer.flow)
        if normalize:
            with without_notices():
                index, weight = normalised_links(
                    index, weight, len(x), improved, loops, layer.flow, x.dtype
                )
        index, weight = as_edge_index(index, weight, layer.flow)
        return neighbours_of(
            index,
            weight,
            len(x),
            dtype=x.dtype,
            flow=layer.flow,
            links=links,
            certain_loops=loops and normalize,
        )

    options = layer.flow, improved, loops, normalize, len(x), x.dtype
    return _prepared(build, edge_index, edge_weight, *options)


def _normalised_left(
    layer: gnn.MessagePassing, x: Gaussian, edge_index: Tensor, edge_weight: Tensor | None
) -> Neighbours:
    """The same with the degrees of the links that are left."""
    refuse_far_degrees()
    loops = layer.add_self_loops
    index, weight = as_edge_index(edge_index, edge_weight, layer.flow)
    if loops:
        fill = 2.0 if getattr(layer, "improved", False) else 1.0
        index, weight = add_remaining_self_loops(
            index, x.mean.new_ones(index.shape[1]) if weight is None else weight, fill, len(x)
        )
    summed = neighbours_of(
        index,
        weight,
        len(x),
        dtype=x.dtype,
        flow=layer.flow,
        links=current().links,
        certain_loops=loops,
    )
    return NormalisedLeft.of(summed)


def _prepared(
    build: Callable[[], Neighbours], edge_index: Any, edge_weight: Tensor | None, *options: Hashable
) -> Neighbours:
    """Built once for a graph, or once for a prediction where more than its links has a say."""
    key = build.__qualname__, *options
    alone = isinstance(edge_index, Tensor) and edge_weight is None and current().links is None
    if alone:
        return made_once(edge_index, key, build)
    neighbours: Neighbours = current().prepare(build, edge_index, edge_weight, *key)
    return neighbours


def _aggregation(layer: gnn.MessagePassing) -> str:
    names = {gnn.MeanAggregation: "mean", gnn.SumAggregation: "sum", gnn.MaxAggregation: "max"}
    if type(layer.aggr_module) not in names:
        raise MissingRuleError(
            f"{type(layer).__name__}(aggr={layer.aggr!r}) has no moment rule",
            "use aggr='mean', 'sum' or 'max'",
        )
    return names[type(layer.aggr_module)]


def _refuse_uncertain(layer: gnn.MessagePassing, edge_weight: Any) -> None:
    if isinstance(edge_weight, Gaussian):
        raise MissingRuleError(
            f"the rule of {type(layer).__name__} takes the weights of links as certain, and they "
            "are not",
            'method="sampled", or leave data.edge_weight_var out',
        )


def _one_kind_of_node(layer: gnn.MessagePassing, x: Any, size: Any = None) -> None:
    name = type(layer).__name__
    if isinstance(x, Tensor):
        raise MissingRuleError(
            f"{name} was called with a plain tensor, not with what was made of the given x",
            "let forward= and the model use the x that they are given, not data.x; for layers that "
            'work on something else, method="sampled"',
        )
    if not isinstance(x, Gaussian) or size is not None:
        raise ModelError(
            f"{name} was called with separate source and target nodes",
            "only graphs with one kind of node are covered: call it with one x and no size",
        )
