"""One run of a plain network: dropout gets its masks, softmax and memory are watched."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from varigraph.choices import Task
from varigraph.errors import ModelError
from varigraph.moments.gaussian import ABOUT
from varigraph.moments.softmax import passes_chances, passes_logits
from varigraph.prediction.masks import Site
from varigraph.prediction.network_call import refuse_own_dropout
from varigraph.prediction.tasks import looks_through_sigmoid, looks_through_softmax
from varigraph.sparse import product


class HeldTensors:
    """Counts the bytes of tensors that functions returned, as long as somebody holds them.

    What is given to a function and came from none (features, weights, links) is not counted, nor
    are its views.
    """

    def __init__(self) -> None:
        self._made: list[tuple[weakref.ref[Tensor], list[tuple[int, int]]]] = []
        self._given: dict[int, weakref.ref[Tensor]] = {}

    def note(self, args: Iterable[Any], result: Any) -> int:
        """What is held once a function has been called, in bytes.

        Args:
            args: its arguments.
            result: what it returned.
        """
        self._made = [(made, where) for made, where in self._made if made() is not None]
        known = self._bytes_by_place()
        for tensor in _tensors(args):
            for place, _ in _storages(tensor):
                if place not in known:
                    self._given[place] = weakref.ref(tensor)
        self._made += [(weakref.ref(each), _storages(each)) for each in _tensors([result])]
        given = {place for place, tensor in self._given.items() if tensor() is not None}
        found = self._bytes_by_place()
        return sum(size for place, size in found.items() if place not in given)

    def _bytes_by_place(self) -> dict[int, int]:
        return {place: size for _, where in self._made for place, size in where}


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (tuple, list, ValuesView)):
            yield from _tensors(value)


def _storages(tensor: Tensor) -> list[tuple[int, int]]:
    """Addresses and sizes of what holds a tensor's numbers."""
    if tensor.layout == torch.sparse_csr:
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        return [pair for part in parts for pair in _storages(part)]
    try:
        storage = tensor.untyped_storage()
        return [(storage.data_ptr(), storage.nbytes())]
    except (RuntimeError, NotImplementedError):  # tensors of other kinds have no storage to ask
        return []


#: The mask for a place where dropout acts, whole or as blocks of rows, one after the other.
Masking = Callable[[Site, int], Tensor | Iterator[Tensor]]
DROPOUT = frozenset({F.dropout, torch.dropout, torch.dropout_})
SOFTMAX = frozenset({F.softmax, torch.softmax, Tensor.softmax,
                     F.log_softmax, torch.log_softmax, Tensor.log_softmax})  # fmt: skip
SIGMOID = frozenset({F.sigmoid, torch.sigmoid, torch.sigmoid_, Tensor.sigmoid, Tensor.sigmoid_,
                     torch.special.expit, F.logsigmoid})  # fmt: skip
IN_PLACE_SIGMOID = frozenset({torch.sigmoid_, Tensor.sigmoid_})
MATMUL = frozenset({torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__})


