"""Sums, products, reductions and changes of shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from varigraph.errors import MissingRuleError
from varigraph.moments.activations import elementwise
from varigraph.moments.affine import Affine
from varigraph.moments.gaussian import Gaussian, by_node
from varigraph.moments.layers import certain, rescaled
from varigraph.moments.maximum import group_max, group_min
from varigraph.moments.propagation import added, recorded
from varigraph.moments.registry import implements, spellings
from varigraph.moments.softmax import (
    Logits,
    before_sigmoid,
    passes_chances,
    remember_logit,
)
from varigraph.moments.tape import Columns, Scale, Sum
from varigraph.sparse import Sparse

Value = Gaussian | Tensor | float


@implements(
    "add",
    exactness="exact for independent inputs",
    note="a residual sum x + f(x) is taken as a sum of independent parts; x + x is exact",
)
def add(x: Value, other: Value, *, alpha: float = 1) -> Gaussian:
    r"""Moments of :math:`x + \alpha y`.

    .. math::
        E = \mu_x + \alpha \mu_y \qquad V = \sigma_x^2 + \alpha^2 \sigma_y^2
    """
    if x is other:  # one and the same noise: it adds up before it is squared
        return mul(x, 1 + alpha)
    return _total(x, other, alpha=alpha)


@by_node
def _total(x: Value, other: Value, *, alpha: float) -> Gaussian:
    if isinstance(x, Gaussian) and isinstance(other, Gaussian):
        return joined(x, other, alpha=alpha)
    mean = mean_of(x) + alpha * mean_of(other)
    if not isinstance(other, Gaussian):
        return rescaled(gaussian(x), mean, mean.new_ones(()))
    return rescaled(other, mean, mean.new_full((), alpha))


@by_node
def joined(
    x: Gaussian,
    other: Gaussian,
    *,
    alpha: float = 1,
    shared: Tensor | None = None,
    disposable: bool = False,
) -> Gaussian:
    r"""Moments of :math:`x + \alpha y`, given, where known, their covariance.

    A disposable x is not looked at any more.
    """
    mean = added(x.mean, other.mean, alpha=alpha, disposable=disposable)
    if isinstance(x, Affine) and isinstance(other, Affine) and x.mean.shape == other.mean.shape:
        out: Gaussian = x.plus(other, alpha, mean)
    else:
        var = added(x.var, other.var, alpha=alpha**2, disposable=disposable)
        var = var if shared is None else (var + 2 * alpha * shared).clamp_min(0)
        out = Gaussian(mean, var.expand_as(mean))
    one = mean.new_ones(())
    return recorded(out, (x, Scale(one)), (other, Scale(alpha * one)))


@implements("sub", "subtract", exactness="exact for independent inputs")
def sub(x: Value, other: Value, *, alpha: float = 1) -> Gaussian:
    r"""Moments of :math:`x - \alpha y`, by :func:`add`."""
    return add(x, other, alpha=-alpha)


@implements("mul", "multiply", exactness="exact for independent inputs")
def mul(x: Value, other: Value) -> Gaussian:
    r"""Moments of a product of independent factors.

    .. math::
        E = \mu_x \mu_y \qquad
        V = \sigma_x^2 \sigma_y^2 + \mu_x^2 \sigma_y^2 + \mu_y^2 \sigma_x^2
    """
    if x is other and isinstance(x, Gaussian):
        return square(x)
    return _product(x, other)


@by_node
def _product(x: Value, other: Value) -> Gaussian:
    a, b = mean_of(x), mean_of(other)
    if not isinstance(other, Gaussian):
        return rescaled(gaussian(x), a * b, torch.as_tensor(b, dtype=a.dtype, device=a.device))
    if not isinstance(x, Gaussian):
        return rescaled(other, a * b, torch.as_tensor(a, dtype=b.dtype, device=b.device))
    var = x.var * other.var + a.square() * other.var + b.square() * x.var
    return recorded(Gaussian(a * b, var), (x, Scale(b)), (other, Scale(a)))


@implements("div", "divide", "true_divide", exactness="exact for independent inputs")
def div(x: Value, other: Value, *, rounding_mode: str | None = None) -> Gaussian:
    r"""Moments of :math:`x / c` for a certain divisor."""
    certain(other, of="division, for the divisor")
    if rounding_mode is not None:
        raise MissingRuleError("division with rounding has no moment rule", "divide without it")
    return mul(x, 1 / mean_of(other))


@implements("neg", "negative", exactness="exact")
def neg(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`-x`."""
    return rescaled(x, -x.mean, x.mean.new_full((), -1.0))


