"""A Gaussian in the guise of a tensor, handed to the user's own code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from varigraph.errors import MissingRuleError
from varigraph.moments.differentiated import rowwise
from varigraph.moments.gaussian import ABOUT, Gaussian, Operators, settled
from varigraph.moments.propagation import current
from varigraph.moments.reductions import refuse_links_by_hand
from varigraph.moments.registry import IN_PLACE, Rule, rule_for_function
from varigraph.moments.shapes import SHAPED, WAITING, Shaped, placed, positions
from varigraph.moments.softmax import Logits, passes_logits

#: What models are called with besides guises, most of the time.
PLAIN = frozenset([Tensor, Parameter, str, bool, int, float, type(None)])
#: Fresh tensors of the same kind and shape.
ALIKE = frozenset(["zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"])


#: Functions whose result is a tensor's own numbers, or some of them, seen in another way.
VIEWS = frozenset(
    [
        "__getitem__",
        "chunk",
        "contiguous",
        "detach",
        "expand",
        "expand_as",
        "flatten",
        "narrow",
        "permute",
        "ravel",
        "reshape",
        "select",
        "split",
        "squeeze",
        "swapaxes",
        "t",
        "to",
        "tensor_split",
        "transpose",
        "unbind",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
    ]
)


class _Storage:
    """How often the numbers that several guises share were changed in place."""

    version = 0


class StandIn(Operators, Tensor):  # whose operators come first
    """A :class:`Gaussian` in the guise of a tensor, handed to the user's own code.

    It is a tensor for ``isinstance`` and has a tensor's shape, type and device, so that code that
    asks takes the same branch as always. It has no numbers: every function of torch that it meets
    is answered by a rule, and what reaches its numbers by another way is refused.

    Args:
        value: what stands behind the guise.
        shared: what its numbers are part of; None where they are new.
        shape: in which the code sees the value, where that is another than its own.
    """

    _value: Gaussian
    _shared: _Storage
    _seen: int

    @staticmethod
    def __new__(  # noqa: D102
        cls, value: Gaussian, shared: _Storage | None = None, shape: torch.Size | None = None
    ) -> StandIn:
        like = value._tensor()
        guise: StandIn = Tensor._make_wrapper_subclass(
            cls, like.shape if shape is None else shape, dtype=like.dtype, device=like.device
        )
        guise._value, guise._shared = value, shared or _Storage()
        guise._seen = guise._shared.version
        return guise

    @property
    def value(self) -> Gaussian:
        """What stands behind the guise.

        Raises:
            MissingRuleError: its numbers were changed in place by way of another guise.
        """
        if self._seen != self._shared.version:
            raise MissingRuleError(
                "the model changes part of a value in place, as h[:, :4].mul_(2) does, and uses "
                "the value itself afterwards",
                'put the parts together again, h = torch.cat([...], 1), or take method="sampled"',
            )
        return settled(self._value)

    @property
    def waiting(self) -> Gaussian:
        """The same, where it may be a message that is not formed."""
        return self.value if self._seen != self._shared.version else self._value

    def change(self, value: Gaussian) -> None:
        """Change in place; what shares its numbers is of no use any more."""
        self._shared.version += 1
        self._value, self._seen = value, self._shared.version

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name, kwargs = func.__name__, kwargs or {}
        if name == "__get__":
            return _attribute(func, *args)
        if name in ABOUT:
            return _about(func, *args, **kwargs)
        if name in ALIKE:
            return func(_blank(args[0]), *args[1:], **kwargs)
        return _answer(func, *args, **kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise MissingRuleError(
            f"the model reaches for the numbers of a value by {func}, where no rule can follow",
            'compute with functions of torch, or take method="sampled"',
        )

    def __copy__(self) -> StandIn:
        return StandIn(self.value, shape=self.shape)

    def __deepcopy__(self, memo: Any) -> StandIn:
        return StandIn(self.value, shape=self.shape)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"StandIn({self._value!r})"

    # Operators of torch take an error of ours for their own word that operands do not fit.
    @staticmethod
    def answer(function: Callable[..., Any], *args: Any) -> Any:
        """Apply a rule to the values behind the guises."""
        return _answer(function, *args)


def _attribute(getter: Any, guise: StandIn, *_: Any) -> Any:
    """An attribute of a tensor that says nothing about its numbers."""
    name = getter.__self__.__name__
    if name == "data":
        return guise
    if name not in ABOUT:
        raise MissingRuleError(f"no moment rule for x.{name}", "use a function that has a rule")
    with torch._C.DisableTorchFunctionSubclass():
        return getter(guise)


def _about(function: Callable[..., Any], guise: Any, *args: Any, **kwargs: Any) -> Any:
    """What a tensor says about itself, or fresh tensors of its kind."""
    if not isinstance(guise, StandIn):  # x.size() of a plain tensor, asked with a guise for a size
        return _answer(function, guise, *args, **kwargs)
    if function.__name__.startswith("new_"):
        return function(_blank(guise), *args, **kwargs)
    with torch._C.DisableTorchFunctionSubclass():
        return function(guise, *args, **kwargs)


def _blank(guise: StandIn) -> Tensor:
    """A plain tensor of the same shape and kind that takes no memory."""
    return torch.empty((), dtype=guise.dtype, device=guise.device).expand(guise.shape)


def _answer(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a rule to the values behind the guises; in-place forms change the first one."""
    values = _map((args, kwargs), StandIn, _shaped)
    if not passes_logits(function):
        values = _map(values, Shaped, _after_softmax)
    refuse_links_by_hand(function, values)
    result = current().step(lambda: _by_rule_or_derivative(function, *values))
    if function in IN_PLACE or kwargs.get("inplace", False):
        _change(args[0], result)
        return args[0] if isinstance(args[0], StandIn) else _guise(result)
    return _guise(result, _shared_storage(function, args, result))


