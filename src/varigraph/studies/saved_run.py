"""What a run left in its folder, finished or not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from varigraph.data import load
from varigraph.errors import FileError, OptionError
from varigraph.prediction import Prediction
from varigraph.quantify import Level
from varigraph.studies import folder as files
from varigraph.studies.config import Study
from varigraph.studies.link_source import LinkSource
from varigraph.studies.progress import Progress, in_hundredths
from varigraph.studies.stored_prediction import complete, file_of, level_of, restored
from varigraph.studies.trained_network import FILE, read_network
from varigraph.training import PaperNetwork


@dataclass(frozen=True)
class SavedRun:
    """What a run has finished.

    Args:
        folder: where it is.
        study: its options.
        graph: the data set, with ``edge_prob`` where links are uncertain.
        arrays: predictions by level of noise, of those levels that are finished.
        versions: of what made it.
    """

    folder: Path
    study: Study
    graph: Data
    arrays: dict[float, files.Arrays]
    versions: dict[str, str]

    @classmethod
    def read(cls, folder: Path, *, root: Path | None, progress: Progress) -> SavedRun:
        """What a folder holds.

        Args:
            folder: of ``varigraph run``.
            root: folder that holds the data sets.
            progress: of link probabilities that must be computed anew.

        Raises:
            OptionError: if it holds no run, or no predictions.
            FileError: if its options cannot be read.
        """
        study, versions = _study(folder)
        graph = load(study.dataset, root=root, seed=study.seed)
        found = {level: files.read_arrays(folder / file_of(level)) for level in study.noise}
        arrays = {
            level: held
            for level, held in found.items()
            if held is not None and complete(held, graph)
        }
        if not arrays:
            raise OptionError(
                f"{folder} holds no predictions that can be read",
                f"varigraph run {study.dataset} --seed {study.seed} --out {folder}, "
                "which goes on where it was broken off",
            )
        graph = LinkSource.of(study.links, graph).applied(
            graph,
            study.dataset,
            seed=study.seed,
            folder=folder / files.LINKS,
            root=root,
            progress=in_hundredths(progress, "links"),
        )
        return cls(folder, study, graph, arrays, versions)

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

    def model(self) -> PaperNetwork:
        """Its network.

        Raises:
            FileError: if its weights cannot be read.
        """
        model = read_network(self.graph, self.folder, seed=self.study.seed)
        if model is None:
            raise FileError(
                self.folder / FILE,
                "does not hold the weights of the run",
                f"varigraph run {self.study.dataset} --out {self.folder} --fresh",
            )
        return model

    def prediction(self, level: float) -> Prediction:
        """What it predicted at a level of noise.

        Args:
            level: one of those that are finished.
        """
        return restored(self.arrays[level], samples=self.study.samples)

    def levels(self) -> list[Level]:
        """Its scores at all finished levels of noise."""
        return [
            level_of(self.prediction(noise), self.graph, dataset=self.study.dataset, noise=noise)
            for noise in self.arrays
        ]

    def about(self, level: float) -> dict[str, Any]:
        """How it was made, by what is said of it."""
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
        """What it lacks, if it was cut short."""
        missing = [f"{level:g}" for level in self.study.noise if level not in self.arrays]
        if not missing and (self.folder / "results.json").is_file():
            return []
        lacks = f"no predictions at noise {', '.join(missing)}" if missing else "no results.json"
        return [f"This run was cut short: it has {lacks}. The command that made it goes on."]


def _study(folder: Path) -> tuple[Study, dict[str, str]]:
    config = folder / files.CONFIG
    try:
        held = json.loads(config.read_text())
        return Study.of(held), dict(held["versions"])
    except FileNotFoundError as error:
        raise OptionError(
            f"{folder} holds no {files.CONFIG}, so it is not a run",
            "name the folder that `varigraph run` printed last",
        ) from error
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise FileError(
            config, "holds no options of a run", "make the run again: varigraph run --fresh"
        ) from error
