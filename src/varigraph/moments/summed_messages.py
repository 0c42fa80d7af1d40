"""Layers that are followed as written, over links that may not be real: sums of what nodes send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from varigraph.errors import MissingRuleError
from varigraph.moments.links import LinkProbabilities, plain
from varigraph.moments.messages import own_loops
from varigraph.moments.neighbours import Neighbours, neighbours_of
from varigraph.moments.neighbours_left import MeanLeft, NormalisedLeft
from varigraph.moments.propagation import current
from varigraph.moments.stand_in import StandIn, disguise, guised, reveal

#: How far two ways to the same sum may be apart.
NEAR = 1e-4


class Sent(NamedTuple):
    """What is given to ``propagate()``.

    Args:
        name: of what nodes send.
        x: that.
        tied: whether it is given twice, for both ends of links.
        others: everything else, none of it uncertain.
    """

    name: str
    x: StandIn
    tied: bool
    others: dict[str, Any]


def propagating(
    layer: MessagePassing, written: Callable[..., Any]
) -> Callable[..., Any]:  # propagate()
    r"""A layer's ``propagate()``, with coins where it is :math:`\sum_v w_{uv} x_v` or the mean.

    Whether it is one of these is seen by numbers: it is run on two sets of random values, one at
    either end of links. That degrees of GCN are in the weights is seen likewise. What else depends
    on which links there are, closed forms find out on a graph without some of them.

    Args:
        layer: the layer.
        written: its own ``propagate()``.
    """

    def propagate(edge_index: Any, size: Any = None, **values: Any) -> Any:
        links = current().links
        if links is None or not guised(values):
            return written(edge_index, size=size, **values)
        current().as_written[type(layer).__name__] = None
        sent = _sent(values, links)
        if sent is None or current().tape is None or not _listed(edge_index):
            raise _missing(layer)

        def run(x: Any) -> Tensor:
            out: Tensor = written(edge_index, size=size, **{sent.name: x}, **sent.others)
            return out

        neighbours = _neighbours(layer, plain(edge_index), sent, links, run)
        result = current().step(lambda: neighbours.sum(reveal(sent.x)))
        return disguise(result)

    return propagate


def _missing(layer: MessagePassing) -> MissingRuleError:
    return MissingRuleError(
        f"{type(layer).__name__} has no moment rule for links that may not be real",
        'method="sampled", or leave the links out: sources=("features", "weights")',
    )


def _listed(edge_index: Any) -> bool:
    return isinstance(edge_index, Tensor) and edge_index.layout == torch.strided


def _sent(values: dict[str, Any], links: LinkProbabilities) -> Sent | None:
    """What nodes send, if it alone is uncertain and there is a row for each of them."""
    uncertain = [name for name, value in values.items() if guised(value)]
    if len(uncertain) != 1:
        return None
    name, value = uncertain[0], values[uncertain[0]]
    tied = isinstance(value, (tuple, list))
    ends = list(value) if tied else [value]
    x = ends[0]
    rows = {len(end) for end in ends if isinstance(end, Tensor)}
    if not isinstance(x, StandIn) or x.dim() != 2 or rows != {links.nodes}:
        return None
    return Sent(name, x, tied, {key: other for key, other in values.items() if key != name})


def _neighbours(
    layer: MessagePassing,
    edge_index: Tensor,  # [2, links]
    sent: Sent,
    links: LinkProbabilities,
    run: Callable[[Any], Tensor],
) -> Neighbours:
    weight = _weight(sent.others, edge_index.shape[1])
    average = _averages(layer, edge_index, sent, weight, run)
    if average is None:
        raise _missing(layer)
    removed, nodes, dtype = links.reading == "removed", links.nodes, sent.x.dtype
    by_degree = removed and not average and _by_degree(layer, edge_index, weight, nodes, dtype)

    def messages(weight: Tensor | None) -> Neighbours:
        return neighbours_of(
            edge_index,
            weight,
            nodes,
            dtype=dtype,
            flow=layer.flow,
            average=average and not removed,
            links=links,
            certain_loops=own_loops(layer),
        )

    def build() -> Neighbours:
        if by_degree:
            return NormalisedLeft.of(messages(None))
        if average and removed:
            return MeanLeft.of(messages(weight), copies=messages(None).weight)
        return messages(weight)

    return _once(build, edge_index, weight, layer.flow, average, own_loops(layer), dtype)


def _weight(others: dict[str, Any], links: int) -> Tensor | None:  # [links]
    """A number for each link, where a layer is given any."""
    found = [
        value.reshape(-1)
        for value in others.values()
        if isinstance(value, Tensor) and value.is_floating_point() and value.numel() == links
    ]
    return found[0] if len(found) == 1 else None


def _averages(
    layer: MessagePassing,
    edge_index: Tensor,
    sent: Sent,
    weight: Tensor | None,
    run: Callable[[Any], Tensor],
) -> bool | None:
    """Whether the layer takes a mean, or a sum; None where it is neither."""
    first, second = edge_index
    source, target = (first, second) if layer.flow == "source_to_target" else (second, first)
    generator = torch.Generator().manual_seed(0)
    x, other = (
        torch.randn(sent.x.shape, generator=generator).to(first.device, sent.x.dtype) for _ in "jk"
    )
    with torch.no_grad():
        out = run((x, other) if sent.tied else x)
    messages = x[source] if weight is None else weight[:, None].to(x) * x[source]
    total = torch.zeros_like(x).index_add_(0, target, messages)
    count = torch.bincount(target, minlength=len(x)).clamp_min(1)[:, None]
    for average, wanted in ((False, total), (True, total / count)):
        if out.shape == wanted.shape and _same(out, wanted):
            return average
    return None


def _by_degree(
    layer: MessagePassing, edge_index: Tensor, weight: Tensor | None, nodes: int, dtype: torch.dtype
) -> bool:
    """Whether weights are those that GCN gives to links which weigh the same."""
    if weight is None:
        return False
    gcn = gcn_norm(edge_index, None, nodes, False, False, layer.flow, dtype)[1]
    return gcn is not None and _same(weight, gcn)


def _same(one: Tensor, two: Tensor) -> bool:
    return bool(((one - two).abs() <= NEAR * two.abs().max()).all())


def _once(
    build: Callable[[], Neighbours], edge_index: Tensor, weight: Tensor | None, *options: Any
) -> Neighbours:
    """The same for the same links and weights: what coins do in several sums belongs together."""
    known: list[tuple[Tensor, Tensor | None, Neighbours]] = current().prepare(
        list, "summed messages", *options
    )
    for index, before, neighbours in known:
        if torch.equal(index, edge_index) and _equal(before, weight):
            return neighbours
    known.append((edge_index, weight, build()))
    return known[-1][2]


def _equal(one: Tensor | None, two: Tensor | None) -> bool:
    if one is None or two is None:
        return one is two
    return torch.equal(one, two)
