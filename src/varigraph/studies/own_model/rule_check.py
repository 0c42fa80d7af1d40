"""Which rule each layer and function of a network has, and what method follows from that."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, get_args

import torch
from torch import nn
from torch_geometric.data import Data

from varigraph.data.graph_parts import links
from varigraph.errors import MissingRuleError, OptionError, TooLargeError
from varigraph.moments import uncovered
from varigraph.moments.registry import TRANSPARENT, Rule, rule_for_layer
from varigraph.moments.shapes import MOVES, moves_alike
from varigraph.prediction.auto import FEW_DRAWS
from varigraph.prediction.first_order.method import first_order
from varigraph.prediction.masked import NO_DROPOUT
from varigraph.prediction.network_call import Forward, caller
from varigraph.prediction.predict import ask
from varigraph.prediction.prediction import Task
from varigraph.studies.own_model.called_functions import ITSELF, called_functions

NO_RULE = "no rule: is sampled"
OWN_CODE = "runs as it is"
CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


@dataclass(frozen=True)
class Row:
    """One layer or function.

    Args:
        where: the layer's name in the network, or the function's own.
        kind: its class; ``function`` for functions.
        rule: the rule's name, or :data:`NO_RULE`, or :data:`OWN_CODE` for modules that only call
            others.
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


@dataclass(frozen=True)
class RuleCheck:
    """What was found about a network.

    Args:
        layers: its modules; those inside of a layer that is sampled are left out.
        functions: that its own code calls on the features; None where it was not run.
        method: that ``auto`` takes.
        reason: why.
    """

    layers: tuple[Row, ...]
    functions: tuple[Row, ...] | None
    method: str
    reason: str

    @property
    def covered(self) -> bool:
        """Whether everything has a rule, as far as was looked."""
        return all(row.covered for row in (*self.layers, *(self.functions or ())))

    def record(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
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
    memory: int | str = "1GiB",
) -> RuleCheck:
    """Look up the rules of all layers and, by running it, of the functions that a network calls.

    Args:
        model: the network.
        graph: to run it on; without one only layers are looked at.
        forward: how to call the model, see :func:`varigraph.predict`; and so for the next two.
        task: what its output means.
        memory: bound on what is computed at once.

    Raises:
        OptionError: if the task or the amount of memory is none.
        ModelError: if the network does something that no method can follow.
    """
    if task not in get_args(Task):
        raise OptionError(f"task={task!r} is unknown", f"one of {list(get_args(Task))}")
    layers = tuple(layer_rows(model))
    if graph is None:
        return RuleCheck(layers, None, *_presumed(model))
    met = called_functions(model, caller(model, graph, forward), graph.x)
    functions = tuple(_row(f"{name}()", "function", rule) for name, rule in met.items())
    method, reason = _verdict(model, graph, forward=forward, task=task, memory=memory)
    return RuleCheck(layers, functions, method, reason)


def layer_rows(model: nn.Module) -> Iterator[Row]:
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
            yield Row(where, kind, NO_RULE, note=missing[where])
        elif rule is not None and not isinstance(module, CONTAINERS):
            yield _row(where, kind, rule)
        elif rule is None and (module is model or not _is_part(module)):
            yield Row(where, kind, OWN_CODE)


def _is_part(module: nn.Module) -> bool:
    """Whether it is torch_geometric's own, and belongs to the layer above it."""
    return type(module).__module__.startswith("torch_geometric.")


def _row(where: str, kind: str, rule: Rule | None) -> Row:
    if rule is None:
        return Row(where, kind, NO_RULE)
    return Row(where, kind, rule_name(rule), rule.exactness, rule.note)


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
    """What ``auto`` does, judged by the node with the most links: its walks are many."""
    ends = links(graph)
    busiest = 0
    if ends is not None and ends.numel():
        busiest = int(torch.bincount(ends[1]).argmax())
    question = ask(model, graph, forward=forward, task=task, memory=memory, nodes=[busiest])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=re.escape(NO_DROPOUT))
            answer = first_order(question)
    except (MissingRuleError, TooLargeError) as error:
        return "sampled", error.problem.splitlines()[0].rstrip(":")
    if answer.approximate:
        names = ", ".join(answer.approximate)
        return "first-order", f"if {FEW_DRAWS} draws agree with the approximate rule of {names}"
    return "first-order", "every layer has a rule"
