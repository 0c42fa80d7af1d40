"""Responses that differ from row to row; any function of rows, or rule, by differentiating it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from varigraph.errors import MissingRuleError
from varigraph.moments.cotangents import Cotangents, row_slices
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.propagation import current, recorded
from varigraph.moments.tape import Operator, Scale

#: Numbers that the derivatives of one function may have.
MOST = 2**27
#: Relative differences that are rounding, and steps of differences, as shares of the numbers.
ROUNDING = {torch.float64: 1e-9}
ROUNDING_OTHERWISE = 1e-4
STEP = {torch.float64: 1e-5}
STEP_OTHERWISE = 1e-2
#: By which share a derivative may differ from a difference: kinks lie between two points.
KINKS = 0.2
Call = Callable[..., Any]
Rule = Callable[[Gaussian], Gaussian]
#: The value, and the derivatives of its mean by the mean and by the variance.
Derivatives = tuple[Gaussian, Tensor, Tensor]
#: Numbers that a rule may hold for each of its own, while it is differentiated.
HELD = 64


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


def differentiated(function: Call, *args: Any, **kwargs: Any) -> Any:
    r"""Moments of any function that acts row by row, to first order.

    .. math::
        E[y_u] = f(\mu_u) \qquad V[y_u] = (J_u \circ J_u)\,\sigma_u^2 \qquad J_u = f'(\mu_u)

    That rows do not mix, and that the derivatives of torch are those of the function, is checked by
    numbers. What does not depend on the uncertain values is returned as it is.

    Args:
        function: a torch function, or any other.
        args: its arguments, among them uncertain values ``[rows, features]``, also in lists.
        kwargs: its keyword arguments.

    Raises:
        MissingRuleError: it mixes rows, has no derivatives, works in place or draws random numbers.
    """
    name = getattr(function, "__name__", type(function).__name__)
    in_place = name.endswith("_") and not name.endswith("__")
    if in_place or kwargs.get("inplace") or kwargs.get("out") is not None:
        raise _no_rule(name, "it works in place")
    parents: dict[int, Gaussian] = {}
    _mapped((args, kwargs), lambda value: parents.setdefault(value.number, value))

    def call(*tensors: Tensor) -> Any:
        found = dict(zip(parents, tensors, strict=True))
        given, named = _mapped((args, kwargs), lambda value: found[value.number])
        return function(*given, **named)

    out, shape = rowwise(call, list(parents.values()), name)
    if isinstance(out, Tensor) or out.mean.shape == shape:
        return out
    return Gaussian(out.mean.reshape(shape), out.var.reshape(shape))


def differentiated_layer(layer: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Moments of any layer that acts row by row, as :func:`differentiated` has them.

    Args:
        layer: a layer without a rule, in evaluation mode: ``nn.Bilinear``, ``nn.GRUCell``.
        args: its arguments, among them uncertain values ``[rows, features]``.
        kwargs: its keyword arguments.
    """

    def forward(*given: Any, **named: Any) -> Any:
        return layer.forward(*given, **named)

    forward.__name__ = type(layer).__name__
    return differentiated(forward, *args, **kwargs)


def rowwise(
    call: Call, parents: Sequence[Gaussian], name: str
) -> tuple[Gaussian | Tensor, torch.Size]:
    """What :func:`differentiated` returns, in rows of outputs, and the shape of the function's own.

    Args:
        call: the function of the uncertain values alone, as plain tensors ``[rows, features]``.
        parents: these values.
        name: what the function is called.
    """
    rows = {len(parent.mean) for parent in parents if parent.mean.dim() == 2}
    if len(rows) != 1 or any(parent.mean.dim() != 2 for parent in parents):
        raise _no_rule(name, "its uncertain arguments are not rows of features, of the same number")
    means = [parent.mean.detach() for parent in parents]
    _refuse_learning(call, parents, name)
    with torch.inference_mode(False), torch.enable_grad():
        leaves = [mean.clone().requires_grad_() for mean in means]
        out = _called(call, leaves, name)
        _refuse_unlike_rows(out, rows.pop(), name)
        flat = out.reshape(len(out), -1)
        probe = _Probe(call, means, flat.detach(), name)
        probe.refuse_mixed_rows()
        if not flat.requires_grad:
            probe.refuse_movement()
            return out, out.shape
        slopes = _slopes(flat, leaves) or _jacobians(flat, leaves, name)
    probe.refuse_other_slopes(slopes)
    if not probe.is_affine(slopes):
        current().approximates(name)
    return _with_moments(flat.detach(), parents, slopes), out.shape


