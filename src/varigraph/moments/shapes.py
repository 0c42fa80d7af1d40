"""Values of any shape: rows of features underneath, whatever the user's code makes of their axes.

Code sees ``[nodes, heads, channels]``, ``[links]`` or ``[features]``; records know rows of features
alone. A function that only moves numbers is applied to their positions and read off there: it has
picked rows, or columns, or it has moments but no response on record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from varigraph.errors import MissingRuleError
from varigraph.moments import arithmetic, layers
from varigraph.moments.gaussian import Gaussian, settled
from varigraph.moments.registry import implements, spellings
from varigraph.moments.rows import (
    MOST_HEADS,
    Picked,
    Weighted,
    picked_columns,
    picked_rows,
    side_by_side,
    stacked_rows,
)
from varigraph.moments.softmax import Logits, before_sigmoid, passes_chances, remember_logit


@dataclass(frozen=True, eq=False)
class Shaped:
    """A value, and the shape in which the user's code sees its numbers.

    Args:
        value: ``[rows, features]``.
        shape: of ``value.mean.reshape(shape)``: the numbers stand in the same order.
    """

    value: Gaussian
    shape: torch.Size

    @classmethod
    def of(cls, value: Gaussian) -> Shaped:
        """A value as a rule returned it, its numbers in rows."""
        shape = value._tensor().shape
        if len(shape) == 2:
            return cls(value, shape)
        rows = shape[0] if len(shape) > 2 else 1
        return cls(Gaussian(*(part.reshape(rows, -1) for part in (value.mean, value.var))), shape)

    @property
    def seen(self) -> Gaussian:
        """The value as the code sees it; what it responds to is known only where it is plain."""
        if self.shape == self.value._tensor().shape:
            return self.value
        return Gaussian(self.value.mean.reshape(self.shape), self.value.var.reshape(self.shape))

    @property
    def formed(self) -> Shaped:
        """The same with all of its messages formed."""
        value = settled(self.value)
        return self if value is self.value else Shaped(value, self.shape)

    @property
    def blank(self) -> Tensor:
        """A plain tensor of the same shape and kind that takes no memory."""
        like = self.value._tensor()
        return torch.empty((), dtype=like.dtype, device=like.device).expand(self.shape)

    @property
    def axes(self) -> tuple[int, ...] | None:
        """The shape with an axis of rows in front, which a single row may lack; else None."""
        rows = len(self.value)
        if self.shape and self.shape[0] == rows:
            return tuple(self.shape)
        return (1, *self.shape) if rows == 1 else None


Answer = Callable[..., Any]
#: What answers functions that look at axes: it takes and returns shaped values.
SHAPED: dict[Callable[..., Any], Answer] = {}
#: Functions that can do with messages that are not formed.
WAITING = {"index_select", "mul", "multiply", "scatter_add", "scatter_add_", "index_add"}


def shaped(*names: str) -> Callable[[Callable[[Any], Answer]], Callable[[Any], Answer]]:
    """Register what makes the answer of functions, under all of their spellings."""

    def register(make: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
        for name in names:
            for function in spellings(name) + spellings(f"{name}_"):
                SHAPED[function] = make(function)
        return make

    return register


def plainly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The same answer for values as they are, for rules that call each other."""
    found = SHAPED[function](*(_shaped(arg) for arg in args), **kwargs)
    return tuple(each.seen for each in found) if isinstance(found, tuple) else _seen(found)