@implements("square", exactness="exact", note="for a Gaussian input")
@elementwise
def square(x: Gaussian) -> Gaussian:
    r"""Moments of :math:`x^2` for Gaussian :math:`x`.

    .. math::
        E = \mu^2 + \sigma^2 \qquad V = 4 \mu^2 \sigma^2 + 2 \sigma^4
    """
    power = x.mean.square()
    return Gaussian(power + x.var, 4 * power * x.var + 2 * x.var.square())


@implements("pow", exactness="exact", note="exponents 1 and 2, for a Gaussian input")
def power(x: Gaussian, exponent: float) -> Gaussian:
    r"""Moments of :math:`x^1` and :math:`x^2`."""
    if exponent == 2:
        return square(x)
    if exponent == 1:
        return x
    raise MissingRuleError(
        f"no moment rule for x ** {exponent}",
        "use an activation that has a rule, or write one for the layer: @implements(YourLayer)",
    )


def mean_of(x: Value) -> Any:
    """Mean of a Gaussian; a certain value is its own mean."""
    return x.mean if isinstance(x, Gaussian) else x


def gaussian(x: Value) -> Gaussian:
    """The value as the Gaussian that it is: one of two arguments always is."""
    assert isinstance(x, Gaussian)
    return x


Axes = int | list[int] | tuple[int, ...] | None


@implements("sum", exactness="exact for independent inputs")
def total(x: Gaussian, dim: Axes = None, keepdim: bool = False) -> Gaussian:
    r"""Moments of :math:`\sum_i x_i`: means add, variances add."""
    return Gaussian(torch.sum(x.mean, dim, keepdim), torch.sum(x.var, dim, keepdim))


@implements("mean", exactness="exact for independent inputs")
def mean(x: Gaussian, dim: Axes = None, keepdim: bool = False) -> Gaussian:
    r"""Moments of :math:`\frac{1}{n} \sum x_i`; the variance is :math:`\frac{1}{n^2} \sum v_i`."""
    average = torch.mean(x.mean, dim, keepdim)
    count = x.mean.numel() / average.numel()
    return Gaussian(average, torch.mean(x.var, dim, keepdim) / count)


@implements("scatter_add", exactness="exact for independent inputs", note="sum and mean pooling")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Gaussian) -> Gaussian:
    r"""Moments of sums over groups: :math:`y_g = x_g + \sum_{i \in g} s_i`."""
    certain(x, of="scatter_add, for what is added to")
    out = Gaussian(
        x.scatter_add(dim, index, src.mean), torch.zeros_like(x).scatter_add(dim, index, src.var)
    )
    if src.mean.dim() == 2 and dim in (0, -2) and index.stride(-1) == 0:  # whole rows
        group = index[:, 0]
        order = group.argsort(stable=True)
        ones = torch.ones_like(group, dtype=src.mean.dtype)
        recorded(out, (src, Sum(Sparse(group[order], order, ones, (len(x), len(src))))))
    return out


@implements("index_add", exactness="exact for independent inputs")
def index_add(
    x: Tensor, dim: int, index: Tensor, source: Gaussian, *, alpha: float = 1
) -> Gaussian:
    r"""Moments of sums over groups: :math:`y_g = x_g + \alpha \sum_{i \in g} s_i`."""
    certain(x, of="index_add, for what is added to")
    return Gaussian(
        x.index_add(dim, index, source.mean, alpha=alpha),
        torch.zeros_like(x).index_add(dim, index, source.var, alpha=alpha**2),
    )