class _LastStep(NamedTuple):
    """The result of a softmax or sigmoid, and what stood before it, if that is known."""

    result: Tensor
    logits: Tensor | None
    sigmoid: bool
    version: int  # torch counts changes in place: a changed result is no last step

    def moved_by(self, function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
        """Whether a function moves the result's numbers, each with its logit."""
        alike = passes_chances(function) if self.sigmoid else passes_logits(function)
        return alike and self.returned(args[0])

    def returned(self, out: Any) -> bool:
        """Whether the result is what was returned, as it was."""
        return out is self.result and _version(out) == self.version


class FixedProducts:
    """Linear maps of features that are the same in all runs: each is computed once.

    Args:
        x: the features, ``[nodes, features]``.
    """

    def __init__(self, x: Tensor) -> None:
        self._x = x
        self._known: dict[tuple[Tensor, ...], _Fixed] = {}

    @property
    def bytes(self) -> int:
        """Memory of what is kept."""
        return sum(kept.result.nbytes for kept in self._known.values())

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """``F.linear``."""
        given = (x, weight) if bias is None else (x, weight, bias)
        if x is not self._x or torch.is_grad_enabled() or any(map(torch.is_inference, given)):
            return F.linear(x, weight, bias)
        kept = self._known.get(given)
        if kept is None or kept.versions != _versions((*given, kept.result)):
            result = F.linear(x, weight, bias)
            kept = self._known[given] = _Fixed(result, _versions((*given, result)))
        return kept.result


class _Fixed(NamedTuple):
    """A result, and how often torch had seen it and what it was made of changed by then."""

    result: Tensor
    versions: list[int]


def _versions(tensors: Iterable[Tensor]) -> list[int]:
    return [each._version for each in tensors]


class PlainRun(TorchFunctionMode):
    """While this is open, torch functions that the network calls go through here.

    ``masking`` gives the mask for a place where dropout acts; None leaves values as they are.
    ``masked`` says that dropout acts although the model is in evaluation mode, ``looked_through``
    that a softmax or sigmoid was the last step. ``given`` are the links that the network is handed,
    where some of them are removed.

    Args:
        maps: matrices to use in the place of others.
        fixed: knows linear maps of features that are the same in all runs.
    """

    def __init__(self, maps: Mapping[Tensor, Tensor], fixed: FixedProducts | None = None) -> None:
        super().__init__()
        self._faster: dict[Any, Callable[..., Any]] = {torch.sparse.mm: product}
        if fixed is not None:
            self._faster[F.linear] = fixed.linear
        self.sites: list[Site] = []
        self.masking, self.masked, self._maps = cast(Masking | None, None), False, maps
        self.given = cast(Sequence[Tensor], ())
        self._last: _LastStep | None = None
        self.looked_through = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in DROPOUT:
            return self._dropout(*args, **kwargs, in_place=func is torch.dropout_)
        if self._maps and (func is F.linear or func in MATMUL):
            args = tuple(self._maps.get(arg, arg) for arg in args)
        before = args[0].clone() if func in IN_PLACE_SIGMOID else None
        result = self._faster.get(func, func)(*args, **kwargs)
        if func in SOFTMAX:
            self._end(result, _logits(*args, **kwargs), sigmoid=False)
        elif func in SIGMOID:
            self._end(result, args[0] if before is None else before, sigmoid=True)
        elif self._last is not None and self._last.moved_by(func, args):
            logits = self._last.logits
            moved = None if logits is None else func(logits, *args[1:], **kwargs)
            self._end(result, moved, sigmoid=self._last.sigmoid)
        return result

    def _end(self, result: Tensor, logits: Tensor | None, *, sigmoid: bool) -> None:
        self._last = _LastStep(result, logits, sigmoid, _version(result))

    def _dropout(self, *args: Any, in_place: bool, **kwargs: Any) -> Tensor:
        x, p, on, inplace = _dropout_arguments(*args, **kwargs)
        if p == 0 or not (on or self.masked):
            return x
        refuse_own_dropout(p)
        site = Site(x.shape, p)
        self.sites.append(site)
        if self.masking is None:
            return x
        mask = self.masking(site, len(self.sites) - 1)
        return _masked(x, mask, in_place=inplace or in_place)

    def logits(self, out: Any, task: Task) -> Tensor:
        """What stood before a softmax or sigmoid that was the last step; else the answer."""
        if not isinstance(out, Tensor):
            raise ModelError(
                f"the forward returned a {type(out).__name__}, not one value per node",
                "return a tensor, or a tuple, list or dict of which output= names one",
            )
        last = self._last
        if last is None or not last.returned(out):
            return out
        if not (looks_through_sigmoid if last.sigmoid else looks_through_softmax)(task):
            return out
        self.looked_through = True
        if last.logits is None:
            raise ModelError(
                "the model ends in a softmax over another axis than its last one",
                "the classes must be the last axis: softmax(x, dim=-1)",
            )
        return last.logits


def _version(tensor: Tensor) -> int:
    """How often a tensor was changed in place; of one that vmap batches, what it wraps knows."""
    while is_batchedtensor(tensor):
        tensor = get_unwrapped(tensor)
    return tensor._version


def _masked(x: Tensor, mask: Tensor | Iterator[Tensor], *, in_place: bool) -> Tensor:
    if isinstance(mask, Tensor):
        return x.mul_(mask.to(x)) if in_place else x * mask.to(x)
    out, start = x if in_place else torch.empty_like(x), 0
    for block in mask:
        rows = slice(start, start + len(block))
        torch.mul(x[rows], block.to(x), out=out[rows])
        start = rows.stop
    return out


def _dropout_arguments(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    train: bool = True,
) -> tuple[Tensor, float, bool, bool]:
    """What was asked of ``F.dropout`` (``training``) or ``torch.dropout`` (``train``)."""
    return input, p, training and train, inplace


def _logits(x: Tensor, dim: int | None = None, *_: Any, **__: Any) -> Tensor | None:
    """The argument of a softmax over the last axis; None for other axes."""
    if dim is None:  # deprecated in torch: it means the second of two axes
        dim = 1
    return x if dim in (-1, x.dim() - 1) else None


def _computes(func: Callable[..., Any], result: Any) -> bool:
    """Whether a function made numbers, rather than answered a question about a tensor."""
    made = isinstance(result, (Tensor, tuple, list)) and not isinstance(result, torch.Size)
    return made and func.__name__ not in ABOUT


class FirstRun(PlainRun):
    """A pass that finds out about the network.

    Attributes:
        widest: numbers in the largest tensor.
        peak: bytes of all that was held at once.
        matrices: the network's own matrices that multiplied something of the features' width.
        used: whether anything was computed from the links that the network is handed, as far as
            torch's functions tell.
    """

    def __init__(
        self, maps: Mapping[Tensor, Tensor], own: frozenset[Tensor], width: int, held: HeldTensors
    ) -> None:
        super().__init__(maps)
        self.widest, self.peak, self.matrices = 0, 0, dict[Tensor, bool]()
        self.used = False
        self._own, self._width, self._held = own, width, held

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if (func is F.linear or func in MATMUL) and len(args) > 1 and args[1] in self._own:
            transposed = func is F.linear
            if args[1].shape[-1 if transposed else 0] == self._width:
                self.matrices[args[1]] = transposed
        result = super().__torch_function__(func, types, args, kwargs)
        if not self.used and self.given and _computes(func, result):
            named = (*args, *(kwargs or {}).values())
            self.used = any(value is one for value in named for one in self.given)
        self.peak = max(self.peak, self._held.note((args, (kwargs or {}).values()), result))
        if isinstance(result, Tensor) and result.layout == torch.strided:
            self.widest = max(self.widest, result.numel())
        return result
