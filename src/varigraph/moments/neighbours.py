"""The neighbours that a layer sums over: expected weights, their squares, and coins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor
from torch_geometric.utils import is_torch_sparse_tensor, to_edge_index

from varigraph.errors import MissingRuleError, ModelError
from varigraph.kernels import fused
from varigraph.moments.affine import Affine
from varigraph.moments.gaussian import ByRows, Gaussian
from varigraph.moments.links import (
    LinkProbabilities,
    Moved,
    Rest,
    Seen,
    counted,
    each_once,
    merged,
    plain,
)
from varigraph.moments.propagation import current, recorded
from varigraph.moments.renumbering import same_nodes
from varigraph.moments.tape import Sum
from varigraph.sparse import Sparse, by_mkl


@dataclass(frozen=True, eq=False)
class Neighbours:
    r"""The random sum :math:`y_u = \sum_v S_{uv} x_v`, one entry for every pair of neighbours.

    A coin :math:`z` with chance :math:`p` on a message of weight :math:`w` is :math:`S = z w`:
    :math:`E[S] = p w`, :math:`E[S^2] = p w^2`, :math:`Var[S] = p (1 - p) w^2`. Links listed more
    than once carry the same message, so their weights are added before they are squared.

    Args:
        target: node that receives, sorted, ``[pairs]``.
        source: node that sends, ``[pairs]``.
        weight: weight of the message, ``[pairs]``.
        prob: chance that it is sent, ``[pairs]``, or None where all links are certain.
        nodes: number of nodes.
        coin_of: number of the coin that decides, ``[pairs]``, -1 where none does; None as above.
        senders: number of nodes that send, where it is another: for sums of some nodes only.
    """

    target: Tensor
    source: Tensor
    weight: Tensor
    prob: Tensor | None
    nodes: int
    coin_of: Tensor | None = None
    senders: int | None = None

    #: Whether a coin moves other messages than its own: all must be looked at.
    ties_messages: ClassVar[bool] = False

    def sum(self, x: Gaussian) -> Gaussian:  # [nodes, features] -> [nodes, features]
        r"""Moments of the sum for independent neighbours.

        .. math::
            E[y_u] = \sum_v E[S_{uv}] \mu_v \qquad
            V[y_u] = \sum_v E[S_{uv}^2] \sigma_v^2 + Var[S_{uv}] \mu_v^2

        One coin moves all features of a message at once: sum AFTER the linear map that follows
        (:class:`~varigraph.moments.neighbours.NeighbourSum`), or their correlation is lost.
        """
        if isinstance(x, ByRows):
            messages = x.known
            return x.then(lambda rows: self.rows(rows).sum(messages))
        mean, var = self._independent(x.mean, x.extra if isinstance(x, Affine) else x.var)
        if self.coin is not None:
            var = var + self.moved_by_coins(x.mean)
            if isinstance(x, Affine) and not x.noise.silent:
                # The features' noise is exact only through the mean of the sum; what coins do to
                # it is a source of its own.
                var = var + self.coin @ x.from_features
        out = x.summed(self, mean, var) if isinstance(x, Affine) else Gaussian(mean, var)
        return recorded(out, (x, Sum(self.expected, self)))

    def steps(self, count: int) -> list[Neighbours]:
        """So many sums that follow each other."""
        return [self] * count

    def _independent(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """:math:`E[S] m` and :math:`E[S^2] v`."""
        if var.dim() == 2 and var.stride(0) == 0:  # the same for all nodes
            return self.expected @ mean, self.square_sums * var[:1]
        if self.prob is None and fused(mean, var):
            return self.expected.moments(mean, var)
        return self.expected @ mean, self.square @ var

    def sum_onto(self, own: Gaussian, x: Gaussian) -> Gaussian:  # [nodes, features] each
        """Moments of y plus the sum, written over those of y."""
        return Gaussian(self.expected.onto(own.mean, x.mean), self.square.onto(own.var, x.var))

    def rows(self, rows: slice) -> Neighbours:
        """The sums of some nodes; only their moments can be asked for."""
        first, last = self.expected.start[rows.start], self.expected.start[rows.stop]
        entries = slice(int(first), int(last))
        return Neighbours(
            self.target[entries] - rows.start,
            self.source[entries],
            self.weight[entries],
            None if self.prob is None else self.prob[entries],
            rows.stop - rows.start,
            senders=self.nodes,
        )

    def returning(self, inner: Neighbours) -> Tensor:  # [pairs]
        """Weight in an earlier sum of the way back i -> j of each link j -> i that shares its coin.

        On the walk i–j–i the same coin occurs twice, and a coin times itself is the coin.
        """
        same, place = self.ways_back(inner)
        if not bool(same.any()):
            return torch.zeros_like(self.weight)
        return torch.where(same, inner.weight[place], 0)

    def ways_back(self, inner: Neighbours) -> tuple[Tensor, Tensor]:  # [pairs], [pairs]
        """Whether each link j -> i has a way back in another sum with the same coin, and which."""
        if self.coin_of is None or inner.coin_of is None or len(inner.weight) == 0:
            none = torch.zeros_like(self.target, dtype=torch.long)
            return none.bool(), none
        keys = inner.keys
        wanted = self.source.long() * self.nodes + self.target
        place = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
        same = (keys[place] == wanted) & (self.coin_of == inner.coin_of[place])
        return same & (self.coin_of >= 0) & (self.source != self.target), place

    def returned(self, inner: Neighbours) -> Tensor:  # [pairs]
        r"""What such walks carry more than a product of means: :math:`p (1 - p) w_{ij} w_{ji}`."""
        if self.prob is None:
            return torch.zeros_like(self.weight)
        return self.prob * (1 - self.prob) * self.weight * self.returning(inner)

    @property
    def sending(self) -> Sparse | None:
        """Expected weights that a coin at the sender moves too, by its degree; None without."""
        return None

    @property
    def of_degree(self) -> Tensor:  # [pairs]
        """Share by which the coin of a link moves all that its target sends."""
        return torch.zeros_like(self.weight)

    @cached_property
    def keys(self) -> Tensor:  # [pairs], ascending
        """Target and source of each link in one number."""
        return self.target.long() * (self.senders or self.nodes) + self.source

    @cached_property
    def tossed(self) -> Tensor:  # [pairs]
        """Whether a coin decides about each link."""
        none = torch.zeros_like(self.target, dtype=torch.bool)
        return none if self.coin_of is None else self.coin_of >= 0

    @cached_property
    def toss(self) -> Tensor:  # [pairs]
        """Variances of the coins."""
        assert self.prob is not None
        return self.prob * (1 - self.prob)

    def moved_by_coins(self, mean: Tensor) -> Tensor:  # [nodes, features] -> [nodes, features]
        """Variance that coins cause in the sum of messages of these means."""
        assert self.coin is not None
        return self.coin @ mean.square()

    def moved_together(self, mean: Tensor) -> Tensor:  # -> [nodes, features, features]
        """The same with the covariances of a node's features."""
        assert self.coin is not None
        both = mean[:, :, None] * mean[:, None, :]
        return (self.coin @ both.flatten(1)).view_as(both)

    def differences(self, mean: Tensor) -> Tensor:  # [nodes, features] -> [pairs, features]
        r"""Response of the sum at the target of each link to its coin, messages at their means.

        :math:`D_e = E[y | z_e = 1] - E[y | z_e = 0]`, here the message itself.
        """
        return self.weight[:, None] * mean[self.source]

    def again(self, here: Tensor, there: Tensor) -> Tensor:  # [pairs, features] each
        r""":math:`D_e[\delta]` of each coin, where messages at its two ends respond too."""
        return self.weight[:, None] * there

    def between_ends(self, here: Tensor, there: Tensor) -> Tensor:  # [pairs, features] each
        r""":math:`E[S] \delta + (1 - 2 p_e) D_e[\delta]` at each link's target."""
        assert self.prob is not None
        straight = self.expected.values[:, None] * there
        if self.loops is not None:
            straight = straight + self.loops[self.target] * here
        return straight + (1 - 2 * self.prob)[:, None] * self.again(here, there)

    def to_coins(self, seen: Seen) -> Iterator[Moved | Rest]:
        """How outputs respond to coins through what they see of single messages."""
        assert self.coin_of is not None
        slope = self.weight[seen.link, None].to(seen.value) * seen.value + seen.own
        yield Moved(seen.row, self.coin_of[seen.link], slope)

    @cached_property
    def loops(self) -> Tensor | None:
        """Expected weight of each node's message to itself, ``[nodes, 1]``; None without loops."""
        loop = self.source == self.target
        if not bool(loop.any()):
            return None
        weight = self.weight.new_zeros(self.nodes, 1)
        weight[self.target[loop], 0] = self.expected.values[loop]
        return weight

    @cached_property
    def expected(self) -> Sparse:
        """Expected weights :math:`E[S]`."""
        return self._matrix(self.weight if self.prob is None else self.weight * self.prob)

    @cached_property
    def square(self) -> Sparse:
        """Expected squares of the weights, :math:`E[S^2]`."""
        square = self.weight.square()
        return self._matrix(square if self.prob is None else square * self.prob)

    @cached_property
    def square_sums(self) -> Tensor:
        """Sums of the expected squares over each node's neighbours, ``[nodes, 1]``."""
        zeros = self.weight.new_zeros(self.nodes)
        return zeros.index_add_(0, self.target, self.square.values)[:, None]

    @cached_property
    def coin(self) -> Sparse | None:
        """Variances of the weights, :math:`Var[S]`; None where all links are certain."""
        if self.prob is None:
            return None
        return self._matrix(self.weight.square() * self.prob * (1 - self.prob))

    def _matrix(self, values: Tensor) -> Sparse:
        return Sparse(self.target, self.source, values, (self.nodes, self.senders or self.nodes))

    def with_self(self, weight: Tensor) -> Neighbours:
        """The same sum with the node itself in it, for certain.

        A loop that the data lists, with its chance, stays a message of its own: where there is
        one, its coin and the certain part are merged into moments that no single coin has.
        """
        own = torch.arange(self.nodes, device=self.target.device)
        prob, coin_of = self.prob, self.coin_of
        if prob is not None and bool(((self.source == self.target) & (prob < 1)).any()):
            raise MissingRuleError(
                "a layer adds each node to its own sum, and the graph has uncertain self-loops",
                "drop the self-loops (torch_geometric.utils.remove_self_loops), or take "
                'method="sampled"',
            )
        if prob is not None and coin_of is not None:
            prob = torch.cat([prob, prob.new_ones(self.nodes)])
            coin_of = torch.cat([coin_of, coin_of.new_full((self.nodes,), -1)])
        return _merged(
            torch.cat([self.target, own]),
            torch.cat([self.source, own]),
            torch.cat([self.weight, weight.expand(self.nodes).to(self.weight)]),
            prob,
            self.nodes,
            coin_of,
        )


