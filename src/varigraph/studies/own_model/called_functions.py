"""The torch functions that a network calls on its features, found by running it once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from varigraph.moments import uncovered
from varigraph.moments.gaussian import ABOUT
from varigraph.moments.registry import FUNCTIONS, Rule, rule_for_layer

#: Functions by what they are called, with their rules; None for those that have none.
Met = dict[str, Rule | None]
_met: ContextVar[Met] = ContextVar("met")

#: Operators that torch writes in Python, by the function whose rule they need.
OPERATORS: dict[Callable[..., Any], Callable[..., Any]] = {
    Tensor.__pow__: Tensor.pow,
    Tensor.__rpow__: Tensor.pow,
    Tensor.__rsub__: Tensor.sub,
    Tensor.__rtruediv__: Tensor.div,
}
#: What :func:`varigraph.moments.uncovered` calls the module that it is asked about.
ITSELF = "the model itself"
#: Questions about a tensor, which need no rule.
QUESTIONS = ABOUT | {"__len__", "__repr__", "__format__", "__hash__"}


class Watched(Tensor):
    """A tensor that notes every torch function called on it or on what came of it."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Note the function, then compute what it always does."""
        function = OPERATORS.get(func, func)
        name = getattr(function, "__name__", repr(function))
        if name in {"__get__", "__set__"}:  # an attribute, such as x.shape or x.T
            name = getattr(getattr(func, "__self__", func), "__name__", name)
        if name in QUESTIONS:  # whose answers are not uncertain: x.new_ones(3) is plain
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        _met.get({}).setdefault(name, FUNCTIONS.get(function))
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call] # torch's


def called_functions(model: nn.Module, run: Callable[[Tensor], Any], x: Tensor) -> Met:
    """Functions that the network's own code calls on the features, in the order of first calls.

    What happens inside of layers with a rule, or of layers that have none, is not looked at: it is
    the layer that is covered or not.

    Args:
        model: the network.
        run: calls it with features.
        x: the features, ``[nodes, features]``.
    """
    met: Met = {}
    if is_closed(model):
        return met
    token = _met.set(met)
    try:
        with torch.no_grad(), ExitStack() as stack:
            for module in model.modules():
                if is_closed(module):
                    stack.enter_context(_unwatched(module))
            run(x.detach().as_subclass(Watched))
    finally:
        _met.reset(token)
    return met


def is_closed(module: nn.Module) -> bool:
    """Whether a rule is for the layer as a whole, or is missing as a whole."""
    return rule_for_layer(module) is not None or ITSELF in uncovered(module)


@contextmanager
def _unwatched(layer: nn.Module) -> Iterator[None]:
    """Within it, the layer computes with plain tensors, and what it returns is watched again."""

    def before(_: nn.Module, args: Any, kwargs: Any) -> Any:
        return _each(args, Watched, Tensor), _each(kwargs, Watched, Tensor)

    def after(_: nn.Module, args: Any, kwargs: Any, out: Any) -> Any:
        return _each(out, Tensor, Watched)

    hooks = (
        layer.register_forward_pre_hook(before, with_kwargs=True),
        layer.register_forward_hook(after, with_kwargs=True),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _each(tree: Any, kind: type[Tensor], into: type[Tensor]) -> Any:
    if isinstance(tree, kind):
        with torch._C.DisableTorchFunctionSubclass():  # this is not the network's doing
            return tree.as_subclass(into) if tree.is_floating_point() else tree
    if isinstance(tree, dict):
        return {key: _each(value, kind, into) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_each(value, kind, into) for value in tree)
    return tree
