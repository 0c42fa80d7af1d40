"""Links that exist with a known probability, and the coins that decide about them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, get_args

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from varigraph.choices import Reading
from varigraph.errors import GraphError, ModelError, OptionError


@dataclass(frozen=True, eq=False)
class Coins:
    """Independent coins, each of which decides about one link.

    Args:
        prob: chance of each, ``[coins]``.
        source: where its link starts, ``[coins]``; the lower number where it goes both ways.
        target: where its link ends, ``[coins]``.
        both_ways: whether it decides about both directions, ``[coins]``.
        of_edge: which coin decides about each column of ``edge_index``, ``[edges]``.
    """

    prob: Tensor
    source: Tensor
    target: Tensor
    both_ways: Tensor
    of_edge: Tensor


def coins_of(edge_index: Tensor, prob: Tensor, nodes: int) -> Coins:  # [2, edges], [edges]
    r"""One coin for :math:`u \to v` and :math:`v \to u` where their chances agree, else one each.

    A link that is listed more than once has one coin.

    Args:
        edge_index: links as the data lists them.
        prob: chance of each; the same wherever a link is repeated (``check_graph`` sees to it).
        nodes: number of nodes.

    Example:
        >>> links = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> coins_of(links, torch.tensor([0.5, 0.5, 0.7, 0.8]), nodes=3).of_edge
        tensor([0, 0, 1, 2])
    """
    source, target = edge_index.as_subclass(Tensor)
    low, high = torch.minimum(source, target), torch.maximum(source, target)
    pairs, pair = torch.unique(low * nodes + high, return_inverse=True)
    smallest, largest = (
        prob.new_zeros(len(pairs)).scatter_reduce(0, pair, prob, reduce, include_self=False)
        for reduce in ("amin", "amax")
    )
    backward = (source > target).long()
    split = (smallest != largest)[pair]
    keys, coin = torch.unique(2 * pair + split * backward, return_inverse=True)
    first = _first(coin, len(keys))  # [coins]
    directions = _first(2 * pair + backward, 2 * len(pairs)) < len(pair)
    both = directions.view(-1, 2).all(1)[pair] & ~split
    return Coins(
        prob=prob[first],
        source=torch.where(both, low, source)[first],
        target=torch.where(both, high, target)[first],
        both_ways=both[first],
        of_edge=coin,
    )


def _first(group: Tensor, groups: int) -> Tensor:  # [edges] -> [groups]
    """Number of the first edge of each group; the number of edges where there is none."""
    edges = torch.arange(len(group), device=group.device)
    return edges.new_full((groups,), len(group)).scatter_reduce(0, group, edges, "amin")


@dataclass(frozen=True, eq=False)
class CountedPairs:
    """MergedLinks of nodes, and how many links join each.

    Args:
        target: node that receives, sorted, ``[pairs]``, in 32 bits.
        source: node that sends, ``[pairs]``, in 32 bits.
        copies: number of links, ``[pairs]``.
    """

    target: Tensor
    source: Tensor
    copies: Tensor

    def per_target(self, nodes: int) -> Tensor:  # [nodes]
        """Number of links that reach each node."""
        return self.copies.new_zeros(nodes).index_add_(0, self.target, self.copies)


def counted(target: Tensor, source: Tensor, nodes: int) -> CountedPairs:
    """MergedLinks without anything else that belongs to them: sorted in place, in little memory.

    Args:
        target: node that receives, ``[links]``.
        source: node that sends, ``[links]``.
        nodes: number of nodes.
    """
    keys = _sorted(torch.add(source, target, alpha=nodes))
    copies = torch.ones_like(keys, dtype=torch.int32)
    if bool((keys[1:] == keys[:-1]).any()):
        keys, copies = torch.unique_consecutive(keys, return_counts=True)
    first = (keys // nodes).int()
    return CountedPairs(first, keys.remainder_(nodes).int(), copies)


def _sorted(keys: Tensor) -> Tensor:
    if keys.device.type != "cpu":
        return keys.sort().values
    keys.numpy().sort()  # in place, and several times faster than torch's
    return keys


@dataclass(frozen=True, eq=False)
class MergedLinks:
    """MergedLinks of nodes, and which link is which of them.

    Args:
        target: node that receives, sorted, ``[pairs]``.
        source: node that sends, ``[pairs]``.
        order: links in the order of the pairs, ``[links]``.
        pair: number of the pair of each link in that order, ``[links]``; None where no link is
            listed twice.
    """

    target: Tensor
    source: Tensor
    order: Tensor
    pair: Tensor | None

    def added(self, of_link: Tensor) -> Tensor:  # [links] -> [pairs]
        """The sum of what the links of a pair have."""
        sorted_ = of_link[self.order]
        if self.pair is None:
            return sorted_
        return sorted_.new_zeros(len(self.target)).index_add_(0, self.pair, sorted_)

    def first(self, of_link: Tensor) -> Tensor:  # [links] -> [pairs]
        """What one link of each pair has."""
        sorted_ = of_link[self.order]
        if self.pair is None:
            return sorted_
        return sorted_.new_zeros(len(self.target)).index_copy_(0, self.pair, sorted_)


def merged(target: Tensor, source: Tensor, nodes: int) -> MergedLinks:
    """One pair for all links between the same two nodes in the same direction.

    Args:
        target: node that receives, ``[links]``.
        source: node that sends, ``[links]``.
        nodes: number of nodes.
    """
    keys, order = (target.long() * nodes + source).sort()
    other = torch.ones_like(keys, dtype=torch.bool)
    torch.ne(keys[1:], keys[:-1], out=other[1:])
    pair = None if bool(other.all()) else other.cumsum(0) - 1
    distinct = keys if pair is None else keys[other]
    return MergedLinks(distinct // nodes, distinct % nodes, order, pair)


def each_once(target: Tensor, source: Tensor, weight: Tensor, nodes: int) -> Tensor:
    """Weights that add up, over the copies of a link, to the weight of one."""
    _, pair, copies = torch.unique(target * nodes + source, return_inverse=True, return_counts=True)
    total = weight.new_zeros(len(copies)).index_add_(0, pair, weight)
    if not torch.allclose(total[pair], weight * copies[pair]):
        raise ModelError(
            "a layer takes the largest message, and a link is listed twice with other weights",
            "merge repeated links first: torch_geometric.utils.coalesce",
        )
    share: Tensor = weight / copies[pair]
    return share


class LinkProbabilities:
    """The chance of every link, found by its two ends.

    Looking links up by their ends, not by their position, keeps this right for models that sort
    or drop links on the way, and for layers that add self-loops, which are certain. A link that is
    listed more than once has one chance (``check_graph`` sees to it).

    Args:
        edge_index: links as the data lists them, ``[2, edges]``.
        prob: chance of each, ``[edges]``.
        nodes: number of nodes.
        reading: ``"removed"``, a coin that takes the link out of the graph, ``"bernoulli"``, one
            that silences its message, or ``"weight"``, a factor on that.
    """

    def __init__(
        self,
        edge_index: Tensor,  # [2, edges]
        prob: Tensor,  # [edges]
        nodes: int,
        reading: Reading = "bernoulli",
    ) -> None:
        if reading not in get_args(Reading):
            raise OptionError(
                f"links={reading!r} is not a reading of an uncertain link",
                'links="removed" (the graph without it), links="bernoulli" (its message silenced) '
                'or links="weight" (Theorem 1 as printed)',
            )
        if prob.shape != edge_index.shape[1:]:
            raise GraphError(
                f"{tuple(prob.shape)} probabilities for {edge_index.shape[1]} links",
                "give one for every column of edge_index",
            )
        self.nodes, self.reading, self.used = nodes, reading, False
        self._listed, self._prob = plain(edge_index), prob
        self._looked_up: list[tuple[Tensor, int, Tensor]] = []

    @property
    def tossed(self) -> bool:
        """Whether the numbers are what coins show: here they are chances."""
        return False

    @property
    def listed(self) -> tuple[Tensor, Tensor]:  # [2, edges], [edges]
        """The links as the data lists them, and the chance of each."""
        return self._listed, self._prob

    def of(self, edge_index: Tensor, *, own_loops: bool = False) -> Tensor:  # [2, m] -> [m]
        """Chance of each of a layer's links; self-loops that the data lacks are certain.

        Args:
            edge_index: the links that a layer sends messages along.
            own_loops: all self-loops are the layer's own and certain, whatever the data lists.
        """
        self.used = True
        links = plain(edge_index)
        if not own_loops and links.shape == self._listed.shape and torch.equal(links, self._listed):
            return self._prob
        return self.at(self.entries(links, own_loops=own_loops))

    def entries(self, links: Tensor, *, own_loops: bool = False) -> Tensor:  # [2, m] -> [m]
        """Which of the listed links each of a layer's is; their number for those it adds.

        Args:
            links: that a layer sends messages along.
            own_loops: as in :meth:`of`.
        """
        loop, edge = links[0] == links[1], self._edge_of(links)
        _refuse_unknown(links[:, (edge < 0) & ~loop])
        certain = (edge < 0) | loop if own_loops else edge < 0
        return torch.where(certain, self._listed.shape[1], edge)

    def at(self, entries: Tensor) -> Tensor:  # [m] -> [m]
        """The chances of :meth:`entries`."""
        return torch.cat([self._prob, self._prob.new_ones(1)]).index_select(0, entries)

    @cached_property
    def uncertain(self) -> bool:
        """Whether coins decide about any link."""
        return self.reading != "weight" and bool((self._prob < 1).any())

    @cached_property
    def coins(self) -> Coins:
        """The coins behind the links: one for both directions where their chances agree."""
        return coins_of(self._listed, self._prob, self.nodes)

    def coin_of(self, edge_index: Tensor) -> Tensor:  # [2, m] -> [m]
        """Number of the coin that decides about each of a layer's links; -1 for those it adds."""
        none = self.coins.of_edge.new_full((1,), -1)
        return torch.cat([self.coins.of_edge, none])[self._edge_of(plain(edge_index))]

    @cached_property
    def repeats(self) -> bool:
        """Whether a link is listed more than once."""
        keys = self._sorted[0]
        return bool((keys[1:] == keys[:-1]).any())

    def places(self, edge_index: Tensor) -> Tensor:  # [2, m] -> [m]
        """Which of the listed links each of a layer's links is; -1 where it is none of them."""
        return self._edge_of(plain(edge_index))

    def _edge_of(self, links: Tensor) -> Tensor:  # [2, m] -> [m]
        """Which of the listed links each one is; -1 where it is none of them.

        A layer asks for the same links in every run: they are looked up once.
        """
        if not (self._looked_up and unchanged(links, self._looked_up[0][:2])):
            self._looked_up[:] = [(links, links._version, self._found(links))]
        return self._looked_up[0][2]

    def _found(self, links: Tensor) -> Tensor:  # [2, m] -> [m]
        keys, order = self._sorted
        wanted = torch.where((links < self.nodes).all(0), links[0] * self.nodes + links[1], -1)
        place = torch.searchsorted(keys, wanted)
        return torch.where(keys[place] == wanted, order[place], -1)

    def drawn(self, prob: Tensor) -> LinkProbabilities:  # [edges]
        """The same links with other numbers: what coins show, one for each listed link."""
        self._sorted  # noqa: B018 - sorted once for all draws
        other = copy.copy(self)
        other._prob = prob
        return other

    def held_at_mean(self) -> LinkProbabilities:
        """The same chances as plain weights: what a coin is on average."""
        return LinkProbabilities(self._listed, self._prob, self.nodes, "weight")

    @cached_property
    def _sorted(self) -> tuple[Tensor, Tensor]:
        """Keys of the links in ascending order with their places, and a mark at the end."""
        keys, order = (self._listed[0] * self.nodes + self._listed[1]).sort()
        end = keys.new_full((1,), torch.iinfo(keys.dtype).max)
        return torch.cat([keys, end]), torch.cat([order, order.new_full((1,), -1)])