def neighbours_of(
    edge_index: Tensor,  # [2, edges], EdgeIndex, or a sparse adjacency [targets, sources]
    weight: Tensor | None,  # [edges]
    nodes: int,
    *,
    dtype: torch.dtype,
    flow: str = "source_to_target",
    average: bool = False,
    largest: bool = False,
    links: LinkProbabilities | None = None,
    certain_loops: bool = False,
) -> Neighbours:
    """Neighbours as a message-passing layer sees them.

    Args:
        edge_index: the links, in any form that torch_geometric takes.
        weight: weights of the messages, all 1 by default.
        nodes: number of nodes.
        dtype: number type of the weights.
        flow: the layer's direction of flow.
        average: divide by the number of neighbours in the observed graph.
        largest: for the largest message, not the sum: repeated links count once.
        links: chances of the links.
        certain_loops: self-loops are the layer's own, whatever the data says about them.
    """
    (first, second), weight = as_edge_index(edge_index, weight, flow)
    source, target = (first, second) if flow == "source_to_target" else (second, first)
    if weight is None and links is None:
        pairs = counted(target, source, nodes)
        copies = (pairs.copies.clamp_max(1) if largest else pairs.copies).to(dtype)
        counts = pairs.per_target(nodes).to(dtype)[pairs.target] if average else 1
        return Neighbours(pairs.target, pairs.source, copies / counts, None, nodes)
    weight = torch.ones_like(first, dtype=dtype) if weight is None else weight.to(dtype)
    if average:
        weight = weight / torch.bincount(target, minlength=nodes).clamp(min=1)[target]
    prob = coin_of = None
    if links is not None:
        same_nodes("a layer", {nodes}, links)
        prob = links.of(torch.stack([first, second]), own_loops=certain_loops).to(dtype)
        if links.reading == "weight":
            weight, prob = weight * prob, None
        else:
            coin_of = torch.where(prob == 1, -1, links.coin_of(torch.stack([first, second])))
    if largest:
        weight = each_once(target, source, weight, nodes)
    return _merged(target, source, weight, prob, nodes, coin_of)


