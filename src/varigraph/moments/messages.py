"""Messages weighted by the link they travel on, in any message-passing network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import is_sparse

from varigraph.errors import GraphError, ModelError

_NO_LINK = torch.iinfo(torch.int64).max  # sorts after every key


@dataclass(frozen=True, eq=False)
class LinkWeights:
    r"""A weight :math:`p_{uv}` for every link, found again by the nodes that it joins.

    Layers see other lists of links than the graph's: in another order, with self-loops. So a
    layer's list is matched to the graph's by its pairs of nodes; the n-th copy of a repeated
    link is the n-th copy in the graph. A self-loop of the layer's own making weighs 1.

    Args:
        edge_index: the links of the graph, ``[2, edges]``.
        weight: their weights, ``[edges]``.

    Example:
        >>> links = LinkWeights(torch.tensor([[0, 1], [1, 0]]), torch.tensor([0.9, 0.2]))
        >>> links.of(torch.tensor([[1, 0, 0, 1], [0, 1, 0, 1]]))
        tensor([0.2000, 0.9000, 1.0000, 1.0000])
    """

    edge_index: Tensor
    weight: Tensor

    def __post_init__(self) -> None:
        if self.weight.shape != self.edge_index.shape[1:]:
            raise GraphError(
                f"{tuple(self.weight.shape)} weights for {self.edge_index.size(1)} links",
                "give one weight for every column of edge_index",
            )

    @cached_property
    def _nodes(self) -> int:
        return int(self.edge_index.max()) + 1 if self.edge_index.numel() else 0

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        """Keys of the links in ascending order, one end mark, and the link that each belongs to."""
        keys, order = torch.sort(self._keys(_plain(self.edge_index)), stable=True)
        return (
            torch.cat([keys, keys.new_full((1,), _NO_LINK)]),
            torch.cat([order, order.new_full((1,), keys.numel())]),
        )

    def _keys(self, links: Tensor) -> Tensor:  # [2, links] -> [links]
        inside = (links < self._nodes).all(dim=0)
        return torch.where(inside, links[0] * self._nodes + links[1], -1)

    def of(
        self, edge_index: Tensor, *, own_loops: bool = False, layer: str = "a layer"
    ) -> Tensor:  # [2, m] -> [m]
        """Weights of a layer's links.

        Args:
            edge_index: the links that the layer sends messages along.
            own_loops: all self-loops are the layer's own, also where the graph has one.
            layer: its name, for the message of the error.

        Raises:
            ModelError: where the layer uses a link that the graph does not have.
        """
        links = _plain(edge_index)
        if not own_loops and torch.equal(links, _plain(self.edge_index)):
            return self.weight
        keys, order = self._sorted
        known = (links[0] != links[1]) | (not own_loops)
        wanted, asked = torch.sort(torch.where(known, self._keys(links), -1), stable=True)
        copy = torch.arange(len(wanted), device=wanted.device) - torch.searchsorted(wanted, wanted)
        place = (torch.searchsorted(keys, wanted) + copy).clamp_max(len(keys) - 1)
        found = keys[place] == wanted
        _refuse_unknown(links[:, asked[~found]], layer)
        self._refuse_ambiguous(wanted, layer)
        weight = torch.cat([self.weight, self.weight.new_ones(1)])  # the end mark: weight 1
        link = torch.where(found, order[place], order[-1])
        return weight[link[torch.argsort(asked)]]

    def _refuse_ambiguous(self, wanted: Tensor, layer: str) -> None:  # ascending keys
        keys, order = self._sorted
        weight = self.weight[order[:-1]]
        changes = (keys[1:-1] == keys[:-2]) & (weight[1:] != weight[:-1])
        if not changes.any():
            return
        mixed = keys[1:-1][changes]
        missing = _copies(keys, mixed) != _copies(wanted, mixed)
        missing &= _copies(wanted, mixed) > 0
        if missing.any():
            source, target = divmod(int(mixed[missing][0]), self._nodes)
            raise ModelError(
                f"{layer} uses only some copies of the repeated link {source} -> {target}, "
                "whose weights differ",
                "merge repeated links first: torch_geometric.utils.coalesce",
            )


@contextmanager
def scaled_messages(model: nn.Module, scale: LinkWeights) -> Iterator[None]:
    r"""Multiply every message :math:`m_{vu}` of a network by the weight of its link.

    .. math::
        h_u = \mathrm{update}\left(x_u,\ \mathrm{aggregate}_v\ p_{vu}\, m_{vu}\right)

    Divisors stay those of the observed graph: neighbour counts, GCN degrees, attention.
    The network is as before once the block ends, however it ends.

    Args:
        model: any network of torch_geometric's ``MessagePassing`` layers.
        scale: the weights of the graph's links.

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
                # Such layers put loops of their own in the place of the graph's.
                own = getattr(layer, "add_self_loops", False) and getattr(layer, "normalize", True)
                current[layer] = scale.of(inputs[0], own_loops=own, layer=f"layer {name}")

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


def _plain(edge_index: Tensor) -> Tensor:
    return edge_index.as_subclass(Tensor)


def _copies(keys: Tensor, which: Tensor) -> Tensor:  # ascending keys, [w] -> [w]
    return torch.searchsorted(keys, which, right=True) - torch.searchsorted(keys, which)


def _refuse_unknown(links: Tensor, layer: str) -> None:  # [2, links not found]
    made = links[:, links[0] != links[1]]
    if made.numel():
        source, target = made[:, 0].tolist()
        raise ModelError(
            f"{layer} sends a message along {source} -> {target}, a link that the graph lacks",
            "add the link to edge_index with its probability, or leave the links as they are given",
        )
