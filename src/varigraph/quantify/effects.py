"""What single measurements and links cause in the answers, in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.prediction.first_order.coins import coin_slopes
from varigraph.prediction.first_order.method import FirstOrder
from varigraph.prediction.first_order.noise_root import NoiseRoot, to_features
from varigraph.prediction.first_order.responses import Responses
from varigraph.prediction.sources.links import CoinShare


@dataclass(frozen=True, eq=False)
class Effects:
    """Variance that single places cause in the answers of a block of nodes.

    Args:
        row: number of the node within its block, ``[effects]``.
        place: what causes it: a node, a feature of a node, or a coin, ``[effects]``.
        variance: in each answer of the node, ``[effects, answers]``, float64.
    """

    row: Tensor
    place: Tensor
    variance: Tensor

    def adding_up_to(self, whole: Tensor) -> tuple[Effects, Tensor]:  # [rows, answers]
        """The same in proportion, so that those in one answer are its whole; and the factors."""
        found = torch.zeros_like(whole).index_add_(0, self.row, self.variance)
        factor = torch.where(found > 0, whole / found, 0)
        return replace(self, variance=self.variance * factor[self.row]), factor

    def by_place(self, places: int) -> Tensor:  # -> [places]
        """What each place causes in all answers together."""
        none = self.variance.new_zeros(places)
        return none.index_add_(0, self.place, self.variance.sum(1))


@dataclass(frozen=True, eq=False)
class Divider:
    r"""Divides what a source causes over the places where it acts, by squared responses.

    .. math::
        \text{part}_{wk} \propto v_{wk} \left(d' T_{u,wk}\right)^2 \qquad
        \text{part}_{l} \propto p_l (1 - p_l) \left(d' s_{ul}\right)^2

    with the variance v of a feature, the responses T of the logits of node u to it and s to the
    coin of a link with chance p, as :func:`varigraph.predict` has them, and the direction d in
    which the answer follows the logits. Exact where the answer is linear in what is uncertain.

    Args:
        network: the linearised network of the question.
    """

    network: FirstOrder

    def blocks(self, rows: Tensor) -> Iterator[Tensor]:
        """Nodes to answer for whose responses fit in the memory, one block after the other."""
        network = self.network
        cost = network.cost(None)
        if network.question.noisy:
            costs = network.costs
            cost = torch.maximum(cost, costs.walking[1] + costs.from_features(costs.largest_rank))
        return network.budget.blocks(rows, cost[rows])

    def responses(self, rows: Tensor) -> Responses:  # [rows]
        """Of the outputs of some nodes."""
        wanted = set() if self._coins is None else self._coins.wanted
        return self.network.responses(rows, wanted)

    def of_features(self, responses: Responses, directions: Tensor) -> Effects:
        """Single features, numbered node by node; directions are ``[rows, answers, outputs]``."""
        noise, weight = self._noise(responses, single=True)
        effects = _squares(noise, weight, directions, keep=True)
        features = effects.shape[2]
        column = torch.arange(features, device=noise.row.device)
        return Effects(
            noise.row.repeat_interleave(features),
            (noise.column[:, None] * features + column).flatten(),
            effects.mT.flatten(0, 1),
        )

    def of_nodes(
        self, responses: Responses, directions: Tensor, whole: Tensor
    ) -> tuple[Effects, Tensor]:  # [rows, answers, outputs], [rows, answers] -> [features]
        """Nodes, all features together, and features, all nodes together.

        Args:
            responses: of the outputs of some nodes.
            directions: in which answers follow outputs.
            whole: what the features cause in each answer.
        """
        noise, weight = self._noise(responses, single=False)
        found = Effects(noise.row, noise.column, _squares(noise, weight, directions)[..., 0])
        effects, factor = found.adding_up_to(whole)
        root = self._root(responses, single=False)
        return effects, _by_feature(noise, weight, directions, factor, self._turn(root))

    def of_coins(self, responses: Responses, directions: Tensor) -> Effects:
        """Coins of links."""
        share, rows = self._coins, len(directions)
        if share is None:
            none = torch.zeros(0, dtype=torch.long, device=directions.device)
            return Effects(none, none, directions.new_zeros(0, directions.shape[1]).double())
        moved, _ = coin_slopes(responses, share.sums, share.prob, rows)
        along = (directions[moved.row] @ moved.slope.to(directions)[..., None])[..., 0].double()
        spread = share.prob.double() * (1 - share.prob.double())
        return Effects(moved.row, moved.coin, spread[moved.coin, None] * along.square())

    @cached_property
    def _coins(self) -> CoinShare | None:
        shares = [share for share in self.network.shares if isinstance(share, CoinShare)]
        return next((share for share in shares if share.sums), None)

    def _noise(self, responses: Responses, *, single: bool) -> tuple[Cotangents, Tensor]:
        """Responses to the noise of the features, and its variance at each node."""
        root = self._root(responses, single=single)
        return to_features(responses, root), root.noise.node

    def _root(self, responses: Responses, *, single: bool) -> NoiseRoot:
        key = "single" if single else "whole"
        if key not in self._roots:
            leaves = {leaf.number: leaf for leaf, _ in responses.boundary}
            self._roots[key] = NoiseRoot(tuple(leaves.values()), {}, whole=True, single=single)
        return self._roots[key]

    @cached_property
    def _roots(self) -> dict[str, NoiseRoot]:
        return {}

    def _turn(self, root: NoiseRoot) -> Tensor:  # [columns, features]
        r"""Q with :math:`R Q = S`: from the columns of a root to the features."""
        if "turn" not in self.__dict__:
            single = replace(root, single=True)
            self.__dict__["turn"] = root.turned_to(single)
        turn: Tensor = self.__dict__["turn"]
        return turn


def _squares(
    noise: Cotangents, weight: Tensor, directions: Tensor, *, keep: bool = False
) -> Tensor:  # -> [pairs, answers, 1] or [pairs, answers, columns]
    """Squared responses of answers to the noise at each node, by column or all together."""
    pairs, (answers, columns) = len(noise.row), (directions.shape[1], noise.values.shape[2])
    found = torch.empty(
        pairs, answers, columns if keep else 1, dtype=torch.float64, device=weight.device
    )
    for some, moved in _moved(noise, weight, directions):
        squares = moved.square()
        found[some] = squares if keep else squares.sum(-1, keepdim=True)
    return found


def _moved(
    noise: Cotangents, weight: Tensor, directions: Tensor
) -> Iterator[tuple[slice, Tensor]]:  # [pairs, answers, columns] some pairs at a time
    """How far one standard deviation of the noise moves the answers."""
    each = directions.shape[1] * noise.values.shape[2]
    for some in row_slices(len(noise.row), max(1, each), weight.device):
        along = directions[noise.row[some]].double() @ noise.values[some].double()
        yield some, along * weight[noise.column[some]].double().clamp_min(0).sqrt()[:, None]


def _by_feature(
    noise: Cotangents, weight: Tensor, directions: Tensor, factor: Tensor, turn: Tensor
) -> Tensor:  # -> [features]
    r"""What each feature causes at all nodes and in all answers: :math:`q_k' G q_k`.

    With the sum G of products of responses in the columns of a root, and the map q from there.
    """
    total = turn.new_zeros(len(turn), len(turn)) if weight.shape[1] == 1 else turn.new_zeros(())
    for some, moved in _moved(noise, weight, directions):
        scaled = (moved * factor[noise.row[some]].sqrt()[..., None]).flatten(0, 1)
        total = total + (scaled.T @ scaled if weight.shape[1] == 1 else scaled.square().sum(0))
    return (turn * (total @ turn)).sum(0) if weight.shape[1] == 1 else total
