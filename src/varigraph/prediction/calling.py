"""How a network is called: with arguments by their names or with the whole graph; pairs scored."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn.models.basic_gnn import BasicGNN

from varigraph.data.kinds import StackedGraph, field_of
from varigraph.errors import ModelError, OptionError
from varigraph.options import complaint, place_of, warn
from varigraph.prediction.tasks import picked

Forward = Callable[[nn.Module, Any, Data], Any]
#: Called with the features, and with the graph where that is another than the question's.
Run = Callable[..., Any]
#: Pairs of nodes whose scores are asked for, ``[2, pairs]``.
Pairs: TypeAlias = "Tensor | NDArray[Any] | Sequence[Sequence[int]]"

#: What networks call the whole graph, its features and its links.
GRAPHS = frozenset(["data", "graph", "batch", "g", "batch_data", "batched_data"])
FEATURES = frozenset(["x", "input", "inputs", "features", "feature", "feats", "feat", "h"])
LINKS = frozenset(
    ["edge_index", "adj", "adj_t", "adjacency", "edges", "edge_idx", "edge_list", "edge_indices"]
)
PAIRS = "edge_label_index"
#: What a network may also take, and is given where the graph has it.
ALSO = ("edge_attr", "edge_weight", "edge_type", "batch", "pos", PAIRS)
#: Of these, what says how much a link counts: networks trained without it are others.
OF_LINKS = ("edge_attr", "edge_weight")
WAY = "forward=lambda model, x, data: model(x, data.edge_index)"
WAY_OF_KINDS = "forward=lambda model, x, data: model(x, data.edge_index_dict)"

Parameter = inspect.Parameter
ANY_NUMBER = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Call:
    """Where the arguments of a function come from.

    Args:
        whole: it takes the graph, with whatever stands in the place of its features.
        positional: fields of the graph in the order of the arguments; ``"x"`` is the stand-in.
        named: further fields, by the names of the arguments.
    """

    whole: bool = False
    positional: tuple[str, ...] = ("x", "edge_index")
    named: Mapping[str, str] | None = None

    def __call__(self, function: Callable[..., Any], x: Any, graph: Data) -> Any:
        """Call it.

        Args:
            function: what to call.
            x: stands in the place of the features.
            graph: has everything else, and stays as it is.
        """
        if self.whole:
            return function(_standing_in(x, graph))

        def of(field: str) -> Any:
            return x if field == "x" else field_of(graph, field)

        named = {name: of(field) for name, field in (self.named or {}).items()}
        return function(*map(of, self.positional), **named)


def _standing_in(x: Any, graph: Data | HeteroData) -> Data | HeteroData:
    """The graph with something in the place of its features."""
    if isinstance(graph, HeteroData):  # which has been taken apart for this call alone
        return graph
    stands_in = copy.copy(graph)
    stands_in.x = x
    return stands_in


def call_of(
    function: Callable[..., Any], graph: Data | HeteroData, *, skips: frozenset[str]
) -> Call:
    """How a function is to be called, as its parameters tell by their names.

    Args:
        function: forward of a network, or its encoder.
        graph: what there is to call it with.
        skips: names of parameters that are left alone although the graph has such fields.

    Raises:
        ModelError: it needs something that the graph has not.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # scripted, or not written in Python
        return Call()
    listed = [each for each in parameters if each.kind not in ANY_NUMBER]
    needed = [each for each in listed if each.default is each.empty]
    if len(listed) < 2 and any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return Call()
    if _takes_graph(listed, needed):
        return Call(whole=True)
    names = [each.name for each in listed]
    if isinstance(graph, HeteroData):
        names = [name.removesuffix("_dict") for name in names]
    positional: list[str] = []
    named: dict[str, str] = {}
    for place, each in enumerate(listed):
        field = _field(place, names, graph, needed=each in needed)
        given = field_of(graph, field) is not None or field in ("x", "edge_index", "batch")
        if each in needed and not given:
            raise _lacks(function, field)
        optional = field in ("x", "edge_index") or (
            field in ALSO and field_of(graph, field) is not None
        )
        if each not in needed and (not optional or each.name in skips):
            continue
        if each.kind is each.KEYWORD_ONLY or len(positional) < place:
            named[each.name] = field
        else:
            positional.append(field)
    return Call(False, tuple(positional), named)


def _takes_graph(listed: list[Parameter], needed: list[Parameter]) -> bool:
    """Whether the only thing that is needed is the graph: its name is none of features or links."""
    if not listed or len(needed) > 1 or (needed and needed[0] is not listed[0]):
        return False
    first = listed[0].name
    return first in GRAPHS or (len(needed) == 1 and first not in FEATURES | LINKS)


