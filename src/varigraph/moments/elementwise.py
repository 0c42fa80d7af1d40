"""Functions of each number by itself: what a record of the pass must know about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from varigraph.moments.by_rows import by_node
from varigraph.moments.chunks import row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.operators import Scale
from varigraph.moments.propagation import current, recorded
from varigraph.moments.tape import Bend

Activation = TypeVar("Activation", bound=Callable[..., Gaussian])
Rule = Callable[[Gaussian], Gaussian]
#: The value, and the derivatives of its mean by the mean and by the variance.
Derivatives = tuple[Gaussian, Tensor, Tensor]
#: Numbers that a rule may hold for each of its own, while it is differentiated.
HELD = 64


def elementwise(rule: Activation) -> Activation:
    r"""A rule for a function of each number by itself, which records its averaged slope and bend.

    .. math::
        g = E[f'(x)] = \frac{\partial}{\partial \mu} E[f(x)] \qquad
        c = E[f''(x)] = 2 \frac{\partial}{\partial \sigma^2} E[f(x)]

    With them the rule serves every closed form; without, only ``"diagonal"``. Both come from the
    mean that the rule returns, which must therefore be differentiable by torch.

    Args:
        rule: takes a :class:`Gaussian` and returns one, number by number.
    """

    @wraps(rule)
    def taped(x: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
        tape = current().tape
        if tape is None:
            return rule(x, *args, **kwargs)
        out, slope, half = _differentiated(lambda x: rule(x, *args, **kwargs), x)
        tape.bends.append(Bend(out, x, 2 * half))
        return recorded(out, (x, Scale(slope)))

    return by_node(cast(Activation, taped))


def _differentiated(rule: Rule, x: Gaussian) -> Derivatives:
    """What a rule returns and the derivatives of its mean, some rows at a time: it holds much."""
    if torch.is_grad_enabled() or x.mean.dim() != 2:
        return _at_once(rule, x)
    mean, var = x.mean, x.var
    wholes = [torch.empty_like(mean, memory_format=torch.contiguous_format) for _ in range(4)]
    for some in row_slices(len(mean), HELD * mean.shape[1]):
        out, slope, half = _at_once(rule, Gaussian(mean[some], var[some]))
        for whole, part in zip(wholes, (out.mean, out.var, slope, half), strict=True):
            whole[some] = part
    return Gaussian(wholes[0], wholes[1]), wholes[2], wholes[3]


def _at_once(rule: Rule, x: Gaussian) -> Derivatives:
    learning = torch.is_grad_enabled()
    with torch.enable_grad():
        mean, var = (_started(value, learning) for value in (x.mean, x.var))
        out = rule(Gaussian(mean, var))
        slope, half = torch.autograd.grad(out.mean.sum(), (mean, var), create_graph=learning)
    if not learning:
        out = Gaussian(out.mean.detach(), out.var.detach())
    return out, slope, half


def _started(value: Tensor, learning: bool) -> Tensor:
    """A value to differentiate by; in training it stays tied to the weights that made it."""
    if learning and value.requires_grad:
        return value.clone()
    return value.detach().requires_grad_()
