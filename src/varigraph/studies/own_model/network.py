"""A network made by the user's own class or function, and called once to see that it fits."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import reduce
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn
from torch_geometric.data import Data

from varigraph.data import check_one_kind
from varigraph.errors import ModelError, OptionError, VarigraphError
from varigraph.options import complaint, place_of
from varigraph.prediction import calling
from varigraph.prediction.calling import Forward, caller
from varigraph.prediction.network_call import plain_answer
from varigraph.training.networks import own_randomness

EXAMPLE = '--arguments \'{"in_channels": 1433, "hidden_channels": 64, "num_layers": 2}\''


def made_network(spec: str, arguments: dict[str, Any], *, seed: int) -> tuple[nn.Module, bool]:
    """A network in evaluation mode, and whether its weights are as its class starts them.

    Args:
        spec: a class, a function or a finished network, see
            :func:`~varigraph.studies.own_model.network.named_object`.
        arguments: of the class or function, by name.
        seed: of weights that are drawn.

    Raises:
        ModelError: if the result is not a network.
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
        OptionError: if it is not a JSON object.
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
        model: the network, which stays as it is except for weights that get their size by running.
        graph: the graph.
        forward: how to call the model, see :func:`varigraph.predict`.
        seed: of weights that are drawn then.

    Raises:
        ModelError: saying what the network complained about, and where.
        GraphError: if the graph itself cannot be right.
    """
    check_one_kind(graph)
    try:
        calling.check_call(model, graph, forward)
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


WAYS = "write package.module:name or path/to/file.py:name"


def _offered(name: str, what: object) -> bool:
    """Whether a module offers it: a class or function, not another module that it imports."""
    return not name.startswith("_") and callable(what)


def named_object(spec: str) -> Any:
    """What a module or a file of Python has under a name.

    The module is imported, as ``import`` would: that is the user's own code.

    Args:
        spec: ``torch_geometric.nn:GraphSAGE``, ``networks.py:build`` and the like. Modules are
            looked for in the current folder first.

    Raises:
        OptionError: if there is no such module, file or name, or it cannot be imported.
    """
    home, colon, name = spec.rpartition(":")
    if not (colon and home and name):
        raise OptionError(f"{spec} names no object of Python", _way_of(Path(spec)))
    module = _file(Path(home).expanduser()) if home.endswith(".py") else _module(home)
    try:
        return reduce(getattr, name.split("."), module)
    except AttributeError as error:
        public = [known for known, what in vars(module).items() if _offered(known, what)]
        near = get_close_matches(name, public, n=1) or public[:5]
        raise OptionError(
            f"{home} has no {name!r}", f"name one of its own, such as {', '.join(near)}"
        ) from error


def _way_of(path: Path) -> str:
    if path.suffix in {".pt", ".pth", ".safetensors"}:
        return (
            "weights do not say which network they belong to: give it as file.py:factory or "
            f"package.module:Class, and the file by --weights {path}"
        )
    return f"{WAYS}, or the folder of a run"


def _module(name: str) -> ModuleType:
    with _importable(Path.cwd()), _explained(name):
        return import_module(name)


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise OptionError(f"there is no file {path}", "correct the path")
    name = f"own_{path.stem}"  # a file may be called like a module that others need
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path.resolve()):
        return known  # a second object of the same file
    spec = spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and torch_geometric's layers look for it there
    try:
        with _importable(path.resolve().parent), _explained(str(path)):
            spec.loader.exec_module(module)
    except OptionError:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Within it, modules of a folder are found, as by a script in that folder."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise OptionError(
            f"{what} cannot be imported: {place_of(error)}",
            "correct the name, install it, or go to the folder that it lies in",
        ) from error
    except (Exception, SystemExit) as error:
        raise OptionError(
            f"{what} cannot be imported: {place_of(error)}",
            "make it importable: what a script does goes under if __name__ == '__main__':",
        ) from error