def _field(place: int, names: list[str], graph: Data | HeteroData, *, needed: bool) -> str:
    """The field of the graph that an argument stands for."""
    name = names[place]
    if name in LINKS:
        return "edge_index"
    others, known = [*names[:place], *names[place + 1 :]], field_of(graph, name) is not None
    if place == 0 and not ("x" in others and known):
        return "x"
    unknown = not known and name not in ALSO
    if place == 1 and needed and unknown and not LINKS & set(others):
        return "edge_index"  # whatever it is called
    return "x" if name in FEATURES and not known else name


def _lacks(function: Callable[..., Any], field: str) -> ModelError:
    owner = type(getattr(function, "__self__", None)).__name__
    signature = inspect.signature(function)
    return ModelError(
        f"{owner}.{getattr(function, '__name__', 'forward')}{signature} needs {field}, and the "
        "graph has no such field",
        f"data.{field} = ..., or say how it is called: {WAY}",
    )


def caller(
    model: nn.Module,
    data: Data,
    forward: Forward | None,
    *,
    output: int | str | None = None,
    pairs: Tensor | None = None,
) -> Run:
    """How the model is called with what stands in the place of its features, and of its graph.

    An answer of one number per node comes as a column, ``[nodes, 1]``.

    Args:
        model: the network.
        data: the graph.
        forward: how to call the model, where the names of its parameters do not say it.
        output: which of several outputs is the answer.
        pairs: nodes to score against each other, ``[2, pairs]``.

    Raises:
        ModelError: the network raised StopIteration, which is quoted; or it needs something that
            the graph has not.
    """
    answer = _answering(model, data, forward, pairs)

    def run(x: Any, graph: Data = data) -> Any:
        try:
            out = picked(answer(x, graph), output)
        except StopIteration as error:  # which a loop around it would take for its own end
            raise does_not_run(model, data.x, error, run) from error
        is_row = callable(getattr(out, "unsqueeze", None)) and out.dim() == 1
        return out.unsqueeze(-1) if is_row else out

    run.kinds = isinstance(data, StackedGraph)  # type: ignore[attr-defined]
    return run


def _answering(
    model: nn.Module, data: Data, forward: Forward | None, pairs: Tensor | None
) -> Callable[[Any, Data], Any]:
    if isinstance(data, StackedGraph):
        return _on_kinds(model, data, forward)
    if forward is not None:
        return lambda x, graph: forward(model, x, graph)
    if pairs is None:
        call = _of_model(model, data)
        return lambda x, graph: call(model, x, graph)
    if callable(getattr(model, "encode", None)) and callable(getattr(model, "decode", None)):
        return _encoded_and_decoded(model, data, pairs)
    with_pairs = copy.copy(data)
    with_pairs[PAIRS] = pairs
    call = _of_model(model, with_pairs)
    if PAIRS in (*call.positional, *(call.named or {}).values()):
        return lambda x, graph: call(model, x, copy.copy(graph).update({PAIRS: pairs}))
    return lambda x, graph: _dot_products(call(model, x, graph), pairs)


def _on_kinds(
    model: nn.Module, data: StackedGraph, forward: Forward | None
) -> Callable[[Any, Any], Any]:
    """The model on dicts by kind, cut out of what stands in the place of all features."""
    call = forward or _of_model(model, data)

    def answer(x: Any, graph: StackedGraph) -> Any:
        apart = graph.apart(x)
        return call(model, field_of(apart, "x"), apart)

    return answer


def _encoded_and_decoded(
    model: Any, data: Data, pairs: Tensor
) -> Callable[[Any, Data], Any]:  # [2, pairs]
    """Scores of a model that encodes nodes and decodes pairs of them, as GAE does."""
    encode = told = model.encode
    kinds = {each.kind for each in inspect.signature(encode).parameters.values()}
    if kinds <= set(ANY_NUMBER) and isinstance(getattr(model, "encoder", None), nn.Module):
        told = model.encoder.forward  # to which all arguments are passed on
    call = call_of(told, data, skips=_skipped(getattr(model, "encoder", model)))
    wrong = complaint(model.decode, data.x, pairs)
    if wrong is not None:
        raise ModelError(
            f"{type(model).__name__}.decode cannot be called with (z, pairs): {wrong}",
            "forward=lambda model, x, data: model.decode(model.encode(x, data.edge_index), ...)",
        )
    return lambda x, graph: model.decode(call(encode, x, graph), pairs)


def _dot_products(z: Any, pairs: Tensor) -> Any:  # [nodes, features], [2, pairs] -> [pairs]
    z = picked(z, None)
    return (z[pairs[0]] * z[pairs[1]]).sum(-1)


def _of_model(model: nn.Module, data: Data) -> Call:
    graph = data.whole if isinstance(data, StackedGraph) else data
    return call_of(model.forward, graph, skips=_skipped(model))


