"""How values respond to those before them: operators, and the record of a pass.

A record says for each value which operators lead to it from which others. What methods ask of an
operator is in its class, and nowhere else: a new one is a class and its test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from varigraph.moments.cotangents import Cotangents, at_once, row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.input_noise import by_node_and_feature
from varigraph.sparse import Sparse

if TYPE_CHECKING:
    from varigraph.moments.neighbours import Neighbours
    from varigraph.moments.scores import Product


class Operator(ABC):
    r"""A linear response :math:`y = A x` of a value to one before it.

    Attributes:
        ties: whether it makes numbers of a node move together that did not before.
        matrix: of a sum over nodes; None where every node responds to itself alone.
        neighbours: the random links of such a sum, where it goes over links.
        local: whether every row responds to itself alone.
    """

    ties: bool = False
    matrix: Sparse | None = None
    neighbours: Neighbours | None = None

    @property
    def local(self) -> bool:  # noqa: D102
        return self.matrix is None

    @abstractmethod
    def back(self, pairs: Cotangents, width: int) -> Cotangents:
        r""":math:`T_x = T_y A`: cotangents of x, which has so many features, from those of y."""

    @abstractmethod
    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:
        r""":math:`Cov(z, y) = Cov(z, x) A'`: covariances of outputs with y from those with x.

        Args:
            before: covariances with x.
            pairs: where they are wanted; ``before`` holds all pairs that lead there.
            width: number of features of y.

        Returns:
            ``[pairs, outputs, features]``.
        """

    @abstractmethod
    def blocks(
        self, block: Tensor, mean: Tensor, width: int, out: Tensor | None
    ) -> Tensor:  # [nodes, features] or [nodes, features, features]
        r""":math:`\Sigma_y = A \Sigma_x A'` at each node, other nodes taken as independent.

        Args:
            block: covariances of x, or its variances as long as nothing ties its numbers together.
            mean: of x, ``[nodes, features]``.
            width: number of features of y.
            out: where the result may be written; None where it needs a tensor of its own.
        """

    def push(self, tangents: Tensor, nodes: Tensor, width: int) -> Tensor | None:
        """Tangents of y at given nodes, ``[nodes, features]``, from those of x at the same nodes.

        None where they would go on to other nodes.
        """
        return None

    def of_root(self, root: Tensor) -> Tensor | None:  # [features, rank]
        """The same columns of noise at every node, as y sees them from each: ``[.., rank, out]``.

        One block for every entry of its matrix, or for every node where it has none; None where
        nobody has written it down.
        """
        return None

    @property
    def picks(self) -> Tensor | None:  # [rows]
        """The row of x that every row of y is a copy of, where it does nothing else."""
        return None

    def of_message(self, message: Tensor, group: Tensor) -> Tensor | None:  # [rows, heads * f]
        r"""What x is summed with: n in :math:`\sum_e m_e y_e = \sum_e n_e x_e` over each group.

        None where nobody has written it down, or the groups are others than its own.
        """
        return None

    def overwrites(self, nodes: int) -> bool:
        """Whether blocks of y can take the place of those of x, which has so many nodes."""
        return False

    @property
    def numbers(self) -> Iterator[Tensor]:
        """Tensors that it holds beside the weights of the network and what is kept of links."""
        return iter(())


@dataclass(frozen=True, eq=False)
class Dense(Operator):
    """:math:`y_u = W x_u`, the same map at every node."""

    weight: Tensor  # [out, in]
    ties = True

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        return pairs.with_values(pairs.values @ self.weight.to(pairs.values))

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        return before.at(pairs).values @ self.weight.to(before.values).T

    def push(self, tangents: Tensor, nodes: Tensor, width: int) -> Tensor:  # noqa: D102
        return tangents @ self.weight.T

    def blocks(  # noqa: D102
        self, block: Tensor, mean: Tensor, width: int, out: Tensor | None
    ) -> Tensor:
        weight = self.weight
        found = block.new_empty(len(block), len(weight), len(weight))
        slices = row_slices(len(block), len(weight) * weight.shape[1], block.device)
        if block.dim() == 3:
            for some in slices:
                found[some] = weight @ block[some] @ weight.T
            return found
        parts = by_node_and_feature(block)
        if parts is None:  # no shortcut
            for some in slices:
                found[some] = (weight * block[some, None]) @ weight.T
            return found
        node, feature = parts
        shared = (weight * feature) @ weight.T
        return torch.mul(node[:, None, None], shared, out=found)


@dataclass(frozen=True, eq=False)
class Scale(Operator):
    r""":math:`y_u = s_u \circ x_u`: a slope, a norm, a factor."""

    factor: Tensor  # broadcasts to [nodes, features]

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        return pairs.with_values(pairs.values * self._at(pairs))

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        return before.at(pairs).values * self._at(pairs)

    def push(self, tangents: Tensor, nodes: Tensor, width: int) -> Tensor:  # noqa: D102
        return tangents * (self.factor[nodes] if self._by_node else self.factor)

    def blocks(  # noqa: D102
        self, block: Tensor, mean: Tensor, width: int, out: Tensor | None
    ) -> Tensor:
        factor = self.factor.expand_as(mean)
        if block.dim() == 2:
            return block * factor.square()
        out = torch.empty_like(block) if out is None else out
        for some in row_slices(len(block), block[0].numel(), block.device):
            by = factor[some]
            torch.mul(block[some], by[:, :, None], out=out[some]).mul_(by[:, None, :])
        return out

    def of_message(self, message: Tensor, group: Tensor) -> Tensor:  # noqa: D102
        factor = self.factor.to(message)
        return by_heads(
            message, factor.expand(len(message), factor.shape[-1] if factor.dim() else 1)
        )

    def overwrites(self, nodes: int) -> bool:  # noqa: D102
        return True

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.factor,))

    @property
    def _by_node(self) -> bool:
        return self.factor.dim() == 2 and self.factor.shape[0] > 1

    def _at(self, pairs: Cotangents) -> Tensor:
        factor = self.factor.to(pairs.values)
        return factor[pairs.column][:, None] if self._by_node else factor


def by_heads(values: Tensor, factor: Tensor) -> Tensor:  # [rows, heads * f], [rows, heads]
    """Numbers of heads, each by the factor of its head."""
    found: Tensor = (values.unflatten(1, (factor.shape[1], -1)) * factor[:, :, None]).flatten(1)
    return found


@dataclass(frozen=True, eq=False)
class Columns(Operator):
    """:math:`x` stands in the columns of :math:`y` from ``first`` on."""

    first: int

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        return pairs.with_values(pairs.values[:, :, self.first : self.first + width])

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        values = before.at(pairs).values
        return F.pad(values, self._around(values.shape[-1], width))

    def push(self, tangents: Tensor, nodes: Tensor, width: int) -> Tensor:  # noqa: D102
        return F.pad(tangents, self._around(tangents.shape[1], width))

    def blocks(  # noqa: D102
        self, block: Tensor, mean: Tensor, width: int, out: Tensor | None
    ) -> Tensor:
        around = self._around(block.shape[-1], width)
        return F.pad(block, around if block.dim() == 2 else around * 2)

    def _around(self, width: int, whole: int) -> tuple[int, int]:
        """Columns before and after those of x."""
        return self.first, whole - self.first - width


@dataclass(frozen=True, eq=False)
class Arranged(Operator):
    r""":math:`y_{u,b_k} = x_{u,a_k}`: columns of x are columns of y, which is 0 elsewhere."""

    pick: Tensor  # [k], columns of x
    place: Tensor  # [k], where they stand in y

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        found = pairs.values.new_zeros(*pairs.values.shape[:2], width)
        return pairs.with_values(found.index_add_(2, self.pick, pairs.values[..., self.place]))

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        return self._put(before.at(pairs).values, width)

    def push(self, tangents: Tensor, nodes: Tensor, width: int) -> Tensor:  # noqa: D102
        return self._put(tangents, width)

    def blocks(  # noqa: D102
        self, block: Tensor, mean: Tensor, width: int, out: Tensor | None
    ) -> Tensor:
        block = torch.diag_embed(block) if self.ties and block.dim() == 2 else block
        found = self._put(block, width)
        return found if block.dim() == 2 else self._put(found.mT, width).mT

    @property
    def ties(self) -> bool:  # type: ignore[override]
        """Where a column is picked twice."""
        return len(self.pick.unique()) < len(self.pick)

    def _put(self, values: Tensor, width: int) -> Tensor:  # [..., features]
        found = values.new_zeros(*values.shape[:-1], width)
        found[..., self.place] = values[..., self.pick]
        return found


@dataclass(frozen=True, eq=False)
class Sum(Operator):
    r""":math:`y_u = \sum_v S_{uv} x_v` over rows of another value; random where links are."""

    matrix: Sparse  # expected weights
    neighbours: Neighbours | None = None

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        return pairs.through(self.matrix)

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        return pairs.gathered(self.matrix, before).values

    def blocks(self, block: Tensor, mean: Tensor, width: int, out: Tensor | None) -> Tensor:
        r""":math:`\sum_v E[S_{uv}^2] \Sigma_v + Var[S_{uv}] \mu_v \mu_v'`."""
        links, coin = self.neighbours, None
        if links is None:
            squares = self._squared
        else:
            squares, coin = links.square, links.coin
        tied = coin is not None and links is not None and links.ties_messages
        if block.dim() == 2:
            total = squares @ block
            return total if links is None or coin is None else total + links.moved_by_coins(mean)
        out = block.new_empty(self.matrix.shape[0], *block.shape[1:]) if out is None else out
        size, flat, into = block.shape[-1], block.flatten(1), out.flatten(1)
        every = torch.arange(size**2, device=block.device)
        # Some columns at a time: the product would make a copy of what it returns.
        for some in every.split(max(32, at_once(block.device) // len(block))):
            columns = slice(int(some[0]), int(some[-1]) + 1)
            part = squares @ flat[:, columns]
            if coin is not None and not tied:
                part += coin @ (mean[:, some // size] * mean[:, some % size])
            into[:, columns] = part
        return out.add_(links.moved_together(mean)) if tied and links is not None else out

    @property
    def picks(self) -> Tensor | None:  # noqa: D102
        matrix = self.matrix
        one_each = len(matrix.values) == matrix.shape[0] and bool((matrix.values == 1).all())
        every = torch.arange(matrix.shape[0], device=matrix.rows.device)
        alone = self.neighbours is None and one_each and torch.equal(matrix.rows, every)
        return matrix.columns if alone else None

    def overwrites(self, nodes: int) -> bool:  # noqa: D102
        return self.matrix.shape[0] == nodes

    @property
    def _squared(self) -> Sparse:
        matrix = self.matrix
        return Sparse(matrix.rows, matrix.columns, matrix.values.square(), matrix.shape)


@dataclass(frozen=True, eq=False)
class Entry:
    """One value, and how it responds to its parents."""

    value: Gaussian
    parents: tuple[tuple[Gaussian, Operator], ...]


@dataclass(frozen=True, eq=False)
class Noise:
    """A place where a source adds noise of its own, independent of all before it.

    Args:
        value: what leaves the place.
        added: the variance that it adds, ``[nodes, features]``, or the covariance of each node,
            ``[nodes, features, features]``.
        source: name of the source.
    """

    value: Gaussian
    added: Tensor
    source: str


@dataclass(frozen=True, eq=False)
class Bend:
    r"""A place where the network is not linear: :math:`y \approx E[y] + g\,x + \frac{c}{2} x^2`."""

    value: Gaussian
    before: Gaussian
    curvature: Tensor  # c, [nodes, features]


@dataclass
class Tape:
    """All values of a pass in the order in which they were computed, known by their numbers."""

    entries: list[Entry] = field(default_factory=list)
    noises: list[Noise] = field(default_factory=list)
    bends: list[Bend] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    unknown: dict[int, str] = field(default_factory=dict)
    _known: set[int] = field(default_factory=set)

    def record(self, value: Gaussian, *parents: tuple[Gaussian, Operator]) -> None:
        """Note how a value responds to its parents."""
        self.entries.append(Entry(value, parents))
        self._known.add(value.number)

    def knows(self, value: Gaussian) -> bool:
        """Whether the responses of a value are on record."""
        return value.number in self._known and value.number not in self.unknown

    def keep_way_to(self, output: Gaussian) -> None:
        """Forget values that have no part in an output, but for the first: scores of links, say.

        Of products only those are kept that go into the output node by node: further in they cause
        a few thousandths of its variance, and there are many more numbers of them.
        """
        wanted, kept = {output.number, self.entries[0].value.number}, []
        far: set[int] = set()
        for entry in reversed(self.entries):
            if entry.value.number in wanted:
                wanted.update(parent.number for parent, _ in entry.parents)
                beyond = entry.value.number in far
                far.update(p.number for p, step in entry.parents if beyond or not step.local)
                kept.append(entry)
        self.entries = kept[::-1]
        self.bends = [bend for bend in self.bends if bend.value.number in wanted]
        near = wanted - far
        self.products = [each for each in self.products if each.value.number in near]

    def maker_of(self, value: Gaussian) -> str:
        """The function that made a value for which nobody recorded a response."""
        return f"{self.unknown.get(value.number, 'a step of the model')}()"

    def note(self, value: Any, name: str) -> None:
        """Note by what a value was made for which nobody recorded a response."""
        if isinstance(value, Gaussian) and value.number not in self._known:
            self._known.add(value.number)
            self.unknown[value.number] = name
