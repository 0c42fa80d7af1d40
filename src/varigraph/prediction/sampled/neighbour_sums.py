"""Sums over neighbours in runs: weighted by what coins show, done by sparse products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_batchedtensor
from torch.nn import functional as F
from torch_geometric import EdgeIndex
from torch_geometric import nn as gnn
from torch_geometric.nn import MessagePassing

from varigraph.moments import LinkProbabilities
from varigraph.moments.links import plain, unchanged
from varigraph.moments.messages import own_loops
from varigraph.prediction.sampled.tosses import TossedLinks
from varigraph.sparse import Sparse, csr_tensor, made_once, prepare, stand_in_for

#: Layers that divide messages by the degrees of both ends, as far as ``normalize`` does not say no.
NORMALISED = (gnn.GCNConv, gnn.SGConv, gnn.SSGConv, gnn.APPNP, gnn.LGConv, gnn.TAGConv)


class DrawnLinks(TossedLinks):
    """The weights of links in the running pass; hooks stay while draws change.

    One coin decides about both directions of a link, where their chances agree, and about all of
    its listings (:attr:`LinkProbabilities.coins`).

    Args:
        links: the links and their chances, which are the weights where nothing is drawn.
    """

    def __init__(self, links: LinkProbabilities) -> None:
        self._links = self._shown = links
        self.nodes, self.listed, self.repeats = links.nodes, links.listed, links.repeats
        self.places = links.places
        self.met = self.tossed = False
        self._known: dict[tuple[SortedLinks, bool, str], Tensor] = {}

    def show(self, weights: Tensor | None) -> None:  # [edges]
        """Begin a pass with these weights; None for the chances."""
        self._shown = self._links if weights is None else self._links.drawn(weights)
        self.tossed = weights is not None and self._links.reading == "bernoulli"
        self.met = False
        self._known.clear()

    def of(self, edge_index: Tensor, *, own_loops: bool = False) -> Tensor:  # [2, m] -> [m]
        """Weight of each of a layer's links."""
        self.met = True
        return self._shown.of(edge_index, own_loops=own_loops)

    def weights(self, layer: Any, links: SortedLinks) -> Tensor:  # -> [m]
        """What a layer's links weigh in its sums, beside what it weighs them with itself."""
        self.met, key = True, (links, own_loops(layer), self._way(layer))
        if key not in self._known:  # layers alike share them
            there = self._shown.at(links.entries(self._links, own_loops=own_loops(layer)))
            self._known[key] = self._weighed(there, links, self._way(layer))
        return self._known[key]

    def _way(self, layer: Any) -> str:
        """How a layer makes a sum of its messages, as far as it matters here."""
        return "sum"

    def _weighed(self, there: Tensor, links: SortedLinks, way: str) -> Tensor:  # [m] -> [m]
        return there


class LeftLinks(DrawnLinks):
    r"""The weights that make of sums over all links the sums over those that are left.

    .. math::
        \frac{1}{|N'_u|} \sum_{v \in N'_u} m_v = \frac{1}{|N_u|} \sum_{v \in N_u}
        b_{uv} \frac{|N_u|}{|N'_u|}\, m_v

    for means, and for GCN's normalisation a factor of :math:`\sqrt{|N| / |N'|}` for each end.
    Whoever uses them compares one run with the graph that is left: a network may do more with it.
    """

    def show(self, weights: Tensor | None) -> None:  # [edges]
        """Begin a pass on these links; None for all of them."""
        super().show(torch.ones_like(self.listed[1]) if weights is None else weights)

    def _way(self, layer: Any) -> str:
        if isinstance(layer, NORMALISED) and getattr(layer, "normalize", True):
            return "normalised"
        return "mean" if layer.aggr == "mean" else "sum"

    def _weighed(self, there: Tensor, links: SortedLinks, way: str) -> Tensor:  # [m] -> [m]
        if way == "sum":
            return there
        left, all_of_them = links.per_target(there), links.per_target(torch.ones_like(there))
        share = torch.where(left > 0, all_of_them / left, 0)
        if way == "mean":
            return there * share.index_select(0, links.target)
        root = share.sqrt()
        at_target, at_source = (root.index_select(0, end) for end in (links.target, links.source))
        return there * at_target * at_source


