"""What is asked: a model, a graph, some nodes, what to consider; and whether they fit together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as shortened
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData

from varigraph.choices import Task
from varigraph.data.graphs import called
from varigraph.data.kinds import StackedGraph, noisy_kinds, sources_of_kinds
from varigraph.errors import MissingRuleError, ModelError, OptionError
from varigraph.moments import Gaussian, LinkProbabilities
from varigraph.moments.affine import Affine
from varigraph.moments.gaussian import unexpanded
from varigraph.moments.input_noise import InputNoise
from varigraph.prediction.memory import room_beside
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.sources.source import SOURCES, all_parts, fields_of_kinds, only

Weights = Literal["closed-form", "sampled"]
#: Of one kind of nodes, or of several.
Graph = TypeVar("Graph", Data, HeteroData)
#: Called with the number of steps done and the number of steps.
Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Progress that is not shown."""


@dataclass(frozen=True, eq=False)
class Question:
    """Everything that a method needs to know.

    A source that is not considered is held at its mean: features at ``x``, coins at their
    chances, dropout masks at 1. A link cannot be half removed: where coins take links out of the
    graph, it is held with all of them.

    Args:
        model: the trained network.
        run: calls it with what stands in the place of the features, and of the graph, if any.
        x: the features and the variance of their noise.
        links: chances of the links, where the graph has them and they are to be considered.
        sources: what to consider.
        samples: number of dropout masks or of draws.
        seed: key of all draws.
        task: what the model's output means.
        nodes: nodes to answer for, as indices from 0 or as a mask; None for all.
        memory: bound in bytes on all that is added to the process.
        dropout: rate to inject into a network that has no dropout.
        weights: dropout in closed form or by sampled masks; None for what the method does.
        draws: number of draws of everything, whatever is considered, for methods that draw.
        progress: called with how much of the work is done, and of how much.
        edges: number of links in the graph, each direction counted.
        given: what the graph says about further sources, by their names.
        graph: the graph itself, for links that are taken out of it.
        followed: layers whose rule does not fit all of this, found on the way; shared by all
            questions that are made from this one.
    """

    model: nn.Module
    run: Callable[..., Any]
    x: Gaussian
    links: LinkProbabilities | None
    sources: frozenset[str]
    samples: int
    seed: int
    task: Task
    nodes: Tensor | None
    memory: int
    dropout: float | None = None
    draws: int = 0
    weights: Weights | None = None
    progress: Progress = silent
    edges: int = 0
    given: Mapping[str, Any] = field(default_factory=dict)
    graph: Data | None = None
    followed: set[nn.Module] = field(default_factory=set, repr=False)
    prepared: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def noisy(self) -> bool:
        """Whether there is noise in the features."""
        return bool(unexpanded(self.x.var).any())

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the answer's variance."""
        return all_parts(self.given)

    @property
    def divided(self) -> tuple[str, ...]:
        """The sources that it is divided over."""
        return tuple(part for part in self.parts if part in SOURCES)

    @cached_property
    def room(self) -> int:
        """Bytes that are left for the work beside what is kept of the links."""
        return room_beside(self.edges, self.memory)

    @property
    def masked(self) -> bool:
        """Whether dropout is considered."""
        return self.samples > 0

    @property
    def linear_features(self) -> Affine:
        """The features as values that are linear in their own noise."""
        return Affine.features(self.x.mean, self._noise)

    @cached_property
    def _noise(self) -> InputNoise:
        return InputNoise.of(self.x.var, self.room)

    def only(self, *sources: str) -> Question:
        """The same question about fewer sources; the others are held at their means."""
        return only(self, self.sources & set(sources))


def check_sources(sources: Sequence[str] | None, data: Data | HeteroData) -> frozenset[str]:
    """The sources to consider, perhaps of some kinds; all of them by default."""
    known = (*SOURCES, *sources_of_kinds(data, fields_of_kinds()))
    if sources is None:
        return frozenset(SOURCES)
    listed = [] if isinstance(sources, str) or not isinstance(sources, Iterable) else list(sources)
    if not listed or not all(isinstance(each, str) and each in known for each in listed):
        raise OptionError(
            f"sources={shortened(sources)} does not name sources", f"some of {known}, in a tuple"
        )
    return frozenset(listed)


