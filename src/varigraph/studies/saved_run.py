"""A run that is already there: read back from its folder, audited, and shown on a page."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn
from torch_geometric.data import Data

from varigraph.choices import Method
from varigraph.data import add_noise, load
from varigraph.errors import FileError, OptionError
from varigraph.files.whole_file import UnusedFileWarning
from varigraph.prediction import Prediction, calibrate
from varigraph.quantify import Audit, Level, audit
from varigraph.reporting.page import report
from varigraph.studies.config import Progress, Study
from varigraph.studies.folder import CONFIG, Arrays, Pieces, read_config, unreadable
from varigraph.studies.links import LinkSource
from varigraph.studies.run import (
    WEIGHTS_FILE,
    complete,
    level_of,
    made_by,
    prediction_file,
    read_network,
    restored,
)
from varigraph.training import PaperNetwork

#: The page of a run, in its folder.
PAGE = "report.html"


@dataclass(frozen=True)
class SavedRun:
    """What a run has finished.

    Args:
        folder: where it is.
        study: its options.
        graph: the data set, with ``edge_prob`` where links are uncertain.
        arrays: predictions by level of noise, of those levels that are finished.
        versions: of what made it.
        model: its network, in evaluation mode.
    """

    folder: Path
    study: Study
    graph: Data
    arrays: dict[float, Arrays]
    versions: dict[str, str]
    model: PaperNetwork

    @classmethod
    def read(cls, folder: Path, *, root: Path | None, progress: Progress) -> SavedRun:
        """What a folder holds.

        Args:
            folder: of ``varigraph run``.
            root: folder that holds the data sets.
            progress: of link probabilities that must be computed again.

        Raises:
            OptionError: if it holds no run, or no predictions.
            FileError: if its options or its weights cannot be read.
        """
        config = _config(folder)
        study, pieces = Study.of(config), Pieces(folder, config)
        graph = load(study.dataset, root=root, seed=study.seed)
        there = [level for level in study.noise if (folder / prediction_file(level)).exists()]
        network = _network(graph, pieces, study) if there else None
        arrays = {} if network is None else _arrays(graph, pieces, there, network)
        if network is None or not arrays:
            raise OptionError(
                f"{folder} holds no predictions that can be read",
                f"varigraph run {study.dataset} --seed {study.seed} --out {folder}, "
                "which goes on where it stopped",
            )
        source = LinkSource.of(study.links, graph)
        graph = source.in_study(study, graph, folder=folder, root=root, progress=progress)
        return cls(folder, study, graph, arrays, config["versions"], network)

    def chosen(self, noise: float | None) -> float:
        """A level of noise that is finished; the highest where none is asked for."""
        if noise is None:
            return max(self.arrays)
        if noise not in self.arrays:
            there = ", ".join(f"{level:g}" for level in self.arrays)
            raise OptionError(
                f"{self.folder} has no predictions at noise {noise:g}", f"--noise, one of {there}"
            )
        return noise

    def prediction(self, level: float) -> Prediction:
        """What it predicted at a level of noise.

        Args:
            level: one of those that are finished.
        """
        return restored(self.arrays[level], self.graph)

    def levels(self) -> list[Level]:
        """Its scores at all finished levels of noise."""
        return [level_of(self.prediction(noise), self.graph, noise=noise) for noise in self.arrays]

    def about(self, level: float) -> dict[str, Any]:
        """How it was made, by name."""
        links = "all taken as certain"
        if self.study.links is not None:
            links = f"{Path(self.study.links).name}, read as {self.study.reading}"
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return {
            "Data set": self.study.dataset,
            "Noise": f"{level:g} % of the mean feature",
            "Links": links,
            "Seed": self.study.seed,
            "Training": f"{self.study.epochs} epochs",
            "Run made with": versions,
        }

    def warnings(self) -> list[str]:
        """What it lacks, if it is not finished."""
        missing = [f"{level:g}" for level in self.study.noise if level not in self.arrays]
        if not missing and (self.folder / "results.json").is_file():
            return []
        lacks = f"no predictions at noise {', '.join(missing)}" if missing else "no results.json"
        return [f"This run was cut short: it has {lacks}. The command that made it goes on."]


def _network(graph: Data, pieces: Pieces, study: Study) -> PaperNetwork:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedFileWarning)  # it becomes an error
        network = read_network(graph, pieces, seed=study.seed)
    if network is None:
        raise FileError(
            pieces.folder / WEIGHTS_FILE,
            "does not hold the weights of the run",
            f"varigraph run {study.dataset} --out {pieces.folder} --fresh",
        )
    return network


def _arrays(
    graph: Data, pieces: Pieces, levels: Sequence[float], network: PaperNetwork
) -> dict[float, Arrays]:
    """Predictions that this network made, by level."""
    maker = made_by(network)
    found = {level: pieces.read_arrays(prediction_file(level), network=maker) for level in levels}
    return {
        level: held for level, held in found.items() if held is not None and complete(held, graph)
    }


def _config(folder: Path) -> dict[str, Any]:
    """The options of the run in a folder, which must hold one."""
    held = read_config(folder)
    if held is None:
        raise OptionError(
            f"{folder} holds no {CONFIG}, so it is not a run",
            "name the folder that `varigraph run` printed last",
        )
    try:
        Study.of(held)
        dict(held["versions"])
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable(folder / CONFIG) from error
    return held


def audit_study(
    model: nn.Module, noisy: Data, study: Study, *, method: Method, samples: int
) -> Audit:
    """Audit a method on the test nodes of a study's graph, with the study's links and seed.

    Args:
        model: the network of the study.
        noisy: its graph, with noise.
        study: its options.
        method: what to audit.
        samples: draws of brute force.
    """
    return audit(
        model,
        noisy,
        method=method,
        samples=samples,
        links=study.reading,
        seed=study.seed,
        nodes=noisy.test_mask,
    )


def trusted(prediction: Prediction, run: SavedRun) -> Prediction:
    """The same answers and error bars, with a trust that was learned on validation nodes.

    Args:
        prediction: of the run.
        run: that made it.
    """
    learned = calibrate(prediction, run.graph.y, nodes=run.graph.val_mask).apply(prediction)
    return replace(prediction, chance=learned.chance)


def run_page(
    run: SavedRun,
    *,
    noise: float,
    path: Path | None = None,
    explain: int = 30,
    audit: Audit | None = None,
) -> Path:
    """Write the page about a run at one level of noise.

    Args:
        run: what was finished.
        noise: a level that is.
        path: the file; ``report.html`` in the folder of the run if left out.
        explain: how many nodes to explain.
        audit: of the method, if there was one.
    """
    study = run.study
    return report(
        trusted(run.prediction(noise), run),
        add_noise(run.graph, percent=noise, seed=study.seed),
        model=run.model,
        path=path or run.folder / PAGE,
        title=f"{study.dataset}, noise {noise:g} %, seed {study.seed}",
        levels=run.levels(),
        audit=audit,
        explain=explain,
        links=study.reading,
        about=run.about(noise),
        warnings=run.warnings(),
    )
