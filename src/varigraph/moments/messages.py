"""Messages weighted by the link they travel on, in any message-passing network."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.nn import (
    MaxAggregation,
    MeanAggregation,
    MessagePassing,
    MinAggregation,
    SumAggregation,
)
from torch_geometric.utils import is_sparse

from varigraph.errors import ModelError
from varigraph.moments.renumbering import KnownLinks, OneOrder, same_nodes

#: What is put in the place of a message that is not sent, where the largest or smallest counts.
NOTHING = {MaxAggregation: -math.inf, MinAggregation: math.inf}
REMEDY = 'links="removed", which takes links out of the graph itself'


class LinkWeights(KnownLinks, Protocol):
    """Anything that has a weight for every link, such as ``LinkProbabilities``.

    Attributes:
        tossed: whether the weights are what coins show: a message is there or it is not.
    """

    @property
    def tossed(self) -> bool: ...  # noqa: D102

    def of(self, edge_index: Tensor, *, own_loops: bool = False) -> Tensor:  # [2, m] -> [m]
        """Weight of each of a layer's links."""


def own_loops(layer: Any) -> bool:
    """Whether a layer puts loops of its own, which are certain, in the place of the graph's."""
    return bool(getattr(layer, "add_self_loops", False) and getattr(layer, "normalize", True))


@contextmanager
def scaled_messages(model: nn.Module, links: LinkWeights) -> Iterator[None]:
    r"""Multiply every message :math:`m_{vu}` of a network by the weight of its link.

    .. math::
        h_u = \mathrm{update}\left(x_u,\ \mathrm{aggregate}_v\ p_{vu}\, m_{vu}\right)

    Divisors stay those of the observed graph: neighbour counts, GCN degrees, attention. Where coins
    decide, a largest or smallest message is looked for among those that are sent; layers that
    neither add messages up nor look for one are refused. The network is as before once the block
    ends, however it ends.

    Args:
        model: any network of torch_geometric's ``MessagePassing`` layers.
        links: the weights of the graph's links.

    Raises:
        ModelError: where the messages are out of reach (no such layer, compiled networks, sparse
            adjacency, whose messages are never formed), run along unknown links, between nodes
            that were numbered anew, or are made into something that no coin can be put into.
    """
    with ExitStack() as stack:
        for name, layer in _layers(model):
            weigh = _Weigh(name or type(layer).__name__, links)
            stack.enter_context(_unfused(layer))
            stack.callback(layer.register_propagate_forward_pre_hook(weigh.look_up).remove)
            stack.callback(layer.register_message_forward_hook(weigh.multiply).remove)
            stack.callback(layer.register_aggregate_forward_hook(weigh.aggregated).remove)
        yield


class _Weigh:
    """Hooks of a layer: the weights of its links, on its messages.

    Args:
        name: of the layer.
        links: the weights of the graph's links.
    """

    def __init__(self, name: str, links: LinkWeights) -> None:
        self._name, self._links, self._adds_up = name, links, False
        self._order = OneOrder(f"layer {name}", links)
        self._weight = self._message = self._edge_index = torch.empty(0)

    def look_up(self, layer: Any, inputs: tuple[Any, Any, dict[str, Any]]) -> None:
        """Before messages are formed: which links they run along."""
        edge_index, _, given = inputs
        if is_sparse(edge_index):
            raise ModelError(
                f"layer {self._name} was given a sparse adjacency: its messages are never formed",
                "pass edge_index, [2, edges], in the place of the adjacency",
            )
        same_nodes(f"layer {self._name}", _rows(layer, given), self._links)
        self._order.check(edge_index)
        self._edge_index = edge_index

    def multiply(self, layer: Any, inputs: Any, message: Tensor) -> Tensor:
        """Once they are formed: each with its weight, or none where it is not sent."""
        self._message = message
        self._weight = self._links.of(self._edge_index, own_loops=own_loops(layer))
        weight = self._weight.to(message.dtype).view(_along(layer, message))
        nothing = self._nothing(layer)
        return message * weight if nothing is None else torch.where(weight == 0, nothing, message)

    def aggregated(self, layer: Any, inputs: tuple[dict[str, Any]], out: Tensor) -> Tensor:
        """Once they are aggregated: nodes that are sent nothing have 0, as without links."""
        nothing, message = self._nothing(layer), self._message
        self._message = torch.empty(0)
        if nothing is not None:
            return torch.where(out == nothing, 0.0, out)
        if self._links.tossed and not self._adds_up:
            self._adds_up = _known_to_add_up(layer) or _adds_up(layer, message, inputs[0])
            if not self._adds_up:
                raise ModelError(
                    f"layer {self._name} does not add its messages up (aggr={layer.aggr!r}), and a "
                    "message of 0 is another thing than none",
                    REMEDY,
                )
        return out

    def _nothing(self, layer: Any) -> float | None:
        """What stands for no message; None where its weight does."""
        own = type(layer).aggregate is not MessagePassing.aggregate
        if own or not self._links.tossed or self._weight.requires_grad:
            return None
        return NOTHING.get(type(layer.aggr_module))


def _along(layer: Any, message: Tensor) -> list[int]:
    shape = [1] * message.dim()
    shape[layer.node_dim] = -1
    return shape


def _known_to_add_up(layer: Any) -> bool:
    own = type(layer).aggregate is not MessagePassing.aggregate
    return not own and type(layer.aggr_module) in (SumAggregation, MeanAggregation)


def _adds_up(layer: Any, message: Tensor, others: dict[str, Any]) -> bool:
    """Whether the parts of messages, aggregated by themselves, add up to all of them."""
    count = message.shape[layer.node_dim]
    part = torch.arange(1, count + 1, device=message.device).to(message.dtype).sin()
    part = part.view(_along(layer, message))
    whole, one, two = (layer.aggregate(m, **others) for m in (message, message * part,
                                                             message * (1 - part)))  # fmt: skip
    near = torch.finfo(message.dtype).eps ** 0.5 * whole.abs().amax().clamp_min(1e-30)
    return bool(((one + two - whole).abs() <= near).all()) if whole.numel() else True


def _rows(layer: Any, given: dict[str, Any]) -> set[int]:
    """Numbers of nodes that a layer's messages run between."""
    ends = {name[:-2] for name in layer._user_args if name.endswith(("_i", "_j"))}
    values = [given[name] for name in ends if name in given]
    each = [v for value in values for v in (value if isinstance(value, (tuple, list)) else [value])]
    return {v.shape[layer.node_dim] for v in each if isinstance(v, Tensor)}


def _layers(model: nn.Module) -> list[tuple[str, Any]]:
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule) or hasattr(module, "_orig_mod"):
            raise ModelError(
                f"the messages of a compiled network cannot be weighted ({name or 'the model'})",
                "pass the network as it was before torch.compile or torch.jit.script",
            )
    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, MessagePassing)]
    if not layers:
        raise ModelError(
            f"{type(model).__name__} has no MessagePassing layer whose messages could be weighted",
            "build it from torch_geometric layers, or remove the probabilities: del data.edge_prob",
        )
    return layers


@contextmanager
def _unfused(layer: Any) -> Iterator[None]:
    # A sorted EdgeIndex would let the layer skip its messages.
    before, layer.fuse = layer.fuse, False
    try:
        yield
    finally:
        layer.fuse = before
