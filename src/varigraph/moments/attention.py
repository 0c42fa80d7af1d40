"""Sums over links whose weights respond too: the operators of attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.tape import Operator, by_heads
from varigraph.sparse import Sparse

#: Exponents up to here neither overflow nor vanish in float32.
LARGEST_EXPONENT = 40.0


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

    def of_root(self, root: Tensor) -> Tensor:  # noqa: D102
        by_head: Tensor = root.T.unflatten(1, (self.weight.shape[1], -1))
        return (self.weight[:, None, :, None] * by_head).flatten(2)

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


@dataclass(frozen=True, eq=False)
class WithinGroups(Operator):
    r""":math:`y_e = a_e (x_e - \sum_f a_f x_f)` over the rows f of the group of e."""

    share: Tensor  # a, [rows, features]
    members: Sparse  # [groups, rows]
    group: Tensor  # [rows]
    local = False

    def back(self, pairs: Cotangents, width: int) -> Cotangents:
        r""":math:`T_f = a_f (T_f - \sum_e a_e T_e)`."""
        whole = self._whole_groups(pairs)
        values = whole.values * self.share[whole.column].to(whole.values)[:, None]
        return whole.with_values(values - self._common(whole, values))

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:
        """The same: the response is its own transpose."""
        return self.back(before, width).at(pairs).values

    def blocks(self, block: Tensor, mean: Tensor, width: int, out: Tensor | None) -> Tensor:
        r""":math:`a_e^2 ((1 - 2 a_e) \Sigma_e + \sum_f a_f^2 \Sigma_f)`, by features alike."""
        share = self.share if block.dim() == 2 else self.share[:, :, None]
        if block.dim() == 3:
            square = self.share[:, :, None] * self.share[:, None]
            own = block - share * block - share.mT * block
        else:
            square, own = share.square(), (1 - 2 * share) * block
        common = (self.members @ (square * block).flatten(1))[self.group].view_as(block)
        found = square * (own + common)
        return found.clamp_min(0) if block.dim() == 2 else found

    def of_message(self, message: Tensor, group: Tensor) -> Tensor | None:
        r""":math:`n_e = a_e (m_e - \sum_f a_f m_f)`."""
        if not torch.equal(self.group, group):
            return None
        weighted = by_heads(message, self.share)
        total = message.new_zeros(self.members.shape[0], message.shape[1])
        total.index_add_(0, group, weighted)
        return weighted - by_heads(total[group], self.share)

    def far(self, moved: Tensor) -> Tensor:  # [rows, k, features]
        r""":math:`\frac12 (a(s + ds) - a(s - ds))` of a softmax: shares do not go beyond 1."""
        moved = moved.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)
        return (self._softmax(moved) - self._softmax(-moved)) / 2

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.share,))

    def _softmax(self, moved: Tensor) -> Tensor:
        weight = moved.exp().mul_(self.share[:, None])
        total = weight.new_zeros(self.members.shape[0], *weight.shape[1:])
        total.index_add_(0, self.group, weight)
        return weight.div_(total[self.group])

    def _common(self, pairs: Cotangents, weighted: Tensor) -> Tensor:
        r""":math:`a_f \sum_e a_e T_e`, group by group of each output."""
        keys = pairs.row * self.members.shape[0] + self.group[pairs.column]
        _, place = torch.unique(keys, return_inverse=True)
        total = weighted.new_zeros(int(place.max()) + 1 if len(place) else 0, *weighted.shape[1:])
        total.index_add_(0, place, weighted)
        return total[place] * self.share[pairs.column].to(weighted)[:, None]

    def _whole_groups(self, pairs: Cotangents) -> Cotangents:
        """The same pairs, and all others of the groups that they belong to."""
        met = torch.unique(pairs.row * self.members.shape[0] + self.group[pairs.column])
        row, group = met // self.members.shape[0], met % self.members.shape[0]
        asked, entry = self.members.walks(group)
        if len(asked) == len(pairs.row):
            return pairs
        keys = (row[asked] * pairs.nodes + self.members.columns[entry]).sort().values
        return pairs._on(keys)


def seen_by(key: Tensor, moved: Tensor, *, apart: bool) -> Tensor:  # -> [links, k, heads]
    """How far scores move that look at values, ``[links, k, f]``, with slopes as in ScoreSum."""
    if not apart:
        return moved @ key.mT
    by_head: Tensor = moved.unflatten(2, (key.shape[1], -1))
    return (by_head * key[:, None]).sum(-1)


@dataclass(frozen=True, eq=False)
class ScoreSum(Operator):
    r""":math:`y_{u,hc} = \sum_e m_{e,hc} \sum_d k_{e,hd}\, x_{v(e),hd}` over the links e of u.

    What a sum over links gets by way of their scores, each of which responds to one end of its
    link. In attention :math:`m_e = a_e (v_e - y_u)`, and k is the slope of the score.
    """

    message: Tensor  # m, [entries, heads * channels]
    key: Tensor  # k, [entries, heads, d]
    matrix: Sparse  # entries are links; columns are the ends that are looked at
    apart: bool = True  # whether a head looks at d columns of its own, or every head at all of them
    ties = True

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        asked, entry = self.matrix.walks(pairs.column)
        keys = pairs.row[asked] * self.matrix.shape[1] + self.matrix.columns[entry]
        reached, place = torch.unique(keys, return_inverse=True)
        values = pairs.values
        found = values.new_zeros(len(reached), values.shape[1], width)
        for some in row_slices(len(entry), max(1, values.shape[1] * values.shape[2])):
            at = entry[some]
            weight = self._by_head(values[asked[some]], self.message[at].to(values))
            found.index_add_(0, place[some], self._over_columns(weight, self.key[at].to(values)))
        nodes = self.matrix.shape[1]
        return Cotangents(reached // nodes, reached % nodes, found, nodes, pairs.rows)

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        asked, entry = self.matrix.walks(pairs.column)
        keys = pairs.row[asked] * self.matrix.shape[1] + self.matrix.columns[entry]
        place, values = torch.searchsorted(before.keys, keys), before.values
        found = values.new_zeros(len(pairs.row), values.shape[1], width)
        for some in row_slices(len(entry), max(1, values.shape[1] * width)):
            at, moved = entry[some], values[place[some]]
            scores = self._scores(moved, self.key[at].to(values))
            part = scores[..., None] * self._heads(self.message[at].to(values))[:, None]
            found.index_add_(0, asked[some], part.flatten(2))
        return found

    def blocks(self, block: Tensor, mean: Tensor, width: int, out: Tensor | None) -> Tensor:
        r""":math:`\sum_e (m_e m_e') \circ (k_e \Sigma_{v(e)} k_e')`."""
        block = torch.diag_embed(block) if block.dim() == 2 else block
        found = block.new_zeros(self.matrix.shape[0], width, width)
        times = width // self.key.shape[1]
        for some in row_slices(len(self.message), max(width, block.shape[1]) ** 2):
            end, key = block[self.matrix.columns[some]], self.key[some].to(block)
            scores = self._scores(self._scores(end, key).mT, key)
            spread = scores.repeat_interleave(times, 1).repeat_interleave(times, 2)
            m = self.message[some]
            found.index_add_(0, self.matrix.rows[some], m[:, :, None] * m[:, None] * spread)
        return found

    def of_root(self, root: Tensor) -> Tensor:  # noqa: D102
        scores = self._scores(root.T[None], self.key)  # [entries, rank, heads]
        return (scores[..., None] * self._heads(self.message)[:, None]).flatten(2)

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.message, self.key))

    def _heads(self, values: Tensor) -> Tensor:  # [..., heads * channels] -> [..., heads, channels]
        parts: Tensor = values.unflatten(-1, (self.key.shape[1], -1))
        return parts

    def _by_head(self, values: Tensor, message: Tensor) -> Tensor:  # -> [walks, outputs, heads]
        return (self._heads(values) * self._heads(message)[:, None]).sum(-1)

    def _scores(self, moved: Tensor, key: Tensor) -> Tensor:  # [walks, k, f] -> [walks, k, heads]
        return seen_by(key, moved, apart=self.apart)

    def _over_columns(self, weight: Tensor, key: Tensor) -> Tensor:  # -> [walks, outputs, features]
        if not self.apart:
            return weight @ key
        return (weight[..., None] * key[:, None]).flatten(2)


@dataclass(frozen=True, eq=False)
class HeadJacobian(Operator):
    r""":math:`y_{u,hc} = \sum_d J_{u,hcd}\, x_{u,hd}`: another map at every node, by heads."""

    jacobian: Tensor  # [nodes, heads, channels, d]
    ties = True

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        return pairs.with_values(self._applied(pairs.values, pairs.column, self.jacobian))

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        return self._applied(before.at(pairs).values, pairs.column, self.jacobian.mT)

    def push(self, tangents: Tensor, nodes: Tensor, width: int) -> Tensor:  # noqa: D102
        return self._applied(tangents[:, None], nodes, self.jacobian.mT)[:, 0]

    def blocks(  # noqa: D102
        self, block: Tensor, mean: Tensor, width: int, out: Tensor | None
    ) -> Tensor:
        block = torch.diag_embed(block) if block.dim() == 2 else block
        found = block.new_empty(len(block), width, width)
        every = torch.arange(len(block), device=block.device)
        for some in row_slices(len(block), max(width, block.shape[1]) ** 2):
            once = self._applied(block[some], every[some], self.jacobian.mT)
            found[some] = self._applied(once.mT, every[some], self.jacobian.mT)
        return found

    def of_root(self, root: Tensor) -> Tensor:  # noqa: D102
        heads: Tensor = root.unflatten(0, (self.jacobian.shape[1], -1))  # [heads, d, rank]
        return (self.jacobian @ heads).flatten(1, 2).mT

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.jacobian,))

    def _applied(self, values: Tensor, rows: Tensor, matrices: Tensor) -> Tensor:
        """Values of some rows by the matrices of these, [..., in, out] for each head."""
        heads, size, width = matrices.shape[1:]
        found = values.new_empty(*values.shape[:2], heads * width)
        for some in row_slices(len(rows), max(1, values.shape[1] * heads * max(size, width))):
            part = values[some].unflatten(2, (heads, size)).transpose(1, 2)
            moved = part @ matrices[rows[some]].to(values)
            found[some] = moved.transpose(1, 2).flatten(2)
        return found
