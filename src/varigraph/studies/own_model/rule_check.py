"""Which rule each layer and function of a network has, and what method follows from that."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from varigraph.choices import Task
from varigraph.data.graph_parts import links
from varigraph.errors import OptionError
from varigraph.moments import uncovered
from varigraph.moments.gaussian import ABOUT
from varigraph.moments.registry import FUNCTIONS, TRANSPARENT, Rule, rule_for_layer
from varigraph.moments.shapes import MOVES, moves_alike
from varigraph.prediction.auto import foreseen
from varigraph.prediction.calling import Forward, caller
from varigraph.prediction.passes import NO_DROPOUT
from varigraph.prediction.predict import ask

NO_RULE = "no rule: is sampled"
DERIVED = "no rule: by derivatives"
OWN_CODE = "runs as it is"
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


@dataclass(frozen=True)
class RuleRow:
    """One layer or function.

    Args:
        where: the layer's name in the network, or the function's own.
        kind: its class; ``function`` for functions.
        rule: the rule's name, or :data:`NO_RULE`, or :data:`DERIVED` for functions of rows, or
            :data:`OWN_CODE` for modules that are followed as they are written.
        exactness: what the rule promises.
        note: what it assumes, or why there is none.
    """

    where: str
    kind: str
    rule: str
    exactness: str = ""
    note: str = ""

    @property
    def covered(self) -> bool:
        """Whether nothing is missing."""
        return self.rule != NO_RULE

    @property
    def derived(self) -> bool:
        """Whether derivatives take the place of a rule."""
        return self.rule == DERIVED


@dataclass(frozen=True)
class RuleCheck:
    """What was found about a network.

    Args:
        layers: its modules; those inside of a layer that is sampled are left out.
        functions: that its own code calls on the features; None where it was not run.
        method: that ``auto`` takes.
        reason: why.
    """

    layers: tuple[RuleRow, ...]
    functions: tuple[RuleRow, ...] | None
    method: str
    reason: str

    @property
    def covered(self) -> bool:
        """Whether everything that was looked at has a rule."""
        return all(row.covered for row in (*self.layers, *(self.functions or ())))

    def record(self) -> dict[str, Any]:
        """All of it, as a JSON object."""
        functions = None if self.functions is None else [asdict(row) for row in self.functions]
        return {
            "layers": [asdict(row) for row in self.layers],
            "functions": functions,
            "covered": self.covered,
            "method": self.method,
            "reason": self.reason,
        }


def rule_check(
    model: nn.Module,
    graph: Data | None = None,
    *,
    forward: Forward | None = None,
    task: Task = "classification",
    memory: int | str = "half",
) -> RuleCheck:
    """Look up the rules of all layers and, by running it, of the functions that a network calls.

    Args:
        model: the network.
        graph: to run it on; without one only layers are looked at.
        forward: how to call the model, see :func:`varigraph.predict`; also for the next two.
        task: what its output means.
        memory: bound on what is computed at once.

    Raises:
        OptionError: if the task or the amount of memory is not valid.
        ModelError: if the network does something that no method can follow.
    """
    if task not in get_args(Task):
        raise OptionError(f"task={task!r} is unknown", f"one of {list(get_args(Task))}")
    layers = tuple(layer_rows(model))
    if graph is None:
        return RuleCheck(layers, None, *_presumed(model))
    called = called_functions(model, caller(model, graph, forward), graph.x)
    method, reason = _verdict(model, graph, forward=forward, task=task, memory=memory)
    none = NO_RULE if method == "sampled" else DERIVED
    functions = tuple(_row(f"{name}()", "function", rule, none) for name, rule in called.items())
    return RuleCheck(layers, functions, method, reason)


def layer_rows(model: nn.Module) -> Iterator[RuleRow]:
    """The modules of a network and their rules.

    Args:
        model: the network.
    """
    missing = uncovered(model)
    sampled: list[str] = []
    for name, module in model.named_modules():
        where, kind = name or ITSELF, type(module).__name__
        if any(layer == ITSELF or name.startswith(f"{layer}.") for layer in sampled):
            continue
        rule = rule_for_layer(module) or TRANSPARENT.get(type(module))
        if where in missing:
            sampled.append(where)
            yield RuleRow(where, kind, NO_RULE, note=missing[where])
        elif rule is not None and not isinstance(module, CONTAINERS) and "aggr_module" not in name:
            yield _row(where, kind, rule)
        elif rule is None and (module is model or not _is_part(module)):
            yield RuleRow(where, kind, OWN_CODE)


def _is_part(module: nn.Module) -> bool:
    """Whether it is torch_geometric's own, and belongs to the layer above it."""
    own = type(module).__module__.startswith("torch_geometric.")
    return own and not isinstance(module, MessagePassing)


