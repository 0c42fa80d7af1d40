"""A network and a graph, as the user names them; the nodes to answer for; the answer."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.data import add_noise
from varigraph.data.graphs import called
from varigraph.errors import OptionError
from varigraph.options import seed_of
from varigraph.prediction import Prediction, predict
from varigraph.prediction.calling import Forward
from varigraph.prediction.passes import NO_DROPOUT
from varigraph.studies.config import Progress, quiet
from varigraph.studies.own_model.network import (
    check_call,
    json_arguments,
    made_network,
    named_object,
)
from varigraph.studies.own_model.saved_files import load_weights, read_graph
from varigraph.studies.saved_run import SavedRun

#: Options of a prediction that a run has decided.
DECIDED = ("links", "samples")
UNTRAINED = "no --weights: the weights are as the class starts them, drawn by seed {seed}"


@dataclass(frozen=True, eq=False)
class Subject:
    """What is asked about.

    Args:
        title: network and graph, in a few words.
        model: the network, in evaluation mode.
        graph: the graph; None where only the network is looked at.
        forward: how to call the model, where ``model(x, edge_index)`` is not right.
        options: of :func:`varigraph.predict` that a run has decided.
        notes: what a reader must know.
    """

    title: str
    model: nn.Module
    graph: Data | None
    forward: Forward | None = None
    options: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


def subject(
    model: str,
    graph: str | None = None,
    *,
    weights: Path | None = None,
    arguments: str | None = None,
    forward: str | None = None,
    noise: float | None = None,
    noise_var: float | None = None,
    seed: int | None = None,
    root: Path | None = None,
    progress: Progress = quiet,
) -> Subject:
    """A network and a graph, checked against each other by running the network once.

    Args:
        model: ``package.module:factory``, ``path/to/file.py:factory`` or the folder of a run.
        graph: name of a data set or a file; of a run, its own graph if left out.
        weights: file of the network's weights.
        arguments: of the factory, a JSON object.
        forward: a function, named as a model is; see :func:`varigraph.predict`.
        noise: noise to draw and add to the features, in per cent of the mean feature.
        noise_var: variance of the noise that the features have, where the graph does not say.
        seed: of all draws; 0 if left out, or that of the run.
        root: folder that holds the data sets.
        progress: of link probabilities that must be computed again.

    Raises:
        VarigraphError: saying what cannot be right.
    """
    seed = None if seed is None else seed_of(seed)
    if Path(model).is_dir():
        if weights is not None or arguments is not None:
            raise OptionError(
                f"{model} is a run, which has its own network",
                "leave --weights and --arguments out",
            )
        found = _of_run(Path(model), root=root, progress=progress)
    else:
        found = _of_source(model, weights, arguments, seed=seed or 0)
    call = cast(Forward, named_object(forward)) if forward is not None else None
    found = replace(found, forward=call)
    run: dict[str, Any] = found.options or {}
    chosen = seed if seed is not None else run.get("seed", 0)
    if graph is not None:
        found = replace(found, graph=read_graph(graph, root=root, seed=chosen))
    elif noise is None and noise_var is None:
        noise = run.get("noise")
    if found.graph is None:
        return found
    fitted = _of_dtype(found.graph, found.model)
    fitted = _noisy(fitted, noise, noise_var, seed=chosen)
    check_call(found.model, fitted, found.forward, seed=chosen)
    name = Path(graph).name if graph is not None else run.get("dataset")
    options = {**{key: run[key] for key in run if key in DECIDED}, "seed": chosen}
    title = f"{found.title} on {name}"
    return replace(found, title=title, graph=fitted, options=options)


def _of_source(model: str, weights: Path | None, arguments: str | None, *, seed: int) -> Subject:
    network, untrained = made_network(model, json_arguments(arguments), seed=seed)
    if weights is not None:
        load_weights(network, weights)
    notes = (UNTRAINED.format(seed=seed),) if untrained and weights is None else ()
    return Subject(type(network).__name__, network, None, notes=notes)


def _of_run(folder: Path, *, root: Path | None, progress: Progress) -> Subject:
    made = SavedRun.read(folder, root=root, progress=progress)
    study = made.study
    options = {
        "dataset": study.dataset,
        "noise": made.chosen(None),
        "links": study.reading,
        "samples": study.samples,
        "seed": study.seed,
    }
    notes = tuple(made.warnings())
    return Subject(f"run {folder.name}", made.model, made.graph, options=options, notes=notes)


def _of_dtype(graph: Data, model: nn.Module) -> Data:
    """A copy whose features are of the network's dtype; numpy alone makes float64 of everything."""
    kinds = [p.dtype for p in model.parameters() if p.is_floating_point()]
    x = graph.x
    if not kinds or not isinstance(x, Tensor) or x.is_complex() or x.dtype == kinds[0]:
        return graph
    fitted = graph.clone()
    fitted.x = x.to(kinds[0])
    return fitted