def _skipped(model: nn.Module) -> frozenset[str]:
    """What torch_geometric's own networks have a parameter for, and no layer that takes it."""
    found = []
    if isinstance(model, BasicGNN):
        found += [] if model.supports_edge_weight else ["edge_weight"]
        found += [] if model.supports_edge_attr else ["edge_attr"]
    return frozenset(found)


def check_call(
    model: nn.Module, data: Data, forward: Forward | None, *, pairs: Tensor | None = None
) -> None:
    """Raises if the model or ``forward`` takes other arguments than it will be given.

    Args:
        model: the network, which is not run.
        data: the graph.
        forward: how to call the model, where the names of its parameters do not say it.
        pairs: nodes to score against each other, if that is asked for.
    """
    if forward is None:
        _answering(model, data, None, pairs)
        if pairs is None:
            _tell_of_choices(model, data)
        return
    if pairs is not None:
        raise OptionError(
            "links_to_score and forward are both given",
            "forward=lambda model, x, data: scores of the pairs, without links_to_score",
        )
    wrong = complaint(forward, model, data.x, data) if callable(forward) else "not a function"
    if wrong is not None:
        raise OptionError(f"forward cannot be called with (model, x, data): {wrong}", WAY)


def _tell_of_choices(model: nn.Module, data: Data) -> None:
    """Warn where a network could be called with a field of the graph or without, and is with."""
    try:
        parameters = inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        return
    call = _of_model(model, data)
    # A variance says that a field is meant to be used.
    open_to_doubt = {name for name in OF_LINKS if data.get(f"{name}_var") is None}
    given = {*call.positional, *(call.named or {}).values()} & open_to_doubt
    chosen = [name for name in parameters if name in given and parameters[name].default is None]
    if chosen and not call.whole:
        names, fields = ", ".join(chosen), ", ".join(f"data.{name}" for name in chosen)
        warn(
            f"{type(model).__name__} can be called with {names} or without, and is given {fields}; "
            f"if it was trained without: {WAY}"
        )


def check_takes_links(model: nn.Module, data: Data) -> None:
    """Raises unless the model can be called as ``model(x, edge_index)``.

    Args:
        model: the network, which is not run.
        data: the graph.
    """
    wrong = complaint(model.forward, data.x, data.edge_index)
    if wrong is not None:
        signature = inspect.signature(model.forward)
        raise ModelError(
            f"{type(model).__name__}.forward{signature} cannot be called with (x, edge_index): "
            f"{wrong}",
            "wrap it in a module whose forward(x, edge_index) calls it",
        )


def pairs_of(pairs: Pairs | None, data: Data) -> Tensor | None:  # [2, pairs]
    """Pairs of nodes as a tensor on the graph's device.

    Raises:
        OptionError: they are no pairs, or of nodes that there are not.
    """
    if pairs is None:
        return None
    if isinstance(data, StackedGraph):
        raise OptionError(
            "links_to_score is about nodes of one kind, and the graph has several",
            "forward=lambda model, x, data: scores of the pairs, without links_to_score",
        )
    remedy = "give [2, pairs] node numbers from 0, such as data.edge_label_index"
    try:
        found = pairs if isinstance(pairs, Tensor) else torch.as_tensor(np.asarray(pairs))
    except (TypeError, ValueError) as error:
        raise OptionError("links_to_score makes no tensor of node numbers", remedy) from error
    real = found.is_floating_point() or found.is_complex() or found.dtype == torch.bool
    if real or found.dim() != 2 or len(found) != 2 or found.numel() == 0:
        raise OptionError(f"links_to_score is {found.dtype} of shape {tuple(found.shape)}", remedy)
    found = found.long().to(data.x.device)
    if bool(((found < 0) | (found >= len(data.x))).any()):
        raise OptionError(f"links_to_score has nodes outside 0 to {len(data.x) - 1}", remedy)
    return found


def does_not_run(model: nn.Module, x: Tensor, error: Exception, run: Run) -> ModelError:
    """What is said of a network that fails on plain features."""
    name, (nodes, features) = type(model).__name__, x.shape
    if getattr(run, "kinds", False):
        return ModelError(
            f"{name} cannot be run on several kinds of nodes and links: {place_of(error)}",
            f"correct it, or say how it is called: {WAY_OF_KINDS}",
        )
    takes = _first_width(model)
    if isinstance(error, RuntimeError) and takes is not None and takes != features:
        return ModelError(
            f"{name} takes {takes} features, graph.x has {features}: {place_of(error)}",
            f"give x as [nodes, {takes}], or a network that was trained on {features} features",
        )
    return ModelError(
        f"{name} cannot be run on {nodes} nodes with {features} features: {place_of(error)}",
        f"correct it, or say how it is called: {WAY}",
    )


def _first_width(model: nn.Module) -> int | None:
    """Number of features that the first layer takes, where that is known."""
    for module in model.modules():
        for field in ("in_channels", "in_features"):
            width = getattr(module, field, None)
            if isinstance(width, int):
                return width
    return None
