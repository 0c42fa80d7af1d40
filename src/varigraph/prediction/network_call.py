"""The user's network, opened and run, dropout injected if asked; what is said where it fails."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch_geometric.nn as gnn
from torch import Tensor, nn
from torch.nn import functional as F

from varigraph.choices import Task
from varigraph.data.kinds import StackedGraph
from varigraph.errors import MissingRuleError, ModelError, OptionError, VarigraphError
from varigraph.moments import Gaussian, StandIn
from varigraph.moments.propagation import Propagation, current
from varigraph.moments.running import running
from varigraph.moments.softmax import Logits, before_sigmoid
from varigraph.options import place_of
from varigraph.prediction.calling import Run, does_not_run
from varigraph.prediction.question import refuse_scripted
from varigraph.prediction.sources.source import considered
from varigraph.prediction.tasks import check_rows, looks_through_sigmoid, looks_through_softmax

if TYPE_CHECKING:
    from varigraph.prediction.question import Question


def plain_answer(model: nn.Module, run: Run, x: Tensor) -> Any:  # [nodes, features]
    """What a network itself answers in evaluation mode, from one run.

    Args:
        model: the network, which is as before afterwards.
        run: calls it, see :func:`~varigraph.prediction.calling.caller`.
        x: the features.

    Raises:
        ModelError: the network cannot be run; what it complained about is quoted.
    """
    try:
        with torch.no_grad(), running(model, by_rules=False, device=x.device):
            return run(x.clone())
    except VarigraphError:
        raise
    except Exception as error:
        raise does_not_run(model, x, error, run) from error


@contextmanager
def opened(question: Question, *, by_rules: bool) -> Iterator[None]:
    """The model of a question, ready to be run, under the influence of what is uncertain.

    Args:
        question: what is asked.
        by_rules: on stand-ins, see :func:`~varigraph.moments.running.running`; else on plain
            tensors.
    """
    device = question.x.mean.device
    if by_rules:
        refuse_scripted(question.model)
        _refuse_links_of_kinds(question)
    with ExitStack() as stack:
        stack.enter_context(running(question.model, by_rules=by_rules, device=device))
        for source in considered(question):
            stack.enter_context(source.acting(question, plain=not by_rules))
        yield


def _refuse_links_of_kinds(question: Question) -> None:
    """Raises where links of several kinds may be missing: rules know them by numbers of nodes."""
    if isinstance(question.graph, StackedGraph) and question.links is not None:
        raise MissingRuleError(
            "links of several kinds that may be missing have no closed form", 'method="sampled"'
        )


class Answer(NamedTuple):
    """What a model returned.

    Args:
        value: that; what stood before a last softmax or sigmoid, if there was one.
        logits: whether there was.
    """

    value: Gaussian
    logits: bool


def answer_of(out: Any, task: Task) -> Answer:
    """The value behind what a model returned, before its last softmax or sigmoid."""
    if isinstance(out, StandIn):
        check_rows(out.shape)
        value = out.value
        if isinstance(value, Logits):
            return Answer(value.before, looks_through_softmax(task))
        before = before_sigmoid(value)
        if before is not None and looks_through_sigmoid(task):
            return Answer(before, logits=True)
        return Answer(value, logits=False)
    if isinstance(out, Tensor):
        raise does_not_depend()
    raise ModelError(
        f"the forward returned a {type(out).__name__}, not one value per node that depends on x",
        "return a tensor, or a tuple, list or dict of which output= names one",
    )


def does_not_depend() -> ModelError:
    """What is said where the uncertain features never reach the answer."""
    return ModelError(
        "the answer does not depend on the x that the model is called with, which is uncertain",
        "let forward= and the model use the x that they are given, not data.x or a copy that was "
        "kept; or leave the features out: sources=",
    )


@contextmanager
def no_randomness(device: torch.device, problem: str, remedy: str) -> Iterator[None]:
    """Refuse models that draw random numbers meanwhile where nobody can see it, e.g. drop links.

    Args:
        device: where the model runs.
        problem: what is said then.
        remedy: and what to do.
    """
    before = generator_state(device)
    yield
    if not torch.equal(before, generator_state(device)):
        raise ModelError(problem, remedy)


def generator_state(device: torch.device) -> Tensor:
    """The state of the generators that a model on a device draws from."""
    if device.type != "cuda":
        return torch.get_rng_state()
    return torch.cat([torch.get_rng_state(), torch.cuda.get_rng_state(device)])


def no_randomness_but_dropout(device: torch.device) -> AbstractContextManager[None]:
    """Refuse models that draw random numbers where no rule can see it, e.g. drop links."""
    return no_randomness(
        device,
        "the model draws random numbers of its own, not only by dropout on its features "
        "(dropout_edge, dropout on edge weights, noise layers)",
        "leave that out at prediction time, or take the weights as certain: samples=0",
    )


@contextmanager
def guarded(model: nn.Module, run: Run, x: Tensor) -> Iterator[None]:  # [nodes, features]
    """The network computes as it is written: not compiled, in its own dtype, differentiably.

    What it raises becomes a :class:`ModelError` that quotes it. Whatever is raised elsewhere is a
    mistake of this library and stays as it is.

    Args:
        model: the network.
        run: calls it, see :func:`~varigraph.prediction.calling.caller`.
        x: the features.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.autocast(x.device.type, enabled=False))
        if "torch._dynamo" in sys.modules:  # what compiles is imported as late as it can be
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        try:
            yield
        except VarigraphError:
            raise
        except Exception as error:
            if not came_from(run, error):
                raise
            plain_answer(model, run, x)
            raise ModelError(
                f"{type(model).__name__} runs on plain features, and fails on uncertain ones: "
                f"{place_of(error)}",
                'method="sampled", which needs no rules; or compute with functions of torch and '
                "torch_geometric only",
            ) from error


