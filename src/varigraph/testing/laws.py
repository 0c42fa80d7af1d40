"""The five laws that every rule obeys, as assertions for our rules and for yours."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from varigraph.moments import Gaussian, Propagation, StandIn, propagating, running
from varigraph.moments.cotangents import Cotangents
from varigraph.moments.tape import Tape
from varigraph.testing.oracles import Moments

Target = Callable[..., Any]
Oracle = Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], Moments]
#: Half the distance over which a mean is differentiated.
STEP = 1e-5
#: Relative error allowed for rounding alone.
ROUNDING = {torch.float32: 2e-4, torch.float64: 1e-9}


def check_rule(
    target: Target,
    *args: Any,
    x: Gaussian,
    oracle: Oracle,
    tolerance: float = 1e-6,
    linear: bool = False,
    **kwargs: Any,
) -> float:
    """Check the rule of a torch function or layer against the five laws, in both precisions.

    1. It agrees with an independent oracle. 2. Without noise it is the plain function. 3. It keeps
    its digits in float32, with means of 1000 and variances of 0.01 as well. 4. Its variance is
    never negative and never NaN; through linear layers it scales with that of the input. 5. The
    response that it puts on record, where it does, is the derivative of its mean.

    Args:
        target: a torch function, or a layer (a :class:`torch.nn.Module`).
        args: its arguments after ``x``.
        x: the input, in float64.
        oracle: :func:`~varigraph.testing.oracles.jacobian`,
            :func:`~varigraph.testing.oracles.quadrature` or a function of your own.
        tolerance: largest relative error against the oracle.
        linear: whether the target is linear in its input.
        kwargs: its keyword arguments.

    Returns:
        The largest relative error against the oracle.

    Example:
        >>> from torch_geometric.nn import GCNConv
        >>> from varigraph.testing import check_rule, jacobian
        >>> x = Gaussian(torch.randn(3, 4).double(), torch.rand(3, 4).double())
        >>> links = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> error = check_rule(GCNConv(4, 2), links, x=x, oracle=jacobian, linear=True)
    """
    error = largest_error(target, *args, x=x, oracle=oracle, **kwargs)
    assert error <= tolerance, f"law 1: off the oracle by {error:.2e}, allowed is {tolerance:.0e}"
    for dtype in (torch.float32, torch.float64):
        _check_without_noise(target, args, kwargs, Gaussian(x.mean.to(dtype), x.var.to(dtype)))
        _check_variance(target, args, kwargs, Gaussian(x.mean.to(dtype), x.var.to(dtype)), linear)
    _check_digits(target, args, kwargs, x)
    _check_digits(target, args, kwargs, Gaussian(x.mean * 0 + 1000, x.var * 0 + 0.01))
    _check_response(target, args, kwargs, x)
    return error


def largest_error(target: Target, *args: Any, x: Gaussian, oracle: Oracle, **kwargs: Any) -> float:
    """Largest relative error of a rule against an oracle, over means and variances.

    Errors of the mean are measured against mean plus standard deviation, errors of the variance
    against the variance, with a billionth of the input's variance as the floor of both.
    """
    got = apply(target, x, *args, **kwargs)
    truth = oracle(lambda t: plain(target, t, *args, **kwargs), x.mean, x.var)
    floor = 1e-9 * x.var.max()
    mean_error = (got.mean - truth.mean).abs() / (truth.mean.abs() + (truth.var + floor).sqrt())
    var_error = (got.var - truth.var).abs() / (truth.var + floor)
    return float(torch.maximum(mean_error.max(), var_error.max()).detach())


def apply(target: Target, x: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    """Moments of ``target(x, *args)`` by its rule."""
    with propagating(Propagation()):
        return _apply(target, x, *args, **kwargs)


def _apply(target: Target, x: Gaussian, *args: Any, **kwargs: Any) -> Gaussian:
    with torch.no_grad():
        if not isinstance(target, nn.Module):
            out: Gaussian = _only(target(x, *_cast(args, x), **_cast(kwargs, x)))
            return out
        layer = deepcopy(target).to(x.mean.dtype)
        with running(layer, by_rules=True):
            guise: StandIn = layer(StandIn(x), *_cast(args, x), **_cast(kwargs, x))
            return guise.value


def plain(target: Target, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``target(x, *args)`` itself, in evaluation mode."""
    if isinstance(target, nn.Module):
        target = deepcopy(target).to(x.dtype).eval()
    out: Tensor = _only(target(x, *_cast(args, x), **_cast(kwargs, x)))
    return out