def _row(where: str, kind: str, rule: Rule | None, none: str = NO_RULE) -> RuleRow:
    if rule is None:
        return RuleRow(where, kind, none)
    return RuleRow(where, kind, rule_name(rule), rule.exactness, rule.note)


def rule_name(rule: Rule) -> str:
    """The file and the function that a rule is, as the table of rules has them.

    Args:
        rule: of the registry.
    """
    function = moves_alike if set(rule.names) <= set(MOVES) else rule.apply
    return f"{function.__module__}.{function.__name__}".removeprefix("varigraph.moments.")


def _presumed(model: nn.Module) -> tuple[str, str]:
    missing = uncovered(model)
    if missing:
        return "sampled", f"no moment rule for {len(missing)} layer(s) of {type(model).__name__}"
    return "first-order", "every layer has a rule; give a GRAPH to see the functions as well"


def _verdict(
    model: nn.Module, graph: Data, *, forward: Forward | None, task: Task, memory: int | str
) -> tuple[str, str]:
    """What ``auto`` does, judged by the node with the most links, which has the most walks."""
    ends = links(graph)
    busiest = 0
    if ends is not None and ends.numel():
        busiest = int(torch.bincount(ends[1]).argmax())
    question = ask(model, graph, forward=forward, task=task, memory=memory, nodes=[busiest])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=re.escape(NO_DROPOUT))
        return foreseen(question)


#: Functions by what they are called, with their rules; None for those that have none.
CalledFunctions = dict[str, Rule | None]
_called: ContextVar[CalledFunctions] = ContextVar("called")

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
    """A tensor that notes every torch function called on it or on results of it."""

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
        _called.get({}).setdefault(name, FUNCTIONS.get(function))
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call] # torch's


def called_functions(model: nn.Module, run: Callable[[Tensor], Any], x: Tensor) -> CalledFunctions:
    """Functions that the network's own code calls on the features, in the order of first calls.

    What happens inside of layers with a rule, or of layers that have none, is not looked at: it is
    the layer that is covered or not.

    Args:
        model: the network.
        run: calls it with features.
        x: the features, ``[nodes, features]``.
    """
    called: CalledFunctions = {}
    if is_closed(model):
        return called
    token = _called.set(called)
    try:
        with torch.no_grad(), ExitStack() as stack:
            for module in model.modules():
                if is_closed(module):
                    stack.enter_context(_unwatched(module))
            run(x.detach().as_subclass(Watched))
    finally:
        _called.reset(token)
    return called


def is_closed(module: nn.Module) -> bool:
    """Whether a rule is for the layer as a whole, or is missing as a whole."""
    return rule_for_layer(module) is not None or ITSELF in uncovered(module)


@contextmanager
def _unwatched(layer: nn.Module) -> Iterator[None]:
    """Within it, the layer computes with plain tensors, and what it returns is watched again.

    Unless it is part of a layer that is not looked into itself, and was given plain tensors.
    """
    from_outside: list[bool] = []

    def before(_: nn.Module, args: Any, kwargs: Any) -> Any:
        from_outside.append(_holds_watched((args, kwargs)))
        return _recast(args, Watched, Tensor), _recast(kwargs, Watched, Tensor)

    def after(_: nn.Module, args: Any, kwargs: Any, out: Any) -> Any:
        return _recast(out, Tensor, Watched) if from_outside.pop() else out

    hooks = (
        layer.register_forward_pre_hook(before, with_kwargs=True),
        layer.register_forward_hook(after, with_kwargs=True),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _holds_watched(tree: Any) -> bool:
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        return isinstance(tree, Watched)
    return any(map(_holds_watched, tree))


def _recast(tree: Any, kind: type[Tensor], into: type[Tensor]) -> Any:
    if isinstance(tree, kind):
        with torch._C.DisableTorchFunctionSubclass():  # this is not the network's doing
            return tree.as_subclass(into) if tree.is_floating_point() else tree
    if isinstance(tree, dict):
        return {key: _recast(value, kind, into) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_recast(value, kind, into) for value in tree)
    return tree
