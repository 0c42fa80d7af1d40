"""Sparse matrices, their one product with its gradients, and what is made of links once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch._C._functorch import is_batchedtensor
from torch.utils.weak import WeakIdKeyDictionary

from varigraph.kernels import fused

if TYPE_CHECKING:
    from varigraph.kernels.neighbour_sums import Rows


Made = TypeVar("Made")

_MADE: Any = WeakIdKeyDictionary()


def made_once(origin: Tensor, key: tuple[Hashable, ...], build: Callable[[], Made]) -> Made:
    """What ``build`` returns, built once for every ``key`` as long as ``origin`` is the same.

    It is forgotten with the tensor, and built anew when that was changed in place.

    Args:
        origin: the tensor that it is made from.
        key: everything else that it depends on.
        build: makes it, from the tensor's numbers: what it returns must not hold the tensor.
    """
    if origin.is_inference():  # such a tensor does not know how often it was changed
        return build()
    version, made = _MADE.get(origin, (None, {}))
    if version != origin._version:
        made = {}
        _MADE[origin] = origin._version, made
    if key not in made:
        # What is built in inference mode could not be learned through later.
        with torch.inference_mode(False):
            made[key] = build()
    found: Made = made[key]
    return found


@contextmanager
def without_notices() -> Iterator[None]:
    """Within it, torch does not say that its sparse tensors are in beta and unchecked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        yield