def plain(edge_index: Tensor) -> Tensor:
    """An ``EdgeIndex`` as the tensor that it is."""
    return edge_index.as_tensor() if isinstance(edge_index, EdgeIndex) else edge_index


def unchanged(tensor: Tensor, before: tuple[Tensor, int] | None) -> bool:
    """Whether a tensor holds the same numbers as one seen before, with its version then."""
    if before is None or before[0]._version != before[1]:
        return False
    if tensor is before[0] or tensor.layout != torch.strided:
        return tensor is before[0]
    return torch.equal(tensor, before[0])


def _refuse_unknown(links: Tensor) -> None:  # [2, links not found]
    if links.shape[1] > 0:
        source, target = links[:, 0].tolist()
        raise ModelError(
            f"the model made the link {source} -> {target}, whose probability is not in "
            "data.edge_prob",
            "give every link that the model uses to the graph, with its probability",
        )


@dataclass(frozen=True, eq=False)
class Seen:
    r"""What outputs see of single messages: :math:`T_{uv} m_j` for the link j -> v.

    Args:
        row: number of the output node, ``[walks]``.
        link: number of the link, ``[walks]``; every pair of the two once, in ascending order.
        value: what is seen, ``[walks, outputs]``.
        own: what the link's own coin moves beside that, of the same shape.
        rows: number of output nodes.
    """

    row: Tensor
    link: Tensor
    value: Tensor
    own: Tensor
    rows: int


class Moved(NamedTuple):
    """Responses of outputs to coins, ``[walks]``, ``[walks]`` and ``[walks, outputs]``."""

    row: Tensor
    coin: Tensor
    slope: Tensor


class Rest(NamedTuple):
    """Covariance of outputs that no coin causes alone, ``[rows, outputs, outputs]``."""

    covariance: Tensor
