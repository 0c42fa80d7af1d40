"""Values with a mean and a variance, whole or a block of nodes at a time."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from itertools import count
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from varigraph.errors import GraphError, MissingRuleError, TooLargeError
from varigraph.moments.registry import rule_for_function

#: Questions about a tensor's shape and kind, and fresh tensors of that kind: no rule is needed.
ABOUT = frozenset(
    [
        "shape",
        "dtype",
        "device",
        "ndim",
        "layout",
        "is_cuda",
        "is_sparse",
        "requires_grad",
        "size",
        "dim",
        "numel",
        "nelement",
        "ndimension",
        "is_floating_point",
        "is_complex",
        "is_contiguous",
        "is_leaf",
        "is_meta",
        "is_mps",
        "is_nested",
        "is_quantized",
        "is_xpu",
        "itemsize",
        "element_size",
        "stride",
        "__len__",
        "__hash__",
        "get_device",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "new_tensor",
    ]
)


_NUMBERS = count()


def _operator(function: Callable[..., Any], *, swap: bool = False) -> Callable[..., Any]:
    """A Python operator that asks for the rule of ``function``."""

    def operate(self: Operators, *args: Any) -> Any:
        return self.answer(function, *(reversed((self, *args)) if swap else (self, *args)))

    return operate


class Operators:
    """Python's operators, each of which asks for the rule of a torch function."""

    answer: Callable[..., Any]

    __add__ = __radd__ = _operator(Tensor.add)
    __sub__, __rsub__ = _operator(Tensor.sub), _operator(Tensor.sub, swap=True)
    __mul__ = __rmul__ = _operator(Tensor.mul)
    __truediv__, __rtruediv__ = _operator(Tensor.div), _operator(Tensor.div, swap=True)
    __matmul__, __rmatmul__ = _operator(Tensor.matmul), _operator(Tensor.matmul, swap=True)
    __pow__, __neg__ = _operator(Tensor.pow), _operator(Tensor.neg)
    __getitem__, __setitem__ = _operator(Tensor.__getitem__), _operator(Tensor.__setitem__)
    __iadd__, __isub__ = _operator(Tensor.add_), _operator(Tensor.sub_)
    __imul__, __itruediv__ = _operator(Tensor.mul_), _operator(Tensor.div_)
    __gt__, __ge__ = _operator(Tensor.gt), _operator(Tensor.ge)
    __lt__, __le__ = _operator(Tensor.lt), _operator(Tensor.le)
    __bool__, __float__ = _operator(Tensor.__bool__), _operator(Tensor.__float__)
    __abs__, __rpow__ = _operator(Tensor.abs), _operator(Tensor.pow, swap=True)
    # Left alone, Python would compare identities and answer False without a word.
    __eq__, __ne__ = _operator(Tensor.eq), _operator(Tensor.ne)
    __hash__ = object.__hash__


