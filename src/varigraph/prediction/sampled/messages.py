"""Neighbour sums by a sparse product, where layers know how to form no messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import MessagePassing

from varigraph.moments.messages import LinkWeights, own_loops
from varigraph.moments.sparse import csr_tensor
from varigraph.prediction.sampled.caches import unchanged


@contextmanager
def summed_messages(
    model: nn.Module, links: LinkWeights | None, *, above: int = 0
) -> Iterator[None]:
    """While this is open, layers with a fused way are given a sparse matrix for their links.

    torch_geometric's own short cut (``message_and_aggregate``): the same sums, several times
    faster. Weights of links become entries of the matrix. Whoever opens this compares one run with
    the plain way first: a layer may do more with its messages than its fused way tells.

    Args:
        model: the network. Layers without a fused way stay as they are.
        links: weights of the links, where the graph has them.
        above: only where the messages of a layer would take more than so many bytes.
    """
    with ExitStack() as stack:
        for layer in model.modules():
            if isinstance(layer, MessagePassing) and _fusible(layer):
                stack.callback(setattr, layer, "fuse", layer.fuse)
                replace = _Replace(links, layer.fuse, above)
                stack.callback(layer.register_propagate_forward_pre_hook(replace).remove)
        yield


def _fusible(layer: Any) -> bool:
    return (
        layer.inspector.implements("message_and_aggregate")
        and layer.flow == "source_to_target"
        and layer.aggr in ("add", "sum", "mean")
        and not layer.explain
    )


class _Replace:
    """A hook that puts a sparse matrix in the place of ``edge_index``."""

    def __init__(self, links: LinkWeights | None, fuse: bool, above: int) -> None:
        self._links, self._fuse, self._above = links, fuse, above
        self._edge_index: tuple[Tensor, int] | None = None
        self._weight: tuple[Tensor, int] | None = None
        self._matrix: Tensor | None = None
        self._order = self._start = self._source = torch.empty(0)

    def __call__(self, layer: Any, inputs: tuple[Any, Any, dict[str, Any]]) -> Any:
        edge_index, size, kwargs = inputs
        x, weight = _features(kwargs.get("x")), kwargs.get("edge_weight")
        layer.fuse = x is not None and size is None and _listed(edge_index) and _scalar(weight)
        if x is None or not layer.fuse or _bytes(edge_index, x) < self._above:
            layer.fuse = self._fuse
            return None
        same_weight = self._weight is None if weight is None else unchanged(weight, self._weight)
        same_links = unchanged(edge_index, self._edge_index)
        if not same_links:
            self._sort(edge_index, len(x))
        if not (same_links and same_weight) or self._links is not None:
            self._build(layer, x, edge_index, weight)
        return self._matrix, None, {**kwargs, "edge_weight": None} if weight is not None else kwargs

    def _build(self, layer: Any, x: Tensor, edge_index: Tensor, weight: Tensor | None) -> None:
        values = x.new_ones(edge_index.shape[1]) if weight is None else weight
        if self._links is not None:
            values = values * self._links.of(edge_index, own_loops=own_loops(layer))
        values = values[self._order].to(x.dtype)
        self._matrix = csr_tensor(self._start, self._source, values, (len(x), len(x)))
        self._weight = None if weight is None else (weight, weight._version)

    def _sort(self, edge_index: Tensor, nodes: int) -> None:
        self._edge_index = edge_index, edge_index._version
        self._order = edge_index[1].argsort(stable=True)
        self._source = edge_index[0][self._order]
        counts = torch.bincount(edge_index[1], minlength=nodes)
        self._start = torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _features(x: Any) -> Tensor | None:
    """The features that messages carry, if all nodes are of one kind."""
    ends = x if isinstance(x, (tuple, list)) else (x,)
    alike = all(end is ends[0] for end in ends if end is not None)
    return ends[0] if alike and isinstance(ends[0], Tensor) and ends[0].dim() == 2 else None


def _bytes(edge_index: Tensor, x: Tensor) -> int:
    """Memory of one message for every link."""
    return edge_index.shape[1] * x.shape[1] * x.element_size()


def _listed(edge_index: Any) -> bool:
    if not isinstance(edge_index, Tensor) or isinstance(edge_index, EdgeIndex):
        return False
    return edge_index.layout == torch.strided


def _scalar(weight: Any) -> bool:
    return weight is None or (isinstance(weight, Tensor) and weight.dim() == 1)
