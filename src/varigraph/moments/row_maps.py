"""Linear responses that differ from row to row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.tape import Operator


@dataclass(frozen=True, eq=False)
class RowJacobian(Operator):
    """:math:`y_u = J_u x_u`, another map at every row."""

    jacobian: Tensor  # [rows, out, in]
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
        found = block.new_empty(len(block), width, width)
        for some in row_slices(len(block), self.jacobian[0].numel()):
            by = self.jacobian[some].to(block)
            found[some] = (by * block[some, None] if block.dim() == 2 else by @ block[some]) @ by.mT
        return found

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.jacobian,))

    def _applied(self, values: Tensor, rows: Tensor, matrices: Tensor) -> Tensor:
        """Values of some rows by the matrices of these, a part of them at a time."""
        found = values.new_empty(*values.shape[:-1], matrices.shape[-1])
        for some in row_slices(len(rows), matrices[0].numel()):
            found[some] = values[some] @ matrices[rows[some]].to(values)
        return found


@dataclass(frozen=True, eq=False)
class Corrected(Operator):
    r""":math:`y_u = s_u \circ x_u + L_u R_u x_u`: a factor, but for some directions."""

    factor: Tensor  # [rows, features]
    left: Tensor  # [rows, features, directions]
    right: Tensor  # [rows, directions, features]
    ties = True

    def back(self, pairs: Cotangents, width: int) -> Cotangents:  # noqa: D102
        return pairs.with_values(self._applied(pairs.values, pairs.column, self.left, self.right))

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:  # noqa: D102
        values = before.at(pairs).values
        return self._applied(values, pairs.column, self.right.mT, self.left.mT)

    def push(self, tangents: Tensor, nodes: Tensor, width: int) -> Tensor:  # noqa: D102
        return self._applied(tangents[:, None], nodes, self.right.mT, self.left.mT)[:, 0]

    def blocks(  # noqa: D102
        self, block: Tensor, mean: Tensor, width: int, out: Tensor | None
    ) -> Tensor:
        found = block.new_empty(len(block), width, width)
        for some in row_slices(len(block), width * width):
            by = self.left[some].to(block) @ self.right[some].to(block)
            by.diagonal(dim1=1, dim2=2).add_(self.factor[some])
            found[some] = (by * block[some, None] if block.dim() == 2 else by @ block[some]) @ by.mT
        return found

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.factor, self.left, self.right))

    def _applied(self, values: Tensor, rows: Tensor, first: Tensor, then: Tensor) -> Tensor:
        found = values * self.factor[rows, None].to(values)
        for some in row_slices(len(rows), first[0].numel()):
            at = rows[some]
            found[some] += (values[some] @ first[at].to(values)) @ then[at].to(values)
        return found