class TensorLike(Operators):
    """Answers as a tensor would: torch functions, tensor methods and operators find their rule."""

    def _tensor(self) -> Tensor:
        """The tensor whose shape, dtype and device this value has."""
        raise AttributeError

    @classmethod
    def answer(cls, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Apply the rule that stands for a torch function."""
        return rule_for_function(function)(*args, **kwargs)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return cls.answer(func, *args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        if name in ABOUT:
            return getattr(self._tensor(), name)
        if name.startswith("_") or not hasattr(Tensor, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        method = getattr(Tensor, name)
        if not callable(method):
            raise MissingRuleError(f"no moment rule for x.{name}", "use a function that has a rule")
        return partial(self.answer, method, self)

    def __len__(self) -> int:
        return len(self._tensor())


@dataclass(frozen=True, eq=False)
class Gaussian(TensorLike):
    r"""Numbers :math:`x_i` with mean :math:`\mu_i` and variance :math:`\sigma_i^2`.

    Stands where a tensor would: torch functions and layers that have a rule
    (:func:`varigraph.implements`) map Gaussians to Gaussians.

    Args:
        mean: expected values, any shape.
        var: variances, of the same shape.

    Example:
        >>> import torch
        >>> x = Gaussian(mean=torch.tensor([0.0]), var=torch.tensor([1.0]))
        >>> torch.relu(x)
        Gaussian(mean=tensor([0.3989]), var=tensor([0.3408]))
    """

    mean: Tensor
    var: Tensor

    def __post_init__(self) -> None:
        if self.mean.shape != self.var.shape:
            raise GraphError(
                f"mean has shape {tuple(self.mean.shape)}, var has {tuple(self.var.shape)}",
                "give one variance for every mean: Gaussian(mean, var.expand_as(mean))",
            )

    @classmethod
    def certain(cls, value: Tensor) -> Gaussian:
        """A value known exactly: its variance is zero."""
        return cls(value, torch.zeros_like(value))

    @cached_property
    def number(self) -> int:
        """A number of its own, by which records know this value."""
        return next(_NUMBERS)

    def _tensor(self) -> Tensor:
        return self.mean


class Deferred(Gaussian, ABC):
    """A value that is computed when somebody looks at it."""

    @property
    @abstractmethod
    def known(self) -> Gaussian:
        """The value itself."""

    @property
    def mean(self) -> Tensor:
        """Expected values of all rows."""
        return self.known.mean

    @property
    def var(self) -> Tensor:
        """Variances of all rows."""
        return self.known.var


class Lazy(Deferred):
    """A value with a row for every link that is not formed unless somebody looks at it."""

    @abstractmethod
    def added_up(self, group: Tensor, count: int) -> Gaussian:  # [links]
        """The sum over the links of each of so many groups."""


def settled(x: Gaussian) -> Gaussian:
    """The value, formed."""
    return x.known if isinstance(x, Lazy) else x


def mapped_variance(var: Tensor, squares: Tensor) -> Tensor:  # [.., features], [outputs, features]
    r""":math:`(W \circ W) \sigma^2`, computed once where all nodes or all features share it."""
    if var.dim() == 2 and var.stride(0) == 0:
        return F.linear(var[:1], squares).expand(len(var), -1)
    if var.dim() == 2 and var.stride(1) == 0:
        return var[:, :1] * squares.sum(1)
    return F.linear(var, squares)


def unexpanded(x: Tensor) -> Tensor:  # [nodes, features] -> [nodes or 1, features or 1]
    """The same numbers, once where they were expanded to all nodes or to all features."""
    for axis in (0, 1):
        if x.stride(axis) == 0:
            x = x.narrow(axis, 0, 1)
    return x


#: Blocks start at multiples of this, where random numbers can be drawn from any place on.
ALIGNED = 32

Make = Callable[[slice], Gaussian]
RuleOfNodes = TypeVar("RuleOfNodes", bound=Callable[..., Gaussian])


class ByRows(Deferred):
    """A value ``[nodes, features]`` whose rows are computed when they are asked for.

    Whoever asks for ``mean`` or ``var`` gets them whole. Rules that look at every node by itself
    (:func:`by_node`) and sums over neighbours ask for blocks of rows instead, so that a network
    needs memory for what its sums read, and for a block of everything else.

    Args:
        make: computes a block of rows.
        nodes: number of rows.
        step: number of rows in a block.
        room: bytes up to which a value that is needed twice is kept whole.
        limit: bytes up to which a value that must be whole may be.
        whole: the value, where it is known already.
    """

    make: Make
    nodes: int
    step: int
    room: int
    limit: float
    whole: Gaussian | None
    like: Tensor

    def __init__(
        self,
        make: Make,
        nodes: int,
        step: int,
        room: int,
        *,
        limit: float = math.inf,
        whole: Gaussian | None = None,
    ) -> None:
        like = make(slice(0, 1)).mean
        step = max(ALIGNED, step // ALIGNED * ALIGNED)
        given = {"make": make, "nodes": nodes, "step": step, "room": room, "limit": limit}
        self.__dict__.update(given, whole=whole, like=like)

    @classmethod
    def of(cls, value: Gaussian, step: int, room: int, *, limit: float = math.inf) -> ByRows:
        """A value that is known, to be worked on in blocks."""
        make = partial(some_rows, value)
        return cls(make, len(value), step, room, limit=limit, whole=value)

    def _tensor(self) -> Tensor:
        return self.like.expand(self.nodes, *self.like.shape[1:])

    @property
    def known(self) -> Gaussian:
        """The value itself: computed once, block by block."""
        if self.whole is None:
            self._refuse_beyond_limit()
            self._compute()
        whole: Gaussian = self.__dict__["whole"]
        return whole

    def _compute(self) -> None:
        mean, var = (self.like.new_empty(self._tensor().shape) for _ in range(2))
        for first in range(0, self.nodes, self.step):
            rows = slice(first, min(first + self.step, self.nodes))
            block = self.make(rows)
            mean[rows], var[rows] = block.mean, block.var
        self.__dict__["whole"] = Gaussian(mean, var)

    def settle(self) -> None:
        """Compute the value once and keep it, where there is room: it will be needed twice."""
        if self.whole is None and self._bytes <= self.room:
            self._compute()

    @property
    def _bytes(self) -> int:
        return 2 * self._tensor().numel() * self.like.element_size()

    def _refuse_beyond_limit(self) -> None:
        if self._bytes > self.limit:
            need, width = math.ceil(self._bytes / 2**20), self.like.shape[1:].numel()
            raise TooLargeError(
                f"a sum over neighbours reads {width} numbers of {self.nodes:,} nodes, {need:,} "
                f"MiB, and the memory leaves {self.limit / 2**20:,.0f} MiB for that",
                "give more memory=",
            )

    def rows(self, rows: slice) -> Gaussian:
        """Some rows of the value."""
        return self.make(rows) if self.whole is None else some_rows(self.whole, rows)

    def then(self, make: Make) -> ByRows:
        """A value with the same nodes, of which ``make`` computes some."""
        return ByRows(make, self.nodes, self.step, self.room, limit=self.limit)


def some_rows(value: Gaussian, rows: slice) -> Gaussian:
    """Some rows of a value that is known."""
    return Gaussian(value.mean[rows], value.var[rows])


@dataclass(frozen=True, eq=False)
class PerNode:
    """A tensor with a row for every node, said to be one: blocks of it go with blocks of a value.

    Args:
        tensor: ``[nodes, ...]``.
    """

    tensor: Tensor


def by_node(rule: RuleOfNodes) -> RuleOfNodes:
    """A rule that looks at every node by itself: of a value by rows it makes a value by rows."""

    @wraps(rule)
    def blockwise(*args: Any, **kwargs: Any) -> Gaussian:
        tall = [value for value in args if isinstance(value, ByRows)]
        if not tall or _by_node_number([*args, *kwargs.values()], len(tall[0])):
            return rule(*(_all(value) for value in args), **kwargs)
        return tall[0].then(lambda rows: rule(*(_some(v, rows) for v in args), **kwargs))

    return cast(RuleOfNodes, blockwise)


def _all(value: Any) -> Any:
    return value.tensor if isinstance(value, PerNode) else value


def _some(value: Any, rows: slice) -> Any:
    if isinstance(value, PerNode):
        return value.tensor[rows]
    return value.rows(rows) if isinstance(value, ByRows) else value


def _by_node_number(values: list[Any], nodes: int) -> bool:
    """Whether something else has one row for every node, so that blocks would not fit it."""
    others = [v for v in values if isinstance(v, (Tensor, Gaussian)) and not isinstance(v, ByRows)]
    return any(value.dim() > 0 and len(value) == nodes for value in others)
