"""Messages that wait for the sum behind them, and are not formed where there is one.

A layer picks the rows of its senders, weights them and adds them up at their receivers. Taken one
after the other these are values with a row for every link; taken together they are one operator
between nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.arithmetic import mul
from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.gaussian import Gaussian, Lazy
from varigraph.moments.maximum import members
from varigraph.moments.propagation import recorded
from varigraph.moments.rows import picked_columns, picked_rows, row_sums
from varigraph.moments.tape import Operator
from varigraph.sparse import Sparse

#: Weights of so many heads are worth an operator of their own.
MOST_HEADS = 32


class Picked(Lazy):
    """What nodes send: their own rows, one for each link.

    Args:
        x: values of the nodes, ``[nodes, features]``.
        sender: of each link, ``[links]``.
    """

    x: Gaussian
    sender: Tensor

    def __init__(self, x: Gaussian, sender: Tensor) -> None:
        self.__dict__.update(x=x, sender=sender)

    def _tensor(self) -> Tensor:
        return self.x._tensor()[:1].expand(len(self.sender), -1)

    @cached_property
    def known(self) -> Gaussian:  # noqa: D102
        return picked_rows(self.x, self.sender)

    def added_up(self, group: Tensor, count: int) -> Gaussian:  # noqa: D102
        ones = torch.ones_like(group, dtype=self.x._tensor().dtype)
        return row_sums(self.x, _matrix(group, self.sender, ones, (count, len(self.x))))


class Weighted(Lazy):
    r"""Messages times a weight for each head: :math:`a_{eh}\, x_{s(e),hc}`.

    Args:
        sent: what nodes send, ``[links, heads * channels]``.
        weight: certain or not, ``[links, heads]``.
    """

    sent: Picked
    weight: Gaussian | Tensor

    def __init__(self, sent: Picked, weight: Gaussian | Tensor) -> None:
        self.__dict__.update(sent=sent, weight=weight)

    def _tensor(self) -> Tensor:
        return self.sent._tensor()

    @cached_property
    def known(self) -> Gaussian:  # noqa: D102
        heads, width = self.weight.shape[1], self.sent.shape[1]
        column = torch.arange(heads, device=self._tensor().device).repeat_interleave(width // heads)
        weight = self.weight
        every = (
            picked_columns(weight, column) if isinstance(weight, Gaussian) else weight[:, column]
        )
        return mul(self.sent.known, every)

    def added_up(self, group: Tensor, count: int) -> Gaussian:
        r""":math:`y_v = \sum_e a_e x_{s(e)}`, with its responses to x and to the weights."""
        x, sender, shape = self.sent.x, self.sent.sender, (count, len(self.sent.x))
        certain = self.weight.mean if isinstance(self.weight, Gaussian) else self.weight
        if not isinstance(self.weight, Gaussian) and certain.shape[1] == 1:
            return row_sums(x, _matrix(group, sender, certain[:, 0], shape))
        order = group.argsort(stable=True)
        matrix = Sparse(group[order].long(), sender[order].long(), certain[order, 0], shape)
        values = HeadSum(certain[order], matrix)
        mean, var = values.sums(x.mean), HeadSum(certain[order].square(), matrix).sums(x.var)
        if not isinstance(self.weight, Gaussian):
            return recorded(Gaussian(mean, var), (x, values))
        weights = WeightSum(x.mean, sender, members(group, count, torch.ones_like(certain[:, 0])))
        var = var + weights.squares(self.weight.var, x.var)
        return recorded(Gaussian(mean, var), (x, values), (self.weight, weights))


def _matrix(group: Tensor, sender: Tensor, weight: Tensor, shape: tuple[int, int]) -> Sparse:
    order = group.argsort(stable=True)
    return Sparse(group[order].long(), sender[order].long(), weight[order], shape)


@dataclass(frozen=True, eq=False)
class HeadSum(Operator):
    r""":math:`y_{u,hc} = \sum_e w_{eh}\, x_{s(e),hc}` over the links e that end at u."""

    weight: Tensor  # [entries, heads]
    matrix: Sparse  # entries are links

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        return pairs.through_heads(self.matrix, self.weight)

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        return pairs.gathered_heads(self.matrix, self.weight, before).values

    def blocks(self, block: Tensor, mean: Tensor, width: int, out: Tensor | None) -> Tensor:
        r""":math:`\sum_e (w_e w_e') \circ \Sigma_{s(e)}`."""
        if block.dim() == 2:
            return HeadSum(self.weight.square(), self.matrix).sums(block)
        found = block.new_zeros(self.matrix.shape[0], width, width)
        for some in row_slices(len(self.weight), width * width):
            by = self.weight[some].repeat_interleave(width // self.weight.shape[1], 1)
            part = by[:, :, None] * by[:, None] * block[self.matrix.columns[some]]
            found.index_add_(0, self.matrix.rows[some], part)
        return found

    def sums(self, x: Tensor) -> Tensor:  # [nodes, heads * channels]
        """The sum itself."""
        parts = x.unflatten(1, (self.weight.shape[1], -1)).unbind(1)
        each = [self.matrix.with_values(w) @ part.contiguous()
                for w, part in zip(self.weight.unbind(1), parts, strict=True)]  # fmt: skip
        return torch.stack(each, 1).flatten(1)

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.weight,))


@dataclass(frozen=True, eq=False)
class WeightSum(Operator):
    r""":math:`y_{u,hc} = \sum_e m_{s(e),hc}\, a_{eh}`: a sum's response to the weights of links."""

    message: Tensor  # m, [senders, heads * channels]
    sender: Tensor  # [links]
    matrix: Sparse  # [nodes, links]
    ties = True

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        asked, entry = self.matrix.walks(pairs.column)
        link = self.matrix.columns[entry]
        keys, order = (pairs.row[asked] * self.matrix.shape[1] + link).sort()
        asked, link = asked[order], link[order]
        found = pairs.values.new_empty(len(keys), pairs.values.shape[1], width)
        message = self.message.to(pairs.values)
        for some in row_slices(len(keys), pairs.values[0].numel() if len(pairs.values) else 1):
            left = pairs.values[asked[some]].unflatten(2, (width, -1))
            right = message[self.sender[link[some]]].unflatten(1, (width, -1))
            found[some] = torch.einsum("wohc,whc->woh", left, right)
        links = self.matrix.shape[1]
        return Cotangents(keys // links, keys % links, found, links, pairs.rows)

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        asked, entry = self.matrix.walks(pairs.column)
        link = self.matrix.columns[entry]
        place = torch.searchsorted(before.keys, pairs.row[asked] * self.matrix.shape[1] + link)
        found = before.values.new_zeros(len(pairs.row), before.values.shape[1], width)
        message = self.message.to(before.values)
        for some in row_slices(len(link), max(1, found[0].numel() if len(found) else 1)):
            right = message[self.sender[link[some]]].unflatten(1, (before.values.shape[2], -1))
            part = torch.einsum("woh,whc->wohc", before.values[place[some]], right).flatten(2)
            found.index_add_(0, asked[some], part)
        return found

    def blocks(self, block: Tensor, mean: Tensor, width: int, out: Tensor | None) -> Tensor:
        r""":math:`\sum_e (m_e m_e') \circ \Sigma_e`."""
        block = torch.diag_embed(block) if block.dim() == 2 else block
        found = block.new_zeros(self.matrix.shape[0], width, width)
        times = width // block.shape[1]
        for some in row_slices(len(self.sender), width * width):
            link = self.matrix.columns[some]
            spread = block[link].repeat_interleave(times, 1).repeat_interleave(times, 2)
            m = self.message[self.sender[link]]
            found.index_add_(0, self.matrix.rows[some], m[:, :, None] * m[:, None] * spread)
        return found

    def squares(self, var: Tensor, added: Tensor | float = 0) -> Tensor:  # [links, heads]
        r""":math:`\sum_e (m_e^2 + v_{s(e)}) \sigma_e^2`."""
        squares, heads = self.message.square() + added, var.shape[1]
        order = self.matrix.columns
        matrix = Sparse(self.matrix.rows, self.sender[order].long(), var[order, 0],
                        (self.matrix.shape[0], len(squares)))  # fmt: skip
        return HeadSum(var[order].view(-1, heads), matrix).sums(squares)

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.message,))
