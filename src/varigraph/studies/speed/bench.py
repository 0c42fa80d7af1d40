"""The benchmark of one data set: train once, time every contender, compare it with brute force."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch_geometric.data import Data

from varigraph.data import add_noise, load
from varigraph.errors import OptionError
from varigraph.prediction.memory import as_bytes
from varigraph.prediction.predict import ask
from varigraph.prediction.sampled.method import Sample, sample
from varigraph.quantify.fidelity import Ratio, not_zero
from varigraph.studies.config import Progress, quiet
from varigraph.studies.defaults import DRAWS
from varigraph.studies.speed.contenders import CSR, PLAIN, Contender, has_torch_uncertainty, present
from varigraph.studies.speed.results import ContenderRow, Machine, Speed
from varigraph.studies.speed.trial import Terms, Trial, tried
from varigraph.studies.speed.workload import Saved, Workload
from varigraph.training import paper_network, train

#: Noise in the features, in per cent of their mean.
NOISE = 12.0
#: Draws of brute force; a variance is then known to 4.5 %, a median over many far better.


def bench(
    dataset: str = "cora",
    *,
    masks: int = 100,
    repeats: int = 5,
    memory: str = "4GiB",
    threads: int | None = None,
    epochs: int = 10,
    seed: int = 0,
    draws: int = DRAWS,
    device: str = "cpu",
    root: str | Path | None = None,
    progress: Progress | None = None,
) -> Speed:
    """Time, memory and fidelity of every contender, on the paper's network and 12 % noise.

    Args:
        dataset: name of a data set, see :func:`varigraph.load`.
        masks: dropout masks, and draws of ``method="sampled"``.
        repeats: calls to time, after a first one.
        memory: bound of :func:`varigraph.predict`.
        threads: of torch; as it is set if left out.
        epochs: passes over the training nodes.
        seed: of split, weights, noise and masks.
        draws: of brute force, which gives the fidelity.
        device: to measure on.
        root: folder that holds the data sets.
        progress: called with a stage, the steps done and the number of steps.
    """
    _check(masks, repeats, memory, threads, device)
    progress, threads = progress or quiet, threads or torch.get_num_threads()
    workload = trained_workload(
        dataset, masks=masks, memory=memory, epochs=epochs, seed=seed, root=root, progress=progress
    )
    terms = Terms(repeats, threads, beside=(PLAIN, CSR))
    rows = _rows(workload, terms, device=device, draws=draws, progress=progress)
    graph = workload.graph
    return Speed(
        dataset=dataset.lower(),
        nodes=graph.num_nodes,
        links=graph.num_edges,
        features=graph.num_features,
        masks=masks,
        repeats=repeats,
        threads=threads,
        memory=memory,
        epochs=epochs,
        machine=Machine.here(device),
        rows=tuple(rows),
        absent=() if has_torch_uncertainty() else ("torch-uncertainty",),
    )


def trained_workload(
    dataset: str,
    *,
    masks: int,
    memory: str,
    epochs: int,
    seed: int = 0,
    root: str | Path | None = None,
    progress: Progress = quiet,
) -> Workload:
    """The paper's network, trained on clean features, and the graph with noise, on the CPU.

    Args:
        dataset: name of a data set.
        masks: dropout masks.
        memory: bound.
        epochs: passes over the training nodes.
        seed: of split, weights, noise and masks.
        root: folder that holds the data sets.
        progress: called with a stage, the steps done and the number of steps.
    """
    graph = load(dataset, root=root, seed=seed)
    model = paper_network(graph, seed=seed)
    train(
        model,
        graph,
        epochs=epochs,
        seed=seed,
        progress=lambda epoch, total, loss: progress("training", epoch, total),
    )
    return Workload(model, add_noise(graph, percent=NOISE, seed=seed), masks, memory, seed)


def _rows(
    workload: Workload, terms: Terms, *, device: str, draws: int, progress: Progress
) -> list[ContenderRow]:
    contenders = present()
    with TemporaryDirectory() as folder:
        saved = Saved.of(workload, Path(folder) / "workload.pt", device=device)
        trials = []
        for number, contender in enumerate(contenders, start=1):
            trials.append(tried(contender.name, saved, terms))
            progress("timing", number, len(contenders))
        there = saved.build()
    truth = Truth(there.model, there.graph, memory=workload.memory, seed=workload.seed, draws=draws)
    rows = []
    for number, (contender, trial) in enumerate(zip(contenders, trials, strict=True), start=1):
        rows.append(_row(contender, trial, truth))
        progress("fidelity", number, len(contenders))
    return rows


def _row(contender: Contender, trial: Trial, truth: Truth) -> ContenderRow:
    var = trial.logits_var
    return ContenderRow(
        name=contender.name,
        sources=contender.sources,
        seconds=trial.seconds,
        memory=trial.peak,
        fidelity=None if var is None else truth.fidelity(var, contender.sources),
        masks=trial.masks,
        problem=trial.problem,
        beside=trial.beside,
    )


def _check(masks: int, repeats: int, memory: str, threads: int | None, device: str) -> None:
    as_bytes(memory)
    if masks < 2:
        raise OptionError(f"masks={masks} gives no variance over masks", "masks=100")
    if repeats < 1:
        raise OptionError(f"repeats={repeats} measures nothing", "repeats=5")
    if threads is not None and threads < 1:
        raise OptionError(f"threads={threads} does no work", "threads=1, or leave it out")
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise OptionError(f"device={device!r}, and torch sees no GPU here", 'device="cpu"')


class Truth:
    """Brute force on test nodes, once for each set of sources, as :func:`varigraph.audit` has it.

    Args:
        model: the network.
        graph: with noise in its features, and a ``test_mask``.
        memory: bound.
        seed: of the contenders; brute force draws with the next one, independently.
        draws: of brute force.
    """

    def __init__(
        self, model: nn.Module, graph: Data, *, memory: str, seed: int, draws: int = DRAWS
    ) -> None:
        self._model, self._graph, self._memory = model, graph, memory
        self._seed, self._draws = seed + 1, draws
        self._drawn = lru_cache(self._draw)

    def fidelity(self, var: NDArray[Any], sources: tuple[str, ...]) -> float | None:
        """Median ratio of the variances of logits to those of brute force.

        Args:
            var: of the logits of all nodes, ``[nodes, classes]``.
            sources: that it is due to.
        """
        truth = self._drawn(sources).logits
        nonzero = not_zero(truth.total.value, truth.mean.value)
        tested = torch.from_numpy(var).to(nonzero.device)[self._graph.test_mask]
        median = Ratio.of(tested, truth.total, nonzero).median
        return None if math.isnan(median) else median

    def _draw(self, sources: tuple[str, ...]) -> Sample:
        question = ask(
            self._model,
            self._graph,
            sources=sources,
            samples=self._draws,
            seed=self._seed,
            nodes=self._graph.test_mask,
            memory=self._memory,
        )
        return sample(question)