def _noisy(graph: Data, percent: float | None, var: float | None, *, seed: int) -> Data:
    if percent is not None and var is not None:
        raise OptionError("--noise and --noise-var are both given", "give one of the two")
    if percent is not None:
        return add_noise(graph, percent=percent, seed=seed)
    if var is None:
        return graph
    if not (math.isfinite(var) and var >= 0):
        raise OptionError(f"--noise-var is {var}", "give a finite variance from 0 up")
    if graph.get("x_var") is not None:
        raise OptionError("the graph has an x_var of its own", "leave --noise-var out")
    noisy = graph.clone()
    noisy.x_var = var
    return noisy


NODES = "give numbers from 0 (--nodes 0,5,7), names, a mask (--nodes test) or a file of them"


def chosen_nodes(text: str | None, graph: Data) -> list[int]:
    """Numbers of nodes; all of them where nothing is said.

    Where the graph has ``node_names``, nodes go by these names and not by numbers: a name may be
    a number itself.

    Args:
        text: a file with one node per line; the name of a mask, with or without ``_mask``; or nodes
            with commas between them.
        graph: that has them.

    Raises:
        OptionError: naming the first node that is not there.
    """
    count = int(graph.num_nodes)
    if text is None:
        return list(range(count))
    masks = [text, f"{text}_mask"]
    mask = next((graph[name] for name in masks if _is_mask(graph.get(name), count)), None)
    if mask is not None:
        found = [int(node) for node in mask.nonzero().flatten()]
    else:
        found = _node_numbers(_words(text), graph, count)
    if not found:
        raise OptionError(f"--nodes {text} names no node", NODES)
    return found


def _is_mask(value: object, count: int) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.bool and value.shape == (count,)


def _words(text: str) -> list[str]:
    path = Path(text).expanduser()
    try:
        given = path.read_text(encoding="utf-8").splitlines() if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--nodes {text} cannot be read: {error}", NODES) from error
    words = text.split(",") if given is None else given
    return [word.strip() for word in words if word.strip()]


def _node_numbers(words: list[str], graph: Data, count: int) -> list[int]:
    if graph.get("node_names") is not None:
        return called(words, graph)
    try:
        numbers = [int(word) for word in words]
    except ValueError as error:
        raise OptionError(f"--nodes: {error}, and the graph has no node_names", NODES) from error
    outside = [number for number in numbers if not 0 <= number < count]
    if outside:
        raise OptionError(
            f"there is no node {outside[0]} among {count}", f"count from 0 to {count - 1}"
        )
    return numbers


WITHOUT_DROPOUT = (
    "the network has no dropout, so its weights are taken as certain; --dropout 0.1 injects some, "
    "--samples 0 says that this is meant"
)


@dataclass(frozen=True, eq=False)
class Answer:
    """A prediction and what belongs to it.

    Args:
        subject: the network and the graph.
        nodes: numbers of the nodes that it is about.
        prediction: for these nodes.
        seconds: that it took.
        notes: what a reader must know.
    """

    subject: Subject
    nodes: list[int]
    prediction: Prediction
    seconds: float
    notes: tuple[str, ...]

    @property
    def method(self) -> tuple[str, str | None]:
        """The method, and why it was chosen where that was left open."""
        name, _, why = self.prediction.method.partition(": ")
        return name, why or None

    @property
    def variance(self) -> dict[str, float]:
        """Total and parts: summed over classes, averaged over nodes."""
        parts = {part: _mean_sum(var) for part, var in self.prediction.by_source.items()}
        return {"total": _mean_sum(self.prediction.total), **parts}

    @property
    def shares(self) -> dict[str, float] | None:
        """Parts of the variance, out of 1; None where there is no variance."""
        found = self.variance
        total = found.pop("total")
        return {part: var / total for part, var in found.items()} if total > 0 else None

    def record(self) -> dict[str, Any]:
        """The summary, as a JSON object."""
        method, reason = self.method
        return {
            "title": self.subject.title,
            "method": method,
            "reason": reason,
            "task": self.prediction.task,
            "samples": self.prediction.samples,
            "nodes": len(self.nodes),
            "outputs": self.prediction.mean.reshape(len(self.nodes), -1).shape[1],
            "mean_variance": self.variance,
            "shares": self.shares,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }


def answered(subject: Subject, *, nodes: str | None = None, **options: Any) -> Answer:
    """Predict with error bars.

    Args:
        subject: a network and its graph.
        nodes: see :func:`~varigraph.studies.own_model.subject.chosen_nodes`.
        options: of :func:`varigraph.predict`; None for what the run or the library has.

    Raises:
        VarigraphError: as :func:`varigraph.predict` does.
    """
    assert subject.graph is not None
    asked = {name: value for name, value in options.items() if value is not None}
    chosen = chosen_nodes(nodes, subject.graph)
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        prediction = predict(
            subject.model,
            subject.graph,
            forward=subject.forward,
            nodes=chosen if nodes is not None else None,
            **{**(subject.options or {}), **asked},
        )
    seconds = time.perf_counter() - begun
    warned = [str(each.message) for each in said]
    warned = [WITHOUT_DROPOUT if text == NO_DROPOUT else text for text in warned]
    notes = tuple(dict.fromkeys([*subject.notes, *warned]))
    return Answer(subject, chosen, prediction, seconds, notes)


def _mean_sum(values: Tensor) -> float:
    return float(values.double().reshape(len(values), -1).sum(dim=1).mean())