def _shaped(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(isinstance(each, Gaussian) for each in value):
        return [_shaped(each) for each in value]
    return Shaped.of(settled(value)) if isinstance(value, Gaussian) else value


def _seen(value: Any) -> Any:
    return value.seen if isinstance(value, Shaped) else value


# Moving numbers


def positions(x: Shaped, first: int = 0) -> Tensor:
    """The place of every number of a value, in its shape."""
    like = x.value._tensor()
    return torch.arange(first, first + like.numel(), device=like.device).view(x.shape)


def placed(x: Shaped, position: Tensor, rows: Sequence[int] = ()) -> Shaped | None:
    """The numbers of x that stand at given positions; None if not rows and columns were picked.

    Args:
        x: the value.
        position: of each number of the result in x, in the result's shape.
        rows: numbers of rows that the result may have; what fits by default.
    """
    width, likely = x.value.shape[1], (*position.shape[:1], len(x.value), 1)
    for count in dict.fromkeys(rows or likely):
        if count == 0 or position.numel() == 0 or position.numel() % count:
            continue
        table = position.reshape(count, -1)
        row, column = table[:, 0] // width, table[0] % width
        if torch.equal(table, row[:, None] * width + column):
            return Shaped(picked_columns(picked_rows(x.value, row), column), position.shape)
    return None


PICKS = [
    "__getitem__",
    "select",
    "narrow",
    "gather",
    "take_along_dim",
    "split",
    "chunk",
    "tensor_split",
    "unbind",
    "view",
    "reshape",
    "view_as",
    "reshape_as",
    "flatten",
    "unflatten",
    "ravel",
    "squeeze",
    "unsqueeze",
    "transpose",
    "swapaxes",
    "t",
    "permute",
    "movedim",
    "expand",
    "expand_as",
    "repeat",
    "repeat_interleave",
    "flip",
    "roll",
]
STAYS = ["contiguous", "clone", "detach"]
CONVERTS = ["to", "float", "double", "half", "bfloat16", "cpu", "cuda", "type_as"]
#: All functions that change no number.
MOVES = [*PICKS, "index_select", *STAYS, *CONVERTS]
WAITING |= {"index_add_", *PICKS, *STAYS}


@shaped(*PICKS)
def _moving(function: Any) -> Answer:
    def move(x: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple(arg.blank if isinstance(arg, Shaped) else arg for arg in args)
        if not isinstance(x, Shaped):  # index.expand_as(x)
            return function(x, *args, **kwargs)
        if isinstance(x.value, Logits):
            return _of_logits(move, x, args, kwargs)
        where = function(positions(x), *args, **kwargs)
        found = [placed(x, each) for each in ([where] if isinstance(where, Tensor) else where)]
        if any(each is None for each in found):
            return _moments_alone(function, x, args, kwargs)
        if isinstance(where, Tensor):
            return _remembering(found[0], x, function, move, args, kwargs)
        return tuple(found)

    return move


def _remembering(
    found: Any, x: Shaped, function: Any, move: Answer, args: Any, kwargs: Any
) -> Shaped:
    """What was moved; if it is the result of a sigmoid, with what stood before, moved alike."""
    before = before_sigmoid(x.value) if passes_chances(function) else None
    if before is not None and found.value is not x.value:
        remember_logit(found.value, before=move(Shaped(before, x.shape), *args, **kwargs).value)
    moved: Shaped = found
    return moved


def _of_logits(move: Answer, x: Shaped, args: Any, kwargs: Any) -> Shaped:
    assert isinstance(x.value, Logits)
    found = move(Shaped(x.value.before, x.shape), *args, **kwargs)
    return Shaped(Logits(found.value, x.value.function), found.shape)


def _moments_alone(function: Any, x: Shaped, args: Any, kwargs: Any) -> Any:
    """The same numbers elsewhere; records know nothing of how they got there."""
    seen = x.seen
    mean, var = (function(part, *args, **kwargs) for part in (seen.mean, seen.var))
    if isinstance(mean, Tensor):
        return Shaped.of(Gaussian(mean, var))
    return tuple(Shaped.of(Gaussian(m, v)) for m, v in zip(mean, var, strict=True))


@shaped(*STAYS)
def _staying(function: Any) -> Answer:
    return lambda x, *_, **__: x


@shaped(*CONVERTS)
def _converting(function: Any) -> Answer:
    def convert(x: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple(arg.blank if isinstance(arg, Shaped) else arg for arg in args)
        if not isinstance(x, Shaped):
            return function(x, *args, **kwargs)
        like = x.value._tensor()
        if function(like[:0], *args, **kwargs).dtype == like.dtype:
            return x
        mean = function(x.value.mean, *args, **kwargs)
        return Shaped(layers.rescaled(x.value, mean, mean.new_ones(())), x.shape)

    return convert


@shaped("index_select")
def _selecting(function: Any) -> Answer:
    def select(x: Any, dim: int, index: Tensor) -> Any:
        if not isinstance(x, Shaped):
            raise MissingRuleError("index_select() by uncertain numbers has no rule", "x[rows]")
        if isinstance(x.value, Logits):
            return _of_logits(select, x, (dim, index), {})
        if dim % len(x.shape) == 0 and x.axes == tuple(x.shape):
            return Shaped(Picked(x.value, index), torch.Size([len(index), *x.shape[1:]]))
        found = placed(x, function(positions(x), dim, index))
        return found or _moments_alone(function, x, (dim, index), {})

    return select


def moves_alike(function: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a function that moves numbers about."""

    def move(*args: Any, **kwargs: Any) -> Any:
        return plainly(function, *args, **kwargs)

    move.__qualname__ = function.__name__
    return move


for _name in MOVES:
    for _function in spellings(_name):
        implements(
            _function,
            exactness="exact",
            modules=[nn.Identity, nn.Flatten, nn.Sequential, nn.ModuleList, nn.ModuleDict],
        )(moves_alike(_function))


@shaped("cat", "concat", "concatenate", "stack")
def _joining(function: Any) -> Answer:
    def join(tensors: Sequence[Any], dim: int = 0) -> Shaped:
        parts = [each if isinstance(each, Shaped) else _certain(each) for each in tensors]
        values: list[Any] = [
            part.value if isinstance(each, Shaped) else part.value.mean
            for each, part in zip(tensors, parts, strict=True)
        ]
        first = [0]
        for part in parts:
            first.append(first[-1] + part.value._tensor().numel())
        place = function([positions(p, at) for p, at in zip(parts, first, strict=False)], dim)
        if dim % place.dim() == 0 and all(part.axes == tuple(part.shape) for part in parts):
            return Shaped(stacked_rows(values), place.shape)
        found = _side_by_side(values, torch.tensor(first), place)
        if found is not None:
            return Shaped(found, place.shape)
        seen = [part.seen for part in parts]
        joined = (function(part, dim) for part in ([s.mean for s in seen], [s.var for s in seen]))
        return Shaped.of(Gaussian(*joined))

    return join


def _certain(tensor: Tensor) -> Shaped:
    return Shaped.of(Gaussian(tensor, torch.zeros_like(tensor)))


def _side_by_side(values: list[Any], first: Tensor, place: Tensor) -> Gaussian | None:
    """Columns of several values, from the place of each number in all of them."""
    rows, widths = {len(value) for value in values}, [value.shape[1] for value in values]
    if len(rows) == 1 and (count := rows.pop()) > 0 and place.numel() > 0:
        table = place.reshape(count, -1).cpu()
        owner = torch.searchsorted(first, table[0], right=True) - 1
        step = torch.arange(count)[:, None] * torch.tensor(widths)[owner]
        if torch.equal(table, table[0] + step):
            return side_by_side(values, owner, table[0] - first[owner])
    return None


@implements("cat", "concat", "concatenate", exactness="exact")
def cat(tensors: Sequence[Gaussian | Tensor], dim: int = 0) -> Gaussian:
    """Moments side by side; certain parts have variance zero."""
    found: Gaussian = plainly(torch.cat, tensors, dim)
    return found


@implements("stack", exactness="exact")
def stack(tensors: Sequence[Gaussian | Tensor], dim: int = 0) -> Gaussian:
    """Moments stacked along a new axis; certain parts have variance zero."""
    found: Gaussian = plainly(torch.stack, tensors, dim)
    return found


# Arithmetic


@shaped(*arithmetic.OF_TWO)
def _broadcasting(function: Any) -> Answer:
    rule = arithmetic.OF_TWO[function.__name__.rstrip("_")]

    def compute(x: Any, other: Any, **options: Any) -> Shaped:
        both = x, other
        weighted = _weighted(*both) or _weighted(other, x) if rule is arithmetic.mul else None
        if weighted is not None:
            return weighted
        if x is other:
            return Shaped(rule(x.value, x.value, **options), x.shape)
        shape = torch.broadcast_shapes(*(getattr(each, "shape", ()) for each in both))
        known = [len(e.value) for e in both if isinstance(e, Shaped) and e.shape == shape]
        rows = known[0] if known else shape[0] if shape else 1
        flat = [_expanded(each, shape, rows) for each in both]
        if any(each is None for each in flat):
            seen = (each.seen if isinstance(each, Shaped) else each for each in both)
            return Shaped.of(rule(*seen, **options))
        return Shaped(rule(*flat, **options), shape)

    return compute


def _weighted(sent: Any, weight: Any) -> Shaped | None:
    """Messages by a weight for each head, where that is what these two are."""
    if not isinstance(sent, Shaped) or not isinstance(sent.value, Picked):
        return None
    shape = getattr(weight, "shape", ())
    if tuple(shape) != (*sent.shape[:-1], 1) or torch.Size(shape[1:]).numel() > MOST_HEADS:
        return None
    like = sent.value._tensor()
    weight = settled(weight.value) if isinstance(weight, Shaped) else weight.flatten(1).to(like)
    return Shaped(Weighted(sent.value, weight), sent.shape)


def _expanded(x: Any, shape: torch.Size, rows: int) -> Any:
    """A value, or a number, in rows of a shape."""
    if isinstance(x, Shaped):
        if x.shape == shape and len(x.value) == rows:
            return settled(x.value)
        found = placed(x, positions(x).expand(shape), [rows])
        return None if found is None else found.value
    fits = not isinstance(x, Tensor) or x.dim() == 0 or (len(shape) == 2 and rows == shape[0])
    return x if fits else _in_rows(x, shape, rows)


def _in_rows(x: Tensor, shape: torch.Size, rows: int) -> Tensor:  # [rows or 1, features or 1]
    """A certain tensor in rows of a shape, once where it is the same for all rows or columns."""
    if not shape or rows != shape[0]:
        return x.expand(shape).reshape(rows, -1)
    x = x.reshape(*[1] * (len(shape) - x.dim()), *x.shape)
    if x.shape[1:].numel() == 1:
        return x.reshape(-1, 1)
    return x.expand(-1, *shape[1:]).reshape(len(x), -1)