@contextmanager
def summed_messages(
    model: nn.Module, links: DrawnLinks | None, *, above: int = 0
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
    known: dict[Any, SortedLinks] = {}  # layers with the same links share what is made of them
    with ExitStack() as stack:
        stack.callback(known.clear)  # it has those as keys that have it
        for layer in model.modules():
            if isinstance(layer, MessagePassing) and _fusible(layer):
                stack.callback(setattr, layer, "fuse", layer.fuse)
                replace = _Replace(links, layer.fuse, above, known)
                stack.callback(layer.register_propagate_forward_pre_hook(replace).remove)
        yield


def only_sums(model: nn.Module) -> bool:
    """Whether all layers that pass messages have a fused way."""
    layers = [layer for layer in model.modules() if isinstance(layer, MessagePassing)]
    return bool(layers) and all(map(_fusible, layers))


def _fusible(layer: Any) -> bool:
    fused = layer.inspector.implements("message_and_aggregate")
    return fused and layer.flow == "source_to_target" and sums(layer)


def sums(layer: Any) -> bool:
    """Whether a layer adds up its messages as they are."""
    return layer.aggr in ("add", "sum", "mean") and not layer.explain


@dataclass(eq=False)
class SortedLinks:
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
    _entries: dict[bool, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, edge_index: Tensor, nodes: int, *, weighted: bool) -> SortedLinks:
        """Sort links; on a GPU they stay sorted as long as they are there, as its neighbours do."""

        def build() -> tuple[Tensor, Tensor, Tensor | None]:
            return _by_target(edge_index, nodes, weighted=weighted)

        keep = edge_index.is_cuda
        parts = made_once(edge_index, ("sorted", nodes, weighted), build) if keep else build()
        return cls((edge_index, edge_index._version), *parts)

    def matrix(self, weight: Tensor | None, like: Tensor) -> Tensor:  # [edges] -> [nodes, nodes]
        """The matrix of these weights, made once for weights that stay as they are."""
        same = self._weight is None if weight is None else unchanged(weight, self._weight)
        if self._matrix is None or not same or self._matrix.dtype != like.dtype:
            self._matrix = self.fresh(weight, like)
            self._weight = None if weight is None else (weight, weight._version)
        else:
            prepare(self._matrix)  # it is used again, and so worth it
        return self._matrix

    def fresh(self, weight: Tensor | None, like: Tensor) -> Tensor:  # [edges] -> [nodes, nodes]
        """The matrix of weights that are looked at once."""
        if weight is None or self.order is None:
            return self.filled(like.new_ones(len(self.source)))
        return self.filled(self.sorted(weight).to(like.dtype))

    def filled(self, values: Tensor) -> Tensor:  # [edges] -> [nodes, nodes]
        """The matrix of weights that are sorted as the links are; of many, what stands for them."""
        nodes = len(self.start) - 1
        if not is_batchedtensor(values):
            return csr_tensor(self.start, self.source, values, (nodes, nodes))
        many = Sparse(self.target, self.source, values, (nodes, nodes), fleeting=True)
        vars(many).update(start=self.start)
        return stand_in_for(many)

    def sorted(self, of_link: Tensor) -> Tensor:  # [edges] -> [edges]
        """What each link has, by the node that it leads to."""
        assert self.order is not None  # they differ
        return of_link.index_select(0, self.order)

    def entries(self, links: LinkProbabilities, *, own_loops: bool) -> Tensor:  # -> [edges]
        """See :meth:`LinkProbabilities.entries`; looked up once."""
        if own_loops not in self._entries:
            found = links.entries(plain(self.edge_index[0]), own_loops=own_loops)
            self._entries[own_loops] = self.sorted(found)
        return self._entries[own_loops]

    @cached_property
    def target(self) -> Tensor:  # [edges]
        """Where they lead to."""
        nodes = torch.arange(len(self.start) - 1, dtype=self.source.dtype, device=self.start.device)
        return nodes.repeat_interleave(self.start.diff(), output_size=len(self.source))

    def per_target(self, there: Tensor) -> Tensor:  # [edges] -> [nodes]
        """How many of the links lead to each node, of those that are there."""
        before = F.pad(there.cumsum(0, dtype=self.start.dtype), (1, 0))
        return before.index_select(0, self.start).diff().to(there)


def _by_target(
    edge_index: Tensor, nodes: int, *, weighted: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Starts, sources and, for links of different weight, places of links by target.

    Numbers of 32 bits take half the memory, and are multiplied faster.
    """
    short = torch.int32 if max(edge_index.shape[1], nodes) < 2**31 else torch.int64
    order = edge_index[1].to(short).argsort(stable=True)
    source = edge_index[0].index_select(0, order).to(short)
    counts = torch.bincount(edge_index[1], minlength=nodes)
    start = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(short)
    return start, source, order.to(short) if weighted else None


class _Replace:
    """A hook that puts a sparse matrix in the place of ``edge_index``."""

    def __init__(
        self, links: DrawnLinks | None, fuse: bool, above: int, known: dict[Any, SortedLinks]
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
            weights = self._links.weights(layer, links)
            own = weights if weight is None else weights * links.sorted(weight)
            matrix = links.filled(own.to(x.dtype))
        return matrix, None, {**kwargs, "edge_weight": None} if weight is not None else kwargs

    def _sorted(self, edge_index: Tensor, nodes: int, *, weighted: bool) -> SortedLinks:
        own = self._known.get(self)
        for links in (own, *self._known.values()):
            if links is None or (weighted and links.order is None):
                continue
            if unchanged(edge_index, links.edge_index):
                self._known[self] = links
                return links
        self._known.pop(self, None)
        self._known[self] = SortedLinks.of(edge_index, nodes, weighted=weighted)
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


#: Layers that map what they have summed over neighbours, and the name of that map.
MAPS = {gnn.SAGEConv: "lin_l", gnn.GraphConv: "lin_rel"}


@contextmanager
def mapped_first(model: nn.Module) -> Iterator[None]:
    r"""While this is open, layers whose map makes features fewer map before they sum.

    :math:`W \sum_v s_{uv} x_v = \sum_v s_{uv} W x_v`: a layer from 256 to 47 features reads a fifth
    for every link. Whoever opens this compares one run with the plain way first.

    Args:
        model: the network. Layers of other kinds stay as they are.
    """
    with ExitStack() as stack:
        for layer in list(model.modules()):
            name = MAPS.get(type(layer), "")
            own = getattr(layer, name, None)
            if isinstance(own, gnn.Linear) and _narrows(layer, own):
                setattr(layer, name, _Shift(own))
                stack.callback(setattr, layer, name, own)
                stack.callback(_map_messages(layer, own).remove)
        yield


def _narrows(layer: Any, own: gnn.Linear) -> bool:
    return sums(layer) and own.weight.shape[0] < own.weight.shape[1]


class _Shift(nn.Module):
    """What is left of a linear map when its matrix has been applied: the bias."""

    def __init__(self, own: gnn.Linear) -> None:
        super().__init__()
        self.own = own

    def forward(self, x: Tensor) -> Tensor:
        """Add it."""
        return x if self.own.bias is None else x + self.own.bias


def _map_messages(layer: Any, own: gnn.Linear) -> Any:
    """Hook in a map of the features that messages carry."""

    def mapped(_: Any, inputs: tuple[Any, Any, dict[str, Any]]) -> Any:
        edge_index, size, kwargs = inputs
        sent, *others = kwargs["x"]
        carried = F.linear(sent, own.weight)
        ends = tuple(carried if end is sent else end for end in others)
        return edge_index, size, {**kwargs, "x": (carried, *ends)}

    return layer.register_propagate_forward_pre_hook(mapped)
