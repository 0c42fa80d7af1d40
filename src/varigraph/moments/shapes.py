"""Operations that only move numbers about: mean and variance move alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from varigraph.moments.gaussian import Gaussian
from varigraph.moments.operators import Columns, Sum
from varigraph.moments.propagation import recorded
from varigraph.moments.registry import implements, spellings
from varigraph.moments.softmax import Logits
from varigraph.moments.sparse import Sparse

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
