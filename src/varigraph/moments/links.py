"""Links that exist with a known probability."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from varigraph.errors import GraphError, ModelError, OptionError
from varigraph.moments.coins import Coins, coins_of

Reading = Literal["bernoulli", "weight"]


class LinkProbabilities:
    """The chance of every link, found by its two ends.

    Looking links up by their ends, not by their position, keeps this right for models that sort
    or drop links on the way, and for layers that add self-loops, which are certain. A link that is
    listed more than once has one chance (``check_graph`` sees to it).

    Args:
        edge_index: links as the data lists them, ``[2, edges]``.
        prob: chance of each, ``[edges]``.
        nodes: number of nodes.
        reading: ``"bernoulli"``, a coin that removes the message, or ``"weight"``, a factor on it.
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
                'links="bernoulli" (a coin per link) or links="weight" (Theorem 1 as printed)',
            )
        if prob.shape != edge_index.shape[1:]:
            raise GraphError(
                f"{tuple(prob.shape)} probabilities for {edge_index.shape[1]} links",
                "give one for every column of edge_index",
            )
        self.nodes, self.reading, self.used = nodes, reading, False
        self._listed, self._prob = plain(edge_index), prob

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
        loop = links[0] == links[1]
        if not own_loops and links.shape == self._listed.shape and torch.equal(links, self._listed):
            return self._prob
        edge = self._edge_of(links)
        _refuse_unknown(links[:, (edge < 0) & ~loop])
        edge = torch.where(loop, -1, edge) if own_loops else edge
        return torch.cat([self._prob, self._prob.new_ones(1)])[edge]

    @cached_property
    def uncertain(self) -> bool:
        """Whether coins decide about any link."""
        return self.reading == "bernoulli" and bool((self.coins.prob < 1).any())

    @cached_property
    def coins(self) -> Coins:
        """The coins behind the links: one for both directions where their chances agree."""
        return coins_of(self._listed, self._prob, self.nodes)

    def coin_of(self, edge_index: Tensor) -> Tensor:  # [2, m] -> [m]
        """Number of the coin that decides about each of a layer's links; -1 for those it adds."""
        none = self.coins.of_edge.new_full((1,), -1)
        return torch.cat([self.coins.of_edge, none])[self._edge_of(plain(edge_index))]

    def _edge_of(self, links: Tensor) -> Tensor:  # [2, m] -> [m]
        """Which of the listed links each one is; -1 where it is none of them."""
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


def _refuse_unknown(links: Tensor) -> None:  # [2, links not found]
    if links.shape[1] > 0:
        source, target = links[:, 0].tolist()
        raise ModelError(
            f"the model made the link {source} -> {target}, whose probability is not in "
            "data.edge_prob",
            "give every link that the model uses to the graph, with its probability",
        )