def _by_rule_or_derivative(function: Any, args: Any, kwargs: Any) -> Any:
    """What a rule says; without one, or where it does not fit, what derivatives say."""
    try:
        rule = rule_for_function(function)
        result = _by_rule(rule, function, args, kwargs)
        _note(result, rule)
        return result
    except MissingRuleError as missing:
        try:
            return _by_derivative(function, args, kwargs)
        except Exception:  # whatever it was, the model asked for something without a rule
            raise missing from None


def _by_derivative(function: Any, args: Any, kwargs: Any) -> Any:
    """What a function of rows does to first order, by torch."""
    parts = {each.value.number: each.formed for each in _found((args, kwargs), Shaped)}
    # What begins so makes Python's numbers, or changes values in place.
    special = function.__name__.startswith("__") or function in IN_PLACE
    if special or not all(part.axes for part in parts.values()):
        raise MissingRuleError(f"{function.__name__}() does not work row by row", "use another")

    def call(*rows: Tensor) -> Any:
        flat = dict(zip(parts, rows, strict=True))

        def seen(x: Shaped) -> Tensor:
            number = x.value.number
            lead = (-1,) if parts[number].axes == tuple(x.shape) else ()
            rows: Tensor = flat[number].reshape(*lead, *x.shape[len(lead) :])
            return rows

        given, named = _map((args, kwargs), Shaped, seen)
        return function(*given, **named)

    out, shape = rowwise(call, [part.value for part in parts.values()], function.__name__)
    return out if isinstance(out, Tensor) else Shaped(out, shape)


def _after_softmax(x: Shaped) -> Shaped:
    """The result of a softmax that turns out not to be the last step, by derivatives."""
    if not isinstance(x.value, Logits):
        return x
    softmax = x.value.function
    out, shape = rowwise(lambda rows: softmax(rows, dim=-1), [x.value.before], softmax.__name__)
    assert isinstance(out, Gaussian)
    return Shaped(out, shape)