def came_from(function: Callable[..., Any], error: BaseException) -> bool:
    """Whether an error was raised in a function, or in what that called."""
    code = getattr(function, "__code__", None)
    return any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))


class InjectedRate(float):
    """The rate of dropout that is not the network's own: it is known by this type."""


_injecting: ContextVar[InjectedRate | None] = ContextVar("injecting", default=None)


class _Before:
    """Drops out what enters a layer, except for the first layer of a pass: data is not weights."""

    def __init__(self, rate: InjectedRate, plain: bool) -> None:
        self.rate, self.plain = rate, plain
        self.passing: Propagation | None = None

    def __call__(
        self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if self.passing is not current():
            self.passing = current()
            return None
        entering = enumerate((*args, *kwargs.values()))
        dropped = [self._drop(arg, first=place == 0) for place, arg in entering]
        return tuple(dropped[: len(args)]), dict(zip(kwargs, dropped[len(args) :], strict=True))

    def _drop(self, arg: Any, *, first: bool) -> Any:
        if isinstance(arg, StandIn):
            return F.dropout(arg, self.rate)
        # Among plain tensors only the first comes from the layer before: not links, nor weights.
        return (
            F.dropout(arg, self.rate) if self.plain and first and isinstance(arg, Tensor) else arg
        )


@contextmanager
def injected(model: nn.Module, rate: float, *, plain: bool = False) -> Iterator[None]:
    """While this is open, dropout acts before every dense and message-passing layer but the first.

    Args:
        model: a network without dropout of its own.
        rate: chance of a hidden unit to be dropped, between 0 and 1.
        plain: drop units of plain tensors as well, not only of Gaussians.
    """
    if not 0 < rate < 1:
        raise OptionError(f"dropout={rate} is not a rate", "give a number between 0 and 1: 0.1")
    layers = list(outer_layers(model))
    if len(layers) < 2:
        raise ModelError(
            f"{type(model).__name__} has {len(layers)} layer(s): there is no place for dropout",
            "dropout goes between layers; leave dropout= out, or take samples=0",
        )
    injecting = InjectedRate(rate)
    before, token = _Before(injecting, plain), _injecting.set(injecting)
    with ExitStack() as stack:
        stack.callback(_injecting.reset, token)
        for layer in layers:
            handle = layer.register_forward_pre_hook(before, with_kwargs=True)
            stack.callback(handle.remove)
        yield


def refuse_own_dropout(rate: float) -> None:
    """Raises where a network that is being given dropout turns out to have its own.

    Every method asks this wherever dropout acts.

    Args:
        rate: of the dropout that acts.
    """
    injecting = _injecting.get()
    if injecting is not None and not isinstance(rate, InjectedRate):
        raise OptionError(
            f"dropout={float(injecting)} is for networks without dropout; this one has its own, "
            f"of rate {rate}",
            "leave dropout= out",
        )


def outer_layers(module: nn.Module) -> Iterator[nn.Module]:
    """Dense and message-passing layers, not the dense layers inside of the latter."""
    if isinstance(module, (gnn.MessagePassing, nn.Linear, gnn.Linear)):
        yield module
        return
    for child in module.children():
        yield from outer_layers(child)
