"""Functions of each number by itself: what a record of the pass must know about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from varigraph.moments.by_rows import by_node
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.propagation import current, recorded
from varigraph.moments.tape import Bend, Scale

Activation = TypeVar("Activation", bound=Callable[..., Gaussian])


def elementwise(rule: Activation) -> Activation:
    r"""A rule for a function of each number by itself, which records its averaged slope and bend.

    .. math::
        g = E[f'(x)] = \frac{\partial}{\partial \mu} E[f(x)] \qquad
        c = E[f''(x)] = 2 \frac{\partial}{\partial \sigma^2} E[f(x)]
    """

    @wraps(rule)
    def taped(x: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
        tape = current().tape
        if tape is None:
            return rule(x, *args, **kwargs)
        learning = torch.is_grad_enabled()
        with torch.enable_grad():
            mean, var = (_started(value, learning) for value in (x.mean, x.var))
            out = rule(Gaussian(mean, var), *args, **kwargs)
            slope, half = torch.autograd.grad(out.mean.sum(), (mean, var), create_graph=learning)
        if not learning:
            out = Gaussian(out.mean.detach(), out.var.detach())
        tape.bends.append(Bend(out, x, 2 * half.nan_to_num(0.0)))  # sqrt has no slope at 0
        return recorded(out, (x, Scale(slope)))

    return by_node(cast(Activation, taped))


def _started(value: Tensor, learning: bool) -> Tensor:
    """A value to differentiate by; in training it stays tied to the weights that made it."""
    if learning and value.requires_grad:
        return value.clone()
    return value.detach().requires_grad_()
