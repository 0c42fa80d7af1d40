"""Messages weighted by the link they travel on, in any message-passing network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import is_sparse

from varigraph.errors import ModelError


class LinkWeights(Protocol):
    """Anything that has a weight for every link, such as ``LinkProbabilities``."""

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

    Divisors stay those of the observed graph: neighbour counts, GCN degrees, attention.
    The network is as before once the block ends, however it ends.

    Args:
        model: any network of torch_geometric's ``MessagePassing`` layers.
        links: the weights of the graph's links.

    Raises:
        ModelError: where the messages are out of reach (no such layer, compiled networks, sparse
            adjacency, whose messages are never formed) or run along unknown links.
    """
    current: dict[nn.Module, Tensor] = {}
    with ExitStack() as stack:
        for name, layer in _layers(model):

            def look_up(layer: Any, inputs: Any, name: str = name or type(layer).__name__) -> None:
                if is_sparse(inputs[0]):
                    raise ModelError(
                        f"layer {name} was given a sparse adjacency: its messages are never formed",
                        "pass edge_index, [2, edges], in the place of the adjacency",
                    )
                current[layer] = links.of(inputs[0], own_loops=own_loops(layer))

            def multiply(layer: Any, inputs: Any, message: Tensor) -> Tensor:
                shape = [1] * message.dim()
                shape[layer.node_dim] = -1
                return message * current[layer].to(message.dtype).view(shape)

            stack.enter_context(_unfused(layer))
            stack.callback(layer.register_propagate_forward_pre_hook(look_up).remove)
            stack.callback(layer.register_message_forward_hook(multiply).remove)
        yield


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
