"""The one value that travels through a network: a mean and a variance for every number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from varigraph.errors import GraphError, MissingRuleError
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
        "is_floating_point",
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

    def operate(self: TensorLike, *args: Any) -> Any:
        return self.answer(function, *(reversed((self, *args)) if swap else (self, *args)))

    return operate


class TensorLike:
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