def _merged(
    target: Tensor,
    source: Tensor,
    weight: Tensor,
    prob: Tensor | None,
    nodes: int,
    coin_of: Tensor | None,
) -> Neighbours:
    """One entry per pair of nodes, sorted by target; weights of repeated links are added."""
    pairs = merged(target, source, nodes)
    # Repeated links share one coin: check_graph has seen to it that their chances agree.
    return Neighbours(
        pairs.target,
        pairs.source,
        pairs.added(weight),
        None if prob is None else pairs.first(prob),
        nodes,
        None if coin_of is None else pairs.first(coin_of),
    )


def as_edge_index(
    edge_index: Tensor, weight: Tensor | None, flow: str
) -> tuple[Tensor, Tensor | None]:
    """Any adjacency of torch_geometric as plain ``[2, edges]`` and weights."""
    if not isinstance(edge_index, Tensor):
        raise ModelError(
            f"a layer was given its links as {type(edge_index).__name__}",
            "give them as edge_index [2, edges], an EdgeIndex or a torch sparse tensor",
        )
    if not is_torch_sparse_tensor(edge_index):
        return plain(edge_index), weight
    if flow != "source_to_target":
        raise ModelError(
            "a layer with flow='target_to_source' was given a sparse adjacency",
            "transpose the adjacency and leave the flow as it is, as torch_geometric asks",
        )
    (target, source), values = to_edge_index(edge_index)
    return torch.stack([source, target]), values


