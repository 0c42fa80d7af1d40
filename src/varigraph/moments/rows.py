"""Rows and columns of values picked, summed and put together; messages that wait for their sum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from varigraph.moments.affine import Affine
from varigraph.moments.arithmetic import mul
from varigraph.moments.attention import HeadSum, WeightSum
from varigraph.moments.gaussian import Gaussian, Lazy, settled
from varigraph.moments.maximum import members
from varigraph.moments.propagation import current, recorded
from varigraph.moments.scores import Product, multiplied, responses_by_scores
from varigraph.moments.tape import Arranged, Columns, Operator, Sum
from varigraph.sparse import Sparse


def picked_rows(x: Gaussian, rows: Tensor) -> Gaussian:  # [n, features], [m] -> [m, features]
    """Some rows of a value, in any order and as often as they are asked for."""
    if len(rows) == len(x) and torch.equal(rows, torch.arange(len(x), device=rows.device)):
        return x
    x = settled(x)
    mean, matrix = x.mean[rows], _selection(rows, len(x), x.mean)
    if isinstance(x, Affine):
        out: Gaussian = x.through(matrix, mean, x.extra[rows])
    else:
        out = Gaussian(mean, x.var[rows])
    return recorded(out, (x, Sum(matrix)))


def _selection(rows: Tensor, count: int, like: Tensor) -> Sparse:
    """The matrix that picks some of so many rows; the same one for the same rows."""
    key = "picked rows", len(rows), count, like.dtype
    known: list[tuple[Tensor, Sparse]] = current().prepare(list, *key)
    for before, matrix in known:
        if torch.equal(before, rows):
            return matrix
    place = torch.arange(len(rows), device=rows.device)
    ones = torch.ones_like(rows, dtype=like.dtype)
    matrix = Sparse(place, rows.long(), ones, (len(rows), count))
    known.append((rows, matrix))
    return matrix


def row_sums(x: Gaussian, matrix: Sparse) -> Gaussian:  # [n, features] -> [m, features]
    r""":math:`y_u = \sum_v S_{uv} x_v` for a certain matrix S of m rows."""
    squares = Sparse(matrix.rows, matrix.columns, matrix.values.square(), matrix.shape)
    mean = matrix @ x.mean
    if isinstance(x, Affine):
        out: Gaussian = x.through(matrix, mean, squares @ x.extra.contiguous())
    else:
        out = Gaussian(mean, squares @ x.var)
    return recorded(out, (x, Sum(matrix)))


def picked_columns(x: Gaussian, columns: Tensor) -> Gaussian:  # [n, f], [m] -> [n, m]
    """Some columns of a value, in any order and as often as they are asked for."""
    width = x.shape[1]
    if len(columns) == width and torch.equal(columns, torch.arange(width, device=columns.device)):
        return x
    x = settled(x)
    mean = x.mean[:, columns]
    if isinstance(x, Affine):
        out: Gaussian = x.picked(columns, mean)
    else:
        out = Gaussian(mean, x.var[:, columns])
    return recorded(out, (x, Arranged(columns, torch.arange(len(columns), device=columns.device))))


def side_by_side(
    values: Sequence[Gaussian | Tensor], owner: Tensor, column: Tensor
) -> Gaussian:  # [n, f] each, [m], [m] -> [n, m]
    """Columns of several values: each from its owner, of which it is the column given."""
    parts = [v if isinstance(v, Gaussian) else Gaussian.certain(v) for v in values]
    device = parts[0].mean.device
    places = [(owner == number).nonzero().ravel().to(device) for number in range(len(parts))]
    picks = [column.to(device)[place] for place in places]
    # What was put one behind the other is brought into its order: no number is written in place.
    order = torch.cat(places).argsort()
    mean, var = (
        torch.cat([m[:, pick] for m, pick in zip(each, picks, strict=True)], 1)[:, order]
        for each in ([part.mean for part in parts], [part.var for part in parts])
    )
    parents = [
        (value, _arranged(pick, place, value.shape[1]))
        for value, pick, place in zip(values, picks, places, strict=True)
        if isinstance(value, Gaussian) and len(place)
    ]
    return recorded(Gaussian(mean, var), *parents)


def _arranged(pick: Tensor, place: Tensor, width: int) -> Operator:
    every = torch.arange(len(pick), device=pick.device)
    whole = len(pick) == width and torch.equal(pick, every)
    if whole and torch.equal(place, place[0] + every):
        return Columns(int(place[0]))
    return Arranged(pick, place)


def stacked_rows(values: Sequence[Gaussian | Tensor]) -> Gaussian:  # [n, features] each
    """The rows of several values below each other."""
    parts = [v if isinstance(v, Gaussian) else Gaussian.certain(v) for v in values]
    mean, var = torch.cat([p.mean for p in parts]), torch.cat([p.var for p in parts])
    parents: list[tuple[Gaussian, Operator]] = []
    first = 0
    for value in values:
        if isinstance(value, Gaussian):
            every = torch.arange(len(value), device=mean.device)
            ones = torch.ones_like(every, dtype=mean.dtype)
            matrix = Sparse(first + every, every, ones, (len(mean), len(value)))
            parents.append((value, Sum(matrix)))
        first += len(value)
    return recorded(Gaussian(mean, var), *parents)


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
        ones = torch.ones_like(group, dtype=certain.dtype)
        weights = WeightSum(x.mean, sender, members(group, count, ones))
        var = var + weights.squares(self.weight.var, x.var)
        by_scores = responses_by_scores(self.weight, x.mean[sender], group, count)
        if by_scores is None:
            return recorded(Gaussian(mean, var), (x, values), (self.weight, weights))
        found = recorded(Gaussian(mean, var), (x, values), *by_scores.responses)
        return multiplied(Product(found, settled(x), sender, group, by_scores))


def _matrix(group: Tensor, sender: Tensor, weight: Tensor, shape: tuple[int, int]) -> Sparse:
    order = group.argsort(stable=True)
    return Sparse(group[order].long(), sender[order].long(), weight[order], shape)