def csr_tensor(start: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tensor in compressed rows."""
    with without_notices():
        return torch.sparse_csr_tensor(start, columns, values, shape, check_invariants=False)


_PREPARED: Any = WeakIdKeyDictionary()
#: Those that stand for many.
_MANY: Any = WeakIdKeyDictionary()


def prepare(matrix: Tensor) -> None:  # [rows, columns]
    """Make a tensor in compressed rows ready for many products, where kernels do them.

    Args:
        matrix: whose numbers stay as they are; what is made is forgotten with it.
    """
    if fused(matrix.values()) and matrix not in _PREPARED:
        _PREPARED[matrix] = Sparse.of_rows(matrix)


def product(
    matrix: Tensor, x: Tensor, reduce: str = "sum"
) -> Tensor:  # [rows, columns], [columns, features]
    """``torch.sparse.mm``, by kernels where the matrix was made ready for them.

    For a batch of right-hand sides torch has no rule: they stand side by side as columns.
    """
    if reduce != "sum":
        many: Sparse | None = _MANY.get(matrix) if reduce == "mean" else None
        return torch.sparse.mm(matrix, x, reduce) if many is None else many.averaged @ x
    known: Sparse | None = _PREPARED.get(matrix)
    if known is None and is_batchedtensor(x):
        known = Sparse.of_rows(matrix, fleeting=True)
    return torch.sparse.mm(matrix, x) if known is None else known @ x


def stand_in_for(many: Sparse) -> Tensor:
    """A matrix to hand on where torch wants one, for many of one pattern, batched by ``vmap``.

    :func:`product` knows it, and so takes the others; its own numbers are all 0.
    """
    none = torch.zeros_like(many.columns, dtype=many.values.dtype)
    matrix = csr_tensor(many.start, many.columns, none, many.shape)
    _PREPARED[matrix] = _MANY[matrix] = many
    return matrix


@dataclass(frozen=True, eq=False)
class Sparse:
    """A sparse matrix in compressed rows.

    Args:
        rows: row of each entry, sorted, ``[entries]``.
        columns: column of each entry, ``[entries]``.
        values: the entries, ``[entries]``; what is learned through the product reaches them too.
        shape: numbers of rows and columns.
        symmetric: the matrix is its own transpose.
        fleeting: its values are used once, and not worth preparing for kernels.
    """

    rows: Tensor
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]
    symmetric: bool = False
    fleeting: bool = False

    @classmethod
    def of(cls, matrix: Tensor) -> Sparse:  # [rows, columns]
        """The same numbers as a tensor of any layout."""
        coo = matrix.to_sparse_coo().coalesce()
        rows, columns = coo.indices()
        return cls(rows, columns, coo.values(), (matrix.shape[0], matrix.shape[1]))

    @classmethod
    def of_rows(cls, matrix: Tensor, *, fleeting: bool = False) -> Sparse:  # [rows, columns]
        """The same numbers as a tensor in compressed rows, which they are shared with."""
        # What a tensor hands out would hold it, but for its data.
        start, columns = matrix.crow_indices().data, matrix.col_indices().data
        every = torch.arange(matrix.shape[0], dtype=columns.dtype, device=columns.device)
        rows = every.repeat_interleave(start.diff(), output_size=len(columns))
        shape = (matrix.shape[0], matrix.shape[1])
        found = cls(rows, columns, matrix.values().data, shape, fleeting=fleeting)
        vars(found).update(start=start)
        return found

    def with_values(self, values: Tensor) -> Sparse:  # [entries]
        """Other values at the same places, to be used once; what was sorted is not sorted again."""
        other = replace(self, values=values, fleeting=True)
        vars(other).update(start=self.start, _by_column=self._by_column)
        return other

    @cached_property
    def start(self) -> Tensor:  # [rows + 1]
        """Where each row starts among the entries."""
        counts = torch.bincount(self.rows, minlength=self.shape[0])
        start = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return start.to(self.columns.dtype)

    @property
    def averaged(self) -> Sparse:
        """Each row divided by how many entries it has."""
        counts = self.start.diff()
        share = counts.clamp_min(1).to(self.values.dtype).reciprocal()
        share = share.repeat_interleave(counts, output_size=len(self.columns))
        other = replace(self, values=self.values * share, fleeting=True)
        vars(other).update(start=self.start)
        return other

    @cached_property
    def csr(self) -> Tensor:
        """The matrix as torch's product wants it."""
        return csr_tensor(self.start, self.columns, self.values, self.shape)

    @cached_property
    def for_kernels(self) -> Rows:
        """The matrix as kernels want it."""
        from varigraph.kernels.neighbour_sums import Rows  # noqa: PLC0415 - needs Triton

        of_row = self.values.new_zeros(self.shape[0])
        of_row.index_copy_(0, self.rows.long(), self.values)  # any of a row's entries
        even = bool((self.values == of_row[self.rows]).all())
        values, order = of_row if even else self.values, self.start.diff().argsort(descending=True)
        return Rows(self.start, self.columns, values, order, even)

    def walks(self, rows: Tensor) -> tuple[Tensor, Tensor]:  # [asked] -> [walks], [walks]
        """The entries of the rows asked for, one after the other: who asked, and which entry."""
        counts = self.start[rows + 1] - self.start[rows]
        asked = torch.repeat_interleave(torch.arange(len(rows), device=rows.device), counts)
        first = self.start[rows] - (counts.cumsum(0) - counts)
        return asked, torch.arange(len(asked), device=rows.device) + first[asked]

    def picked(self, rows: Tensor) -> Sparse:
        """The rows asked for, as a matrix of their own."""
        asked, entry = self.walks(rows)
        return Sparse(asked, self.columns[entry], self.values[entry], (len(rows), self.shape[1]))

    def times(self, other: Sparse) -> Sparse:
        """The product of two sparse matrices; the entries within a row are in any order."""
        product = torch.sparse.mm(self.csr, other.csr)
        start = product.crow_indices()
        rows = torch.arange(self.shape[0], device=start.device).repeat_interleave(start.diff())
        entries = product.col_indices(), product.values()
        return Sparse(rows, *entries, (self.shape[0], other.shape[1]))

    def row_products(self, other: Sparse, weight: Tensor) -> Tensor:  # [columns, k] -> [rows, k]
        r""":math:`\sum_w A_{uw} B_{uw} n_{wk}` for every row u and column k."""
        if other is self:
            found = self.values.square()
        else:
            if len(other.values) > len(self.values):
                return other.row_products(self, weight)
            if len(other.values) == 0:
                return self.values.new_zeros(self.shape[0], weight.shape[1])
            keys, order = (other.rows.long() * other.shape[1] + other.columns).sort()
            wanted = self.rows.long() * self.shape[1] + self.columns
            place = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
            theirs = other.values[order[place]]
            found = torch.where(keys[place] == wanted, self.values * theirs, 0)
        return replace(self, values=found, fleeting=True) @ weight

    @cached_property
    def transpose(self) -> Sparse:
        """Rows and columns exchanged."""
        if self.symmetric:
            return self
        order, columns, rows, start = self._by_column
        shape = (self.shape[1], self.shape[0])
        swapped = Sparse(columns, rows, self.values[order], shape, fleeting=self.fleeting)
        vars(swapped).update(start=start)
        return swapped

    @cached_property
    def _by_column(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The entries in the order of columns: their places, columns and rows, and the starts."""
        order = self.columns.argsort(stable=True)
        columns = self.columns[order]
        counts = torch.bincount(columns, minlength=self.shape[1])
        start = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return order, columns, self.rows[order], start.to(self.rows.dtype)

    def __matmul__(self, x: Tensor) -> Tensor:  # [columns, features] -> [rows, features]
        if is_batchedtensor(self.values) and torch.is_grad_enabled():
            messages = self.values[:, None] * x[self.columns]
            return messages.new_zeros(self.shape[0], x.shape[1]).index_add(0, self.rows, messages)
        return _Product.apply(self, self.values, x)  # type: ignore[no-any-return,no-untyped-call]

    def by_heads(self, weight: Tensor, x: Tensor) -> Tensor:  # [entries, heads], [columns, k, f]
        """The product with a tensor whose features belong to heads, each with its own entries.

        Returns:
            ``[rows, k, f]``.
        """
        heads, some = weight.shape[1], x.shape[1]
        each = x.shape[2] // heads  # in numbers: there may be no row to tell it from
        parts = x.unflatten(2, (heads, each)).permute(2, 0, 1, 3).flatten(2)  # [heads, columns, ..]
        found = []
        for head in range(heads):
            product = replace(self, values=weight[:, head].contiguous(), fleeting=True)
            vars(product).update(start=self.start)
            found.append((product @ parts[head]).view(self.shape[0], some, each))
        return torch.cat(found, dim=2)

    def onto(self, out: Tensor, x: Tensor) -> Tensor:  # [rows, features], [columns, features]
        """``out + matrix @ x``, written over ``out``; nothing is learned through it."""
        return torch.addmm(out, self.csr, x, out=out)

    def moments(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        r""":math:`A m` and :math:`(A \circ A) v`, every link read once for both; on a GPU."""
        return _Moments.apply(self, mean, var)  # type: ignore[no-any-return,no-untyped-call]


def by_mkl(x: Tensor) -> bool:
    """Whether MKL multiplies sparse matrices with x, which can add to what is there."""
    return x.device.type == "cpu" and torch.backends.mkl.is_available()


def _into_empty(matrix: Tensor, x: Tensor) -> Tensor:  # [rows, columns], [columns, features]
    """``matrix @ x``, without the zeros that torch writes first where MKL does not need them."""
    if not by_mkl(x):
        return matrix @ x
    out = x.new_empty(matrix.shape[0], x.shape[1])
    return torch.addmm(out, matrix, x, beta=0, out=out)


def _many_products(
    pattern: Sparse, values: Tensor, x: Tensor
) -> Tensor:  # [many, entries], [many, columns, features] -> [many, rows, features]
    """Products of many matrices of one pattern, each with its own right-hand side."""
    matrix = csr_tensor(pattern.start, pattern.columns, values[0].clone(), pattern.shape)
    entries, out = matrix.values(), x.new_empty(len(x), pattern.shape[0], x.shape[2])
    for these, right, there in zip(values, x, out, strict=True):
        entries.copy_(these)
        if by_mkl(x):  # which adds to what is there, and needs no zeros
            torch.addmm(there, matrix, right.contiguous(), beta=0, out=there)
        else:
            there.copy_(matrix @ right)
    return out


class _Product(torch.autograd.Function):
    """``matrix @ x``, by which entries and x can be learned.

    torch would form a message for every entry, and has no rule for a batch of right-hand sides:
    they become columns.
    """

    @staticmethod
    def forward(matrix: Sparse, values: Tensor, x: Tensor) -> Tensor:
        if matrix.fleeting or not fused(x, values):
            return _into_empty(matrix.csr, x.contiguous())
        from varigraph.kernels.neighbour_sums import neighbour_sums  # noqa: PLC0415 - needs Triton

        return neighbour_sums(matrix.for_kernels, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.matrix = inputs[0]
        ctx.save_for_backward(inputs[2] if ctx.needs_input_grad[1] else None)

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        matrix, above = ctx.matrix, grad[0].contiguous()
        (x,), to_entries = ctx.saved_tensors, None
        if x is not None:
            pattern = matrix.with_values(torch.zeros_like(matrix.values)).csr
            to_entries = torch.sparse.sampled_addmm(pattern, above, x.T).values()
        return None, to_entries, matrix.transpose @ above if ctx.needs_input_grad[2] else None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, Any, Any], matrix: Sparse, values: Tensor, x: Tensor
    ) -> tuple[Tensor, int]:
        if in_dims[1] is not None:
            each = (
                x.expand(info.batch_size, *x.shape)
                if in_dims[2] is None
                else x.movedim(in_dims[2], 0)
            )
            return _many_products(matrix, values.movedim(in_dims[1], 0), each), 0
        columns = x.movedim(in_dims[2], 1)  # [nodes, samples, features]
        product = matrix @ columns.flatten(1)
        return product.view(-1, *columns.shape[1:]), 1


class _Moments(torch.autograd.Function):
    """The same for means and variances at once; nothing is learned through it."""

    @staticmethod
    def forward(matrix: Sparse, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        from varigraph.kernels.neighbour_sums import neighbour_moments  # noqa: PLC0415 - Triton

        return neighbour_moments(matrix.for_kernels, mean, var)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, matrix: Sparse, *values: Tensor) -> Any:
        columns = [
            x[:, None].expand(-1, info.batch_size, -1) if dim is None else x.movedim(dim, 1)
            for x, dim in zip(values, in_dims[1:], strict=True)
        ]  # [nodes, samples, features]
        found = matrix.moments(*(x.flatten(1) for x in columns))
        return tuple(x.unflatten(1, columns[0].shape[1:]) for x in found), (1, 1)