class NeighbourSum(Gaussian):
    """A neighbour sum that waits for the linear map behind it.

    ``W (sum S x) = sum S (W x)``: mapping the messages first keeps the correlation between the
    features that one coin moves, and is less work where the map narrows.
    """

    neighbours: Neighbours
    x: Gaussian

    def __init__(self, neighbours: Neighbours, x: Gaussian) -> None:
        self.__dict__.update(neighbours=neighbours, x=x)

    def sums_first(self, width: int) -> bool:
        """Whether to sum before a map to so many features: less work where the map widens.

        Only where all links are certain, and where nobody wants to know what responds to what.
        """
        narrower = self.x.shape[-1] < width
        return narrower and self.neighbours.prob is None and current().tape is None

    def goes_onto(self, own: Gaussian, width: int) -> bool:
        """Whether the sum of so many mapped features may be written over the node's own value.

        On a processor that is a pass over memory less, where no coins are tossed.
        """
        writable = type(own) is Gaussian and 0 not in (*own.mean.stride(), *own.var.stride())
        allowed = current().overwrite and by_mkl(own.mean)
        return writable and allowed and self.neighbours.prob is None and not self.sums_first(width)

    @cached_property
    def _moments(self) -> Gaussian:
        return self.neighbours.sum(self.x)

    @property
    def mean(self) -> Tensor:
        """Mean of the sum, without a map."""
        return self._moments.mean

    @property
    def var(self) -> Tensor:
        """Variance of the sum, without a map."""
        return self._moments.var
