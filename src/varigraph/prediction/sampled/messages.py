"""Neighbour sums by a sparse product, where layers know how to form no messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import MessagePassing

from varigraph.moments.messages import LinkWeights, own_loops
from varigraph.moments.running import unchanged
from varigraph.moments.sparse import csr_tensor


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
    known: dict[Any, _SortedLinks] = {}  # layers with the same links share what is made of them
    with ExitStack() as stack:
        for layer in model.modules():
            if isinstance(layer, MessagePassing) and _fusible(layer):
                stack.callback(setattr, layer, "fuse", layer.fuse)
                replace = _Replace(links, layer.fuse, above, known)
                stack.callback(layer.register_propagate_forward_pre_hook(replace).remove)
        yield


def _fusible(layer: Any) -> bool:
    fused = layer.inspector.implements("message_and_aggregate")
    return fused and layer.flow == "source_to_target" and sums(layer)


def sums(layer: Any) -> bool:
    """Whether a layer adds up its messages as they are."""
    return layer.aggr in ("add", "sum", "mean") and not layer.explain


@dataclass(eq=False)
class _SortedLinks:
    """Links by the node that they lead to, and the matrix of their weights.

    Args:
        edge_index: the links, and the version that they were sorted in.
        start: where those of each node start, ``[nodes + 1]``.
        source: where they come from, ``[edges]``.
        order: their places in ``edge_index``; None where all weigh the same.
    """

    edge_index: tuple[Tensor, int]
    start: Tensor
    source: Tensor
    order: Tensor | None
    _weight: tuple[Tensor, int] | None = None
    _matrix: Tensor | None = field(default=None)

    @classmethod
    def of(cls, edge_index: Tensor, nodes: int, *, weighted: bool) -> _SortedLinks:
        """Sort links; numbers of 32 bits take half the memory, and are multiplied faster."""
        short = torch.int32 if max(edge_index.shape[1], nodes) < 2**31 else torch.int64
        order = edge_index[1].to(short).argsort(stable=True)
        source = edge_index[0].index_select(0, order).to(short)
        counts = torch.bincount(edge_index[1], minlength=nodes)
        start = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(short)
        kept = order.to(short) if weighted else None
        return cls((edge_index, edge_index._version), start, source, kept)

    def matrix(self, weight: Tensor | None, like: Tensor) -> Tensor:  # [edges] -> [nodes, nodes]
        """The matrix of these weights, made once for weights that stay as they are."""
        same = self._weight is None if weight is None else unchanged(weight, self._weight)
        if self._matrix is None or not same or self._matrix.dtype != like.dtype:
            self._matrix = self.fresh(weight, like)
            self._weight = None if weight is None else (weight, weight._version)
        return self._matrix

    def fresh(self, weight: Tensor | None, like: Tensor) -> Tensor:  # [edges] -> [nodes, nodes]
        """The matrix of weights that are looked at once."""
        if weight is None or self.order is None:
            values = like.new_ones(len(self.source))
        else:
            values = weight.index_select(0, self.order).to(like.dtype)
        return csr_tensor(self.start, self.source, values, (len(like), len(like)))


class _Replace:
    """A hook that puts a sparse matrix in the place of ``edge_index``."""

    def __init__(
        self, links: LinkWeights | None, fuse: bool, above: int, known: dict[Any, _SortedLinks]
    ) -> None:
        self._links, self._fuse, self._above, self._known = links, fuse, above, known

    def __call__(self, layer: Any, inputs: tuple[Any, Any, dict[str, Any]]) -> Any:
        edge_index, size, kwargs = inputs
        x, weight = _features(kwargs.get("x")), kwargs.get("edge_weight")
        layer.fuse = x is not None and size is None and _listed(edge_index) and _scalar(weight)
        if x is None or not layer.fuse or _bytes(edge_index, x) < self._above:
            layer.fuse = self._fuse
            return None
        weighted = weight is not None or self._links is not None
        links = self._sorted(edge_index, len(x), weighted=weighted)
        if self._links is None:
            matrix = links.matrix(weight, x)
        else:
            coins = self._links.of(edge_index, own_loops=own_loops(layer))
            matrix = links.fresh(coins if weight is None else weight * coins, x)
        return matrix, None, {**kwargs, "edge_weight": None} if weight is not None else kwargs

    def _sorted(self, edge_index: Tensor, nodes: int, *, weighted: bool) -> _SortedLinks:
        own = self._known.get(self)
        for links in (own, *self._known.values()):
            if links is None or (weighted and links.order is None):
                continue
            if unchanged(edge_index, links.edge_index):
                self._known[self] = links
                return links
        self._known.pop(self, None)
        self._known[self] = _SortedLinks.of(edge_index, nodes, weighted=weighted)
        return self._known[self]


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
