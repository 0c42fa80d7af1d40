"""Brute force in plain torch: draws of features, coins and masks through the network as it is.

Nothing of the package is imported here: what is compared with it must not share its mistakes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

Forward = Callable[[nn.Module, Tensor, Data], Tensor]


def outputs(
    model: nn.Module,
    data: Data,
    *,
    var: Tensor,  # [nodes, features]
    coins: bool,
    masks: bool,
    draws: int,
    forward: Forward,
    removed: bool = False,
    side_by_side: bool = True,
) -> Tensor:  # -> [draws, nodes, outputs]
    """What the network answers to each draw.

    Args:
        model: the network, which is copied.
        data: the graph.
        var: variance of the features.
        coins: draw a coin for every link; else messages are weighted by their chances.
        removed: coins take links out of the graph; else they silence messages.
        masks: leave dropout on.
        draws: how many.
        forward: how the network is called.
        side_by_side: run all draws at once, as parts of one graph that no link connects; not for
            networks that look at statistics of the whole graph.
    """
    model = _with_dropout(copy.deepcopy(model), on=masks)
    at_once = draws if side_by_side else 1
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        x = data.x + var.sqrt() * torch.randn(draws, *data.x.shape).to(data.x)
        weight = _weights(data, draws, coins=coins)  # [draws, links]
        blocks = [
            _run(model, data, x[some], weight[some], forward, removed=removed and coins)
            for start in range(0, draws, at_once)
            for some in [slice(start, start + at_once)]
        ]
    return torch.cat(blocks)


def _with_dropout(model: nn.Module, *, on: bool) -> nn.Module:
    """Evaluation mode, but for dropout if that is to be drawn."""
    for module in model.modules():
        module.training = on and "Norm" not in type(module).__name__
    return model


def _weights(data: Data, draws: int, *, coins: bool) -> Tensor:  # -> [draws, links]
    """Factors of the messages: what coins show, or the chances themselves.

    A link has one coin however often it is listed, and in both directions if their chances agree.
    """
    if "edge_prob" not in data:
        return torch.ones(draws, data.num_edges).to(data.x)
    prob = data.edge_prob.to(data.x)
    if not coins:
        return torch.stack([prob] * draws)
    nodes = len(data.x)
    uniform = torch.rand(draws, nodes, nodes).to(data.x)
    back = torch.rand(draws, nodes, nodes).to(data.x)
    source, target = data.edge_index
    chance = torch.full((nodes, nodes), -1.0).to(data.x)
    chance[source, target] = prob
    alike = chance == chance.T
    low, high = torch.minimum(source, target), torch.maximum(source, target)
    one_way = (source > target) & ~alike[source, target]
    level = torch.where(one_way, back[:, low, high], uniform[:, low, high])
    return torch.where(level < prob, 1.0, 0.0).to(prob.dtype)


def _run(
    model: nn.Module,
    data: Data,
    x: Tensor,  # [copies, nodes, features]
    weight: Tensor,  # [copies, links]
    forward: Forward,
    *,
    removed: bool,
) -> Tensor:  # -> [copies, nodes, outputs]
    """The network on copies of a graph, side by side."""
    copies, nodes, _ = x.shape
    union = Data(x=x.reshape(copies * nodes, -1))
    if data.edge_index is None:  # a matrix, which stays whole: its copies go one by one
        one_by_one = [forward(model, part, data) for part in x]
        return torch.stack(one_by_one)
    first = nodes * torch.arange(copies, device=x.device)
    union.edge_index = (data.edge_index[:, None] + first[:, None]).reshape(2, -1)
    if removed:
        union.edge_index = union.edge_index[:, weight.reshape(-1) > 0]
        return forward(model, union.x, union).view(copies, nodes, -1)
    with _weighted(model, union.edge_index, weight.reshape(-1), nodes=copies * nodes):
        out = forward(model, union.x, union)
    return out.view(copies, nodes, -1)


@contextmanager
def _weighted(
    model: nn.Module, links: Tensor, weight: Tensor, *, nodes: int
) -> Iterator[None]:  # [2, links], [links]
    """While this is open, every message is multiplied by the weight of its link.

    What messages are divided by stays as it was. Loops that a layer adds are certain, and where it
    does so the graph's own are as well. A largest message is the largest of those that are sent.
    """
    if bool((weight == 1).all()):
        yield
        return
    keys, order = (links[0] * nodes + links[1]).sort()
    sent: dict[nn.Module, Tensor] = {}
    tossed = bool(((weight == 0) | (weight == 1)).all())

    def look_up(layer: Any, inputs: Any) -> None:
        source, target = inputs[0]
        place = torch.searchsorted(keys, source * nodes + target).clamp_max(len(keys) - 1)
        known = keys[place] == source * nodes + target
        certain = ~known | ((source == target) & getattr(layer, "add_self_loops", False))
        sent[layer] = torch.where(certain, 1.0, weight[order[place]])

    def multiply(layer: Any, _: Any, message: Tensor) -> Tensor:
        along = [1] * message.dim()
        along[layer.node_dim] = -1
        factor = sent[layer].to(message.dtype).view(along)
        if layer.aggr == "max" and tossed:
            return torch.where(factor == 0, -torch.inf, message)
        return message * factor

    def nothing_is_zero(layer: Any, _: Any, out: Tensor) -> Tensor:
        return torch.where(out == -torch.inf, 0.0, out)

    with ExitStack() as stack:
        for layer in (m for m in model.modules() if isinstance(m, MessagePassing)):
            layer.fuse = False
            stack.callback(layer.register_propagate_forward_pre_hook(look_up).remove)
            stack.callback(layer.register_message_forward_hook(multiply).remove)
            stack.callback(layer.register_aggregate_forward_hook(nothing_is_zero).remove)
        yield