@implements("scatter_reduce", exactness="exact for independent inputs", note="max and min pooling")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Gaussian, reduce: str, include_self: bool = True
) -> Gaussian:
    """Moments of the largest or smallest value of each group, as pooling asks for it."""
    pools = {"amax": group_max, "amin": group_min}
    if reduce not in pools or include_self or src.mean.dim() != 2 or dim % 2 != 0:
        raise MissingRuleError(
            f"scatter_reduce({reduce!r}, include_self={include_self}, dim={dim}) has no rule",
            "pool with global_mean_pool, global_add_pool or global_max_pool",
        )
    return pools[reduce](src, index[:, 0], groups=x.shape[0])


MOVES = [
    "__getitem__",
    "index_select",
    "select",
    "narrow",
    "gather",
    "take_along_dim",
    "split",
    "chunk",
    "unbind",
    "view",
    "reshape",
    "view_as",
    "reshape_as",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "transpose",
    "t",
    "permute",
    "movedim",
    "expand",
    "expand_as",
    "contiguous",
    "clone",
    "detach",
    "to",
    "float",
    "double",
    "half",
    "cpu",
    "cuda",
    "flip",
    "roll",
    "type_as",
]


def moves_alike(function: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a function that moves numbers about: apply it to mean and variance."""

    def move(x: Gaussian | Tensor, *args: Any, **kwargs: Any) -> Any:
        args = tuple(a.mean if isinstance(a, Gaussian) else a for a in args)  # expand_as(x)
        if not isinstance(x, Gaussian):
            return function(x, *args, **kwargs)
        if isinstance(x, Logits):
            return Logits(move(x.before, *args, **kwargs))
        mean, var = function(x.mean, *args, **kwargs), function(x.var, *args, **kwargs)
        if isinstance(mean, Tensor):
            out = Gaussian(mean, var)
            before = before_sigmoid(x) if passes_chances(function) else None
            if before is not None:
                remember_logit(out, before=move(before, *args, **kwargs))
            if function is Tensor.__getitem__ and len(args) == 1:
                _record_rows(out, x, args[0])
            return out
        return tuple(Gaussian(m, v) for m, v in zip(mean, var, strict=True))

    move.__qualname__ = function.__name__
    return move


def _record_rows(out: Gaussian, x: Gaussian, index: Any) -> None:
    """Picking rows is a sum with one entry per row; anything else has no response on record."""
    if isinstance(index, tuple) or x.mean.dim() != 2 or out.mean.dim() != 2:
        return
    rows = torch.arange(len(x), device=x.mean.device)[index]
    place = torch.arange(len(rows), device=rows.device)
    ones = torch.ones_like(rows, dtype=x.mean.dtype)
    recorded(out, (x, Sum(Sparse(place, rows, ones, (len(rows), len(x))))))


for _name in MOVES:
    for _function in spellings(_name):
        implements(
            _function,
            exactness="exact",
            modules=[nn.Identity, nn.Flatten, nn.Sequential, nn.ModuleList, nn.ModuleDict],
        )(moves_alike(_function))


@implements("cat", "concat", "concatenate", exactness="exact")
def cat(tensors: Sequence[Gaussian | Tensor], dim: int = 0) -> Gaussian:
    """Moments side by side; certain parts have variance zero."""
    out = _joined(torch.cat, tensors, dim)
    if out.mean.dim() == 2 and dim in (1, -1):
        recorded(out, *_side_by_side(tensors))
    return out


@implements("stack", exactness="exact")
def stack(tensors: Sequence[Gaussian | Tensor], dim: int = 0) -> Gaussian:
    """Moments stacked along a new axis; certain parts have variance zero."""
    return _joined(torch.stack, tensors, dim)


def _joined(
    join: Callable[..., Tensor], tensors: Sequence[Gaussian | Tensor], dim: int
) -> Gaussian:
    parts = [t if isinstance(t, Gaussian) else Gaussian.certain(t) for t in tensors]
    return Gaussian(join([p.mean for p in parts], dim), join([p.var for p in parts], dim))


def _side_by_side(tensors: Sequence[Gaussian | Tensor]) -> list[tuple[Gaussian, Columns]]:
    """Where each uncertain part stands among the columns."""
    widths = [tensor.shape[-1] for tensor in tensors]
    first = [sum(widths[:i]) for i in range(len(widths))]
    pairs = zip(tensors, first, strict=True)
    return [(t, Columns(start)) for t, start in pairs if isinstance(t, Gaussian)]