def _with_moments(mean: Tensor, parents: Sequence[Gaussian], slopes: Sequence[Tensor]) -> Gaussian:
    pairs, var = list(zip(parents, slopes, strict=True)), torch.zeros_like(mean)
    for parent, slope in pairs:
        var += _multiplied(slope.square(), parent.var.to(var))
    operators = [(p, Scale(s) if s.dim() == 2 else RowJacobian(s)) for p, s in pairs]
    return recorded(Gaussian(mean, var), *operators)


def _multiplied(slope: Tensor, x: Tensor) -> Tensor:  # [rows, in] or [rows, out, in], [rows, in]
    return slope * x if slope.dim() == 2 else (slope @ x[:, :, None])[:, :, 0]


def _refuse_learning(call: Call, parents: Sequence[Gaussian], name: str) -> None:
    if torch.is_grad_enabled():
        out = call(*(parent.mean.clone() for parent in parents))
        if isinstance(out, Tensor) and out.requires_grad:
            raise _no_rule(name, "weights are learned through it")


def _called(call: Call, leaves: Sequence[Tensor], name: str) -> Any:
    given = [leaf.clone() for leaf in leaves]
    versions, generators = [tensor._version for tensor in given], _generators(given[0])
    out = call(*given)
    if [tensor._version for tensor in given] != versions:
        raise _no_rule(name, "it changes its arguments in place")
    if not torch.equal(generators, _generators(given[0])):
        raise _no_rule(name, "it draws random numbers")
    return out


def _generators(like: Tensor) -> Tensor:
    states = [torch.get_rng_state()]
    return torch.cat([*states, torch.cuda.get_rng_state(like.device)] if like.is_cuda else states)


def _refuse_unlike_rows(out: Any, rows: int, name: str) -> None:
    if not isinstance(out, Tensor) or not out.is_floating_point():
        raise _no_rule(name, "its result is not a tensor of real numbers")
    if out.dim() == 0 or len(out) != rows or out.numel() == 0:
        raise _no_rule(name, f"its result {tuple(out.shape)} has not {rows} rows")


def _jacobians(flat: Tensor, leaves: Sequence[Tensor], name: str) -> list[Tensor]:
    """Derivatives of each row, ``[rows, out, in]``: rows are independent, so all at once."""
    numbers = sum(flat.numel() * leaf.shape[1] for leaf in leaves)
    if numbers > MOST:
        raise _no_rule(name, f"its derivatives are {numbers:,} numbers")
    columns = [_gradients(flat[:, column], leaves) for column in range(flat.shape[1])]
    return [torch.stack(found, 1) for found in zip(*columns, strict=True)]


def _slopes(flat: Tensor, leaves: Sequence[Tensor]) -> list[Tensor] | None:
    """A slope for each number, where each is mapped by itself; else None."""
    if any(leaf.shape != flat.shape for leaf in leaves):
        return None
    by = 1 + (torch.arange(flat.shape[1], device=flat.device) * 0.6180339887).frac().to(flat)
    plain, weighted = _gradients(flat, leaves), _gradients(flat * by, leaves)
    alone = all(_alike(w, by * p) for w, p in zip(weighted, plain, strict=True))
    return plain if alone else None


