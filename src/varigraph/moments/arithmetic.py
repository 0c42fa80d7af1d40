"""Sums and products of values, number by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.activations import elementwise
from varigraph.moments.affine import Affine
from varigraph.moments.gaussian import Gaussian, by_node
from varigraph.moments.layers import rescaled
from varigraph.moments.propagation import added, current, recorded
from varigraph.moments.registry import by_number, implements
from varigraph.moments.tape import Scale

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


@implements(
    "div",
    "divide",
    "true_divide",
    exactness="exact for independent inputs",
    note="by a certain divisor; by an uncertain one approximate, to first order",
)
def div(x: Value, other: Value, *, rounding_mode: str | None = None) -> Gaussian:
    r"""Moments of :math:`x / y`; :math:`\mu_x / \mu_y` and its slopes for an uncertain divisor."""
    if rounding_mode is not None:
        raise MissingRuleError("division with rounding has no moment rule", "divide without it")
    if not isinstance(other, Gaussian):
        return mul(x, 1 / mean_of(other))
    current().approximates("division")
    part = mean_of(x) / other.mean
    slope = -part / other.mean
    if not isinstance(x, Gaussian):
        return rescaled(other, part, slope)
    own = (1 / other.mean).expand_as(part)
    var = own.square() * x.var + slope.square() * other.var
    return recorded(Gaussian(part, var), (x, Scale(own)), (other, Scale(slope)))


@implements("neg", "negative", exactness="exact")
@by_number
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
@by_number
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


#: Arithmetic of two values, by the name of the function.
OF_TWO: dict[str, Callable[..., Gaussian]] = {
    "add": add,
    "sub": sub,
    "subtract": sub,
    "mul": mul,
    "multiply": mul,
    "div": div,
    "divide": div,
    "true_divide": div,
}