def asking(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does not ask for rules by itself, made to."""

    @wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Any:
        call = _answer if guised((args, kwargs)) else lambda f, *a, **k: f(*a, **k)
        return call(function, *args, **kwargs)

    return ask


def aggregating(layer: Any, rule: Rule) -> Callable[..., Any]:
    """An aggregation of rows by its rule, whatever axes come after them."""

    def forward(
        x: Any, index: Any = None, ptr: Any = None, dim_size: Any = None, dim: int = -2, **more: Any
    ) -> Any:
        if not isinstance(x, StandIn):
            return rule(layer, x, index, ptr, dim_size, dim, **more)
        rows = _shaped(x)
        if dim % len(rows.shape) != 0 or rows.axes != tuple(rows.shape):
            raise MissingRuleError(
                f"{type(layer).__name__} has a rule for rows on the first axis, not on {dim}",
                'take method="sampled"',
            )
        out = current().step(lambda: rule(layer, rows.value, index, ptr, dim_size, 0, **more))
        current().note(out, rule)
        return _guise(_side_by_side(out, rows))

    return forward


def _side_by_side(out: Gaussian, rows: Shaped) -> Shaped:
    """What was brought together, in the axes of what it came from; several ways along the last."""
    (times, rest), tail = divmod(out.shape[1], rows.value.shape[1]), rows.shape[1:]
    if rest or not tail:  # a map of its own behind it, or nothing but rows
        return Shaped(out, out._tensor().shape[: 1 + len(tail)])
    whole = Shaped(out, torch.Size([len(out), times, *tail]))
    found = placed(whole, positions(whole).movedim(1, -2).flatten(-2))
    return found or Shaped(out, out._tensor().shape)


def _by_rule(rule: Rule, function: Any, args: Any, kwargs: Any) -> Any:
    """What a rule says of shaped values, shaped."""
    if function.__name__ not in WAITING:
        args, kwargs = _map((args, kwargs), Shaped, lambda x: x.formed)
    if function in SHAPED:
        return SHAPED[function](*args, **kwargs)
    shapes = [each.shape for each in _found((args, kwargs), Shaped)]
    if rule.by_number:
        plain = _map((args, kwargs), Shaped, lambda x: x.value)
        return Shaped(rule(*plain[0], **plain[1]), shapes[0])
    plain = _map((args, kwargs), Shaped, lambda x: x.seen)
    return _map(rule(*plain[0], **plain[1]), Gaussian, Shaped.of)


def _shaped(guise: StandIn) -> Shaped:
    return Shaped(guise.waiting, guise.shape)


def _note(result: Any, rule: Rule) -> None:
    _map(result, Shaped, lambda x: current().note(x.value, rule))


def _guise(tree: Any, shared: _Storage | None = None) -> Any:
    return _map(tree, Shaped, lambda x: StandIn(x.value, shared, x.shape))


def reveal(tree: Any) -> Any:
    """Replace every guise in nested lists, tuples and dicts by its value."""
    return _map(tree, StandIn, lambda guise: _shaped(guise).formed.seen)


def disguise(tree: Any, storage: _Storage | None = None) -> Any:
    """Put every Gaussian in nested lists, tuples and dicts under a guise.

    Args:
        tree: what holds them.
        storage: what their numbers are part of; None where they are new.
    """
    return _guise(_map(tree, Gaussian, Shaped.of), storage)


def guised(tree: Any) -> bool:
    """Whether a guise is anywhere in nested lists, tuples and dicts."""
    return bool(_found(tree, StandIn))


def _found(tree: Any, kind: type) -> list[Any]:
    found: list[Any] = []
    _map(tree, kind, found.append)
    return found


def _map(tree: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if type(tree) in PLAIN:
        return tree
    if isinstance(tree, kind):
        return change(tree)
    if isinstance(tree, dict):
        return {key: _map(value, kind, change) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        parts = [_map(value, kind, change) for value in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def _shared_storage(function: Callable[..., Any], args: Any, result: Any) -> _Storage | None:
    """What a result's numbers are part of, if they are somebody's already."""
    first = args[0] if args else None
    if not isinstance(first, StandIn):
        return None
    picks = function.__name__ == "__getitem__" and not _is_basic(args[1])  # which makes a copy
    shares = function.__name__ in VIEWS and not picks
    same = isinstance(result, Shaped) and result.value is first._value
    same = same and function.__name__ != "clone"
    return first._shared if shares or same else None


def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or isinstance(part, (int, slice, type(...))) for part in parts)


def _change(target: Any, result: Any) -> None:
    if isinstance(target, StandIn):
        target.change(result.value)
    elif isinstance(target, Tensor):
        # A plain tensor cannot hold a variance. Whoever reads it later must not find the old
        # numbers there: NaN is caught at the end of the pass.
        target.fill_(float("nan"))