def _only(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) else out


def _cast(tree: Any, x: Any) -> Any:
    """Numbers that go with x in its precision."""
    if isinstance(tree, Tensor) and tree.is_floating_point():
        return tree.to(x.dtype)
    if isinstance(tree, tuple):
        return tuple(_cast(part, x) for part in tree)
    if isinstance(tree, dict):
        return {key: _cast(part, x) for key, part in tree.items()}
    return tree


def _check_without_noise(target: Target, args: Any, kwargs: Any, x: Gaussian) -> None:
    got = apply(target, Gaussian.certain(x.mean), *args, **kwargs)
    want = plain(target, x.mean, *args, **kwargs)
    rounding = ROUNDING[x.mean.dtype]
    assert torch.allclose(got.mean, want, rtol=rounding, atol=rounding), "law 2: mean without noise"
    assert float(got.var.abs().max()) <= rounding**2, "law 2: variance without noise"


def _check_digits(target: Target, args: Any, kwargs: Any, x: Gaussian) -> None:
    single = Gaussian(x.mean.float(), x.var.float())
    # What float32 cannot hold is not expected of it, neither in the input nor in the output.
    want = apply(target, Gaussian(single.mean.double(), single.var.double()), *args, **kwargs)
    got = apply(target, single, *args, **kwargs)
    rounding, scale = ROUNDING[torch.float32], float(want.var.max())
    assert torch.allclose(got.mean.double(), want.mean, rtol=rounding, atol=rounding), "law 3: mean"
    floor = rounding * scale + torch.finfo(torch.float32).tiny
    assert torch.allclose(got.var.double(), want.var, rtol=50 * rounding, atol=floor), (
        "law 3: the variance loses its digits in float32"
    )


def _check_response(target: Target, args: Any, kwargs: Any, x: Gaussian) -> None:
    """By differences of the mean along one direction; frozen statistics are no derivative."""
    if x.mean.dim() == 1 and not isinstance(target, nn.Module):
        x = Gaussian(x.mean[:, None], x.var[:, None])
    if x.mean.dim() != 2:
        return
    tape, here = Tape(), Gaussian(x.mean, x.var)
    tape.record(here)
    with propagating(Propagation(tape=tape)) as propagation:
        out = _apply(target, here, *args, **kwargs)
    direction = torch.sin(torch.arange(x.mean.numel()).to(x.mean) + 1).view_as(x.mean)
    judged = out.mean.dim() == 2 and not propagation.approximate
    found = _along(tape, here, out, direction) if judged else None
    if found is None:
        return
    ahead, behind = (
        apply(target, Gaussian(x.mean + step * direction, x.var), *args, **kwargs).mean
        for step in (STEP, -STEP)
    )
    slope = (ahead - behind) / (2 * STEP)
    assert torch.allclose(found, slope, rtol=1e-4, atol=1e-5), "law 5: the response is no slope"


def _along(tape: Tape, x: Gaussian, out: Gaussian, direction: Tensor) -> Tensor | None:
    """How the output moves with x along a direction; None where a response is not on record."""
    rows = torch.arange(len(out), device=direction.device)
    start = Cotangents.identity(rows, len(out), out.mean, out.mean.shape[1])
    cotangents, reached = {out.number: start}, [out]
    for entry in reversed(tape.entries):
        if entry.value.number not in cotangents:
            continue
        for parent, operator in entry.parents:
            moved = operator.back(cotangents[entry.value.number], parent.mean.shape[1])
            known = cotangents.get(parent.number)
            cotangents[parent.number] = moved if known is None else known + moved
            reached.append(parent)
    if not all(map(tape.knows, reached)):
        return None
    found = cotangents.get(x.number)
    if found is None:
        return torch.zeros_like(out.mean)
    return found.sum_rows((found.values @ direction[found.column][..., None]).squeeze(-1))


def _check_variance(target: Target, args: Any, kwargs: Any, x: Gaussian, linear: bool) -> None:
    got = apply(target, x, *args, **kwargs)
    assert bool(got.mean.isfinite().all() & got.var.isfinite().all()), "law 4: not finite"
    assert bool((got.var >= 0).all()), "law 4: a variance is negative"
    if linear:
        wider = apply(target, Gaussian(x.mean, 4 * x.var), *args, **kwargs)
        assert torch.equal(wider.var, 4 * got.var), "law 4: the variance does not scale"