def _gradients(of: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(of.sum(), leaves, retain_graph=True, allow_unused=True)
    return [
        torch.zeros_like(leaf) if slope is None else slope
        for slope, leaf in zip(found, leaves, strict=True)
    ]


def _alike(x: Tensor, y: Tensor, share: float | None = None) -> bool:
    """Whether two tensors are the same up to a share of their largest number, else to rounding."""
    if share is None:
        share = ROUNDING.get(x.dtype, ROUNDING_OTHERWISE)
    largest = float(y.nan_to_num(0, 0, 0).abs().max()) if y.numel() else 0.0
    return torch.allclose(x, y, rtol=share, atol=share * largest, equal_nan=True)


@dataclass(frozen=True)
class _Probe:
    """A function held against what is claimed about it, at points around the means."""

    call: Call
    means: list[Tensor]  # each [rows, features]
    out: Tensor  # [rows, outputs]
    name: str

    def refuse_mixed_rows(self) -> None:
        """Two rows differ in some bit of their numbers: if one moves the other, a bit shows it."""
        row = torch.arange(len(self.out), device=self.out.device)
        for bit in range((len(row) - 1).bit_length()):
            for side in (0, 1):
                moving = (row >> bit) & 1 == side
                if not _alike(self._at(0.1, moving)[~moving], self.out[~moving]):
                    raise _no_rule(self.name, "it mixes rows")

    def refuse_movement(self) -> None:
        """What has no derivatives must be a constant."""
        if not _alike(self._at(1.0), self.out):
            raise _no_rule(self.name, "it has no derivatives")

    def refuse_other_slopes(self, slopes: Sequence[Tensor]) -> None:
        """By differences: part of it may be detached, or be made of steps."""
        step = STEP.get(self.out.dtype, STEP_OTHERWISE)
        found, claimed = self._at(step) - self._at(-step), 2 * self._along(step, slopes)
        size = torch.maximum(found.norm(), claimed.norm())
        rounding = ROUNDING.get(self.out.dtype, ROUNDING_OTHERWISE) * step * self.out.norm()
        if float((found - claimed).norm()) > KINKS * float(size) + float(rounding):
            raise _no_rule(self.name, "its derivatives are not its slopes")
        if float(claimed.abs().max()) == 0:  # flat between steps, as a rounded number
            self.refuse_movement()

    def is_affine(self, slopes: Sequence[Tensor]) -> bool:
        """Whether its derivatives say all about it."""
        return _alike(self._at(1.0), self.out + self._along(1.0, slopes))

    def _at(self, step: float, rows: Tensor | None = None) -> Tensor:
        """The function a step away, at all rows or at some."""
        moved = [
            mean + (toward if rows is None else toward * rows[:, None])
            for mean, toward in zip(self.means, self._toward(step), strict=True)
        ]
        with torch.no_grad():
            out: Tensor = self.call(*moved)
        return out.reshape(self.out.shape)

    def _along(self, step: float, slopes: Sequence[Tensor]) -> Tensor:
        """What the derivatives say about such a step."""
        pairs = zip(slopes, self._toward(step), strict=True)
        return torch.stack([_multiplied(slope, toward) for slope, toward in pairs]).sum(0)

    def _toward(self, step: float) -> Iterator[Tensor]:
        """A direction as long as a share of the numbers themselves."""
        for mean in self.means:
            wave = torch.sin(torch.arange(mean.numel(), device=mean.device) + 1.0)
            size = float(mean.nan_to_num(0, 0, 0).square().mean().sqrt()) or 1.0
            yield step * size * wave.view_as(mean).to(mean)


def _mapped(tree: Any, change: Callable[[Gaussian], Any]) -> Any:
    """The same nested lists, tuples and dicts with every Gaussian changed."""
    if isinstance(tree, Gaussian):
        return change(tree)
    if isinstance(tree, dict):
        return {key: _mapped(value, change) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_mapped(value, change) for value in tree)
    return tree


def _no_rule(name: str, why: str) -> MissingRuleError:
    return MissingRuleError(
        f"no moment rule for {name}(), and it cannot be differentiated row by row: {why}",
        f'write a rule: @implements("{name}", exactness=...) above a function that returns a '
        'Gaussian, or take method="sampled"',
    )


def derivatives(rule: Rule, x: Gaussian) -> Derivatives:
    """What a rule returns and the derivatives of its mean, some rows at a time: it holds much."""
    if torch.is_grad_enabled() or x.mean.dim() != 2:
        return _at_once(rule, x)
    mean, var = x.mean, x.var
    wholes = [torch.empty_like(mean, memory_format=torch.contiguous_format) for _ in range(4)]
    for some in row_slices(len(mean), HELD * mean.shape[1], mean.device):
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