def check_given(sources: Iterable[str], given: Mapping[str, Any]) -> None:
    """Raises if a source is asked for by name about which the graph says nothing.

    Args:
        sources: those asked for.
        given: what the graph says, by source.
    """
    for name in sources:
        if name in SOURCES and SOURCES[name].optional and given[name] is None:
            raise OptionError(
                f"sources names {name}, and the graph has no {name}_var",
                f"data.{name}_var = 0.1, or leave it out of sources",
            )


Nodes: TypeAlias = "Tensor | NDArray[Any] | Sequence[int] | Sequence[bool] | Sequence[str]"
REMEDY = "give indices from 0 (nodes=[0, 5, 7]) or a mask (nodes=data.test_mask)"


def chosen_nodes(nodes: Nodes | None, data: Data) -> Tensor | None:  # [nodes] int64 or bool
    """Indices or a mask on the graph's device; None for all.

    Whether there are such nodes is known once the model has answered: it may answer for whole
    graphs, or for links.

    Args:
        nodes: indices of any integer type, a mask, or names.
        data: the graph.

    Raises:
        OptionError: what was given is none of these, or names no node.
    """
    if nodes is None:
        return None
    index = _tensor(nodes, data)
    if index.numel() == 0 or (index.dtype == torch.bool and not bool(index.any())):
        raise OptionError("nodes names no node", "nodes=None answers for all of them")
    if index.dim() != 1:
        raise OptionError(f"nodes has {index.dim()} dimensions, not one", REMEDY)
    if index.dtype == torch.bool:
        return index.to(data.x.device)
    if index.is_floating_point() or index.is_complex():
        raise OptionError(f"nodes holds {index.dtype}, not whole numbers", REMEDY)
    index = index.long()
    if bool((index < 0).any()):
        raise OptionError(
            f"there is no node {int(index[index < 0][0])}: nodes are not counted from the end",
            REMEDY,
        )
    return index.to(data.x.device)


def _tensor(nodes: Nodes, data: Data) -> Tensor:
    if isinstance(nodes, Tensor):
        if nodes.is_meta or nodes.layout != torch.strided:
            raise OptionError(f"nodes is a {nodes.layout} tensor on {nodes.device}", REMEDY)
        return nodes.detach()
    if isinstance(nodes, (str, bytes)) or not isinstance(nodes, (Sequence, np.ndarray)):
        # Sets too: which row of the answer would be whose?
        raise OptionError(f"nodes={shortened(nodes)} is a {type(nodes).__name__}", REMEDY)
    try:
        array = np.asarray(nodes)
        if array.dtype.kind == "U":
            return torch.tensor(called(array.ravel().tolist(), data)).view(array.shape)
        return torch.as_tensor(array.astype(np.int64) if array.dtype.kind in "iu" else array)
    except OptionError:
        raise
    except (TypeError, ValueError) as error:
        raise OptionError(f"nodes={shortened(nodes)} makes no tensor of indices", REMEDY) from error


#: With fewer digits a variance is lost in the rounding of the mean.
COARSE = (torch.float16, torch.bfloat16)


def as_computed(model: nn.Module, data: Graph) -> tuple[nn.Module, Graph]:
    """The network itself behind what compiles it; copies in float32 of what is in half precision.

    What was made in inference mode, and cannot be differentiated, is copied too. The user's own
    model and graph stay as they are.

    Args:
        model: what was given, a network or not.
        data: the graph.

    Raises:
        ModelError: the network cannot be copied.
    """
    model = getattr(model, "_orig_mod", model)
    if not isinstance(model, nn.Module):
        return model, data
    wide = computed_in(model, data)
    with torch.inference_mode(False):
        if any(_is_foreign(value) for store in data.stores for value in store.values()):
            data = _graph(data, wide)
        if any(_is_foreign(tensor) for tensor in _tensors(model)):
            model = _copied(model).to(wide)
    return model, data


def computed_in(model: nn.Module, data: Data | HeteroData) -> torch.dtype:
    """Float64 where the model or the features are in it, else float32."""
    kinds = {_type_of_features(data), *(tensor.dtype for tensor in model.parameters())}
    return torch.float64 if torch.float64 in kinds else torch.float32


def is_coarse(model: nn.Module, data: Data | HeteroData) -> bool:
    """Whether the model or the features are in half precision."""
    kinds = {_type_of_features(data), *(tensor.dtype for tensor in model.parameters())}
    return not kinds.isdisjoint(COARSE)


