"""A network and a graph, as the user names them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.data import add_noise
from varigraph.errors import OptionError
from varigraph.options import seed_of
from varigraph.prediction.calling import Forward
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

    def graph_needed(self) -> Data:
        """The graph.

        Raises:
            OptionError: if there is none.
        """
        if self.graph is None:
            raise OptionError(
                f"there is no graph for {self.title} to answer for",
                "name one after MODEL: a data set such as cora, a folder of tables, or a file",
            )
        return self.graph


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
