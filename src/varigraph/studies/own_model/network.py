"""A network made by the user's own class or function, and called once to see that it fits."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from torch import nn
from torch_geometric.data import Data

from varigraph.data import check_graph
from varigraph.errors import ModelError, OptionError, VarigraphError
from varigraph.prediction import network_call
from varigraph.prediction.network_call import Forward, caller, plain_answer
from varigraph.studies.own_model.named_object import named_object
from varigraph.training.networks import own_randomness
from varigraph.user_code import complaint, place_of

EXAMPLE = '--arguments \'{"in_channels": 1433, "hidden_channels": 64, "num_layers": 2}\''


def made_network(spec: str, arguments: dict[str, Any], *, seed: int) -> tuple[nn.Module, bool]:
    """A network in evaluation mode, and whether its weights are as its class starts them.

    Args:
        spec: a class, a function or a finished network, see
            :func:`~varigraph.studies.own_model.named_object.named_object`.
        arguments: of the class or function, by name.
        seed: of weights that are drawn.

    Raises:
        ModelError: if no network comes of it.
        OptionError: if the arguments are not those of the class or function.
    """
    with own_randomness(seed):  # a file may make networks while it is imported
        found = named_object(spec)
    if isinstance(found, nn.Module):
        if arguments:
            raise OptionError(f"{spec} is a finished network", "leave --arguments out")
        return found.eval(), False
    if not callable(found):
        raise ModelError(
            f"{spec} is a {type(found).__name__}", "name a class or a function that returns one"
        )
    _check_arguments(spec, found, arguments)
    try:
        with own_randomness(seed):
            model = found(**arguments)
    except VarigraphError:
        raise
    except Exception as error:
        raise ModelError(
            f"{spec} could not be called: {place_of(error)}", f"correct it, or {EXAMPLE}"
        ) from error
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"{spec} returned a {type(model).__name__}", "return a network: a torch.nn.Module"
        )
    return model.eval(), isinstance(found, type)


def json_arguments(text: str | None) -> dict[str, Any]:
    """The arguments of a class or function; none where there is no text.

    Args:
        text: a JSON object.

    Raises:
        OptionError: if it is none.
    """
    try:
        found = json.loads(text) if text is not None else {}
    except ValueError as error:
        raise OptionError(f"--arguments is not JSON: {error}", EXAMPLE) from error
    if not isinstance(found, dict):
        raise OptionError(f"--arguments is a {type(found).__name__}, not an object", EXAMPLE)
    return found


def check_call(model: nn.Module, graph: Data, forward: Forward | None, *, seed: int) -> None:
    """Run the network once as it is; raises where it does not fit the graph.

    Args:
        model: the network, which stays as it is but for weights that get their size by running.
        graph: the graph.
        forward: how to call the model, see :func:`varigraph.predict`.
        seed: of weights that are drawn then.

    Raises:
        ModelError: saying what the network complained about, and where.
        GraphError: if the graph itself cannot be right.
    """
    check_graph(graph)
    try:
        network_call.check_call(model, graph, forward)
        with own_randomness(seed):
            plain_answer(model, caller(model, graph, forward), graph.x)
    except VarigraphError as error:
        raise ModelError(
            error.problem,
            "check the --arguments; a network that is not called as model(x, edge_index) needs "
            "--forward file.py:function, where function(model, x, data) returns its answer",
        ) from error


def _check_arguments(spec: str, make: Callable[..., Any], arguments: dict[str, Any]) -> None:
    wrong = complaint(make, **arguments)
    if wrong is not None:
        raise OptionError(f"{spec}{inspect.signature(make)}: {wrong}", EXAMPLE)