def _type_of_features(data: Data | HeteroData) -> torch.dtype:
    """Of one kind of nodes, where there are several: all have the same, as was checked."""
    x: Tensor = data[noisy_kinds(data)[0]].x if isinstance(data, HeteroData) else data.x
    return x.dtype


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _is_foreign(value: object) -> bool:
    if not isinstance(value, Tensor) or isinstance(value, nn.UninitializedParameter):
        return False  # the latter is complained about later
    return value.dtype in COARSE or value.is_inference()


def _graph(data: Graph, wide: torch.dtype) -> Graph:
    found = copy(data)
    for store, into in zip(data.stores, found.stores, strict=True):
        for name, value in store.items():
            if _is_foreign(value):
                into[name] = value.to(wide) if value.dtype in COARSE else value.clone()
    return found


def _copied(model: nn.Module) -> nn.Module:
    try:
        return deepcopy(model)
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} is in half precision or was made in inference mode, and "
            f"cannot be copied: {error}",
            "model.float() and graph.x = graph.x.float(), outside of torch.inference_mode()",
        ) from error


def refuse_scripted(model: nn.Module) -> None:
    """Raises where a part of the network is hidden by torch.jit: rules do not see into it."""
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise MissingRuleError(
                f"{f'layer {name}' if name else 'the model'} was scripted or traced by torch.jit, "
                "which hides what it is made of",
                'give the network that it was made of, or method="sampled"',
            )


def check_model(model: nn.Module, graph: Data) -> None:
    """Raises if the model cannot be run on the graph; otherwise does nothing.

    Args:
        model: the network, which stays as it is.
        graph: with features ``x``.

    Raises:
        ModelError: naming the parameter that does not fit.
        OptionError: torch is set to compute without numbers.
    """
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"the model is a {type(model).__name__}", "give a network: a torch.nn.Module"
        )
    if torch.get_default_device().type == "meta":
        raise OptionError(
            "torch makes new tensors on meta, where there are no numbers",
            'torch.set_default_device("cpu")',
        )
    if graph.x.dtype in COARSE:
        raise ModelError(
            f"graph.x is {graph.x.dtype}, too coarse for variances",
            "model.float() and graph.x = graph.x.float()",
        )
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter):
            raise ModelError(
                f"parameter {name} has no size yet", "run the model once: model(x, edge_index)"
            )
        if parameter.is_meta:
            raise ModelError(
                f"parameter {name} is on meta, where there are no numbers",
                "load the weights: model.to_empty(device='cpu'), model.load_state_dict(...)",
            )
        if parameter.device != graph.x.device:
            raise ModelError(
                f"parameter {name} is on {parameter.device}, graph.x on {graph.x.device}",
                f"graph = graph.to({str(parameter.device)!r})",
            )
        real = parameter.is_floating_point() or parameter.is_complex()
        if real and parameter.dtype != graph.x.dtype:
            other = parameter.dtype in COARSE or isinstance(graph, StackedGraph)
            remedy = f"graph.x = graph.x.to({parameter.dtype})"
            raise ModelError(
                f"parameter {name} is {parameter.dtype}, graph.x is {graph.x.dtype}",
                f"model.to({graph.x.dtype})" if other else remedy,
            )


def check_answer(answer: Prediction) -> None:
    """Raises if numbers went beyond what their type can hold on the way to an answer."""
    parts = [answer.mean, answer.logits.mean, answer.logits.var, *answer.by_source.values()]
    if not all(bool(part.isfinite().all()) for part in parts):
        raise ModelError(
            f"numbers beyond {answer.mean.dtype} came up on the way to the answer",
            "scale the features, their noise or the weights, or compute with more digits: "
            "model.double(), graph.x = graph.x.double()",
        )


def check_nodes(nodes: Tensor | None, count: int) -> Tensor | None:  # [nodes] int64 or bool
    """The nodes to answer for as an index, or None for all.

    Args:
        nodes: indices from 0 or a mask, see
            :func:`~varigraph.prediction.question.chosen_nodes`.
        count: number of nodes that there are.
    """
    if nodes is None:
        return None
    if nodes.dtype == torch.bool:
        if nodes.shape != (count,):
            raise OptionError(
                f"the mask of nodes has shape {tuple(nodes.shape)} for {count} nodes",
                "give one entry for every node: nodes=data.test_mask",
            )
        return nodes.nonzero().flatten()
    outside = nodes[nodes >= count]
    if len(outside) > 0:
        raise OptionError(
            f"there is no node {int(outside[0])} among {count}", f"count from 0 to {count - 1}"
        )
    return nodes
