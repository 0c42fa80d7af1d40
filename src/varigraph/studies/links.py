"""The probabilities of a graph's links: computed, written down, and found again by a study."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.choices import DATASETS
from varigraph.data import DroppedLinksWarning, load
from varigraph.data.delimited import Column, ScoreColumn
from varigraph.data.link_files import read_listed_links
from varigraph.errors import DatasetError, OptionError
from varigraph.files import write_json, write_text
from varigraph.files.fingerprint import digest
from varigraph.links import LinkQuality, link_probabilities
from varigraph.links.crossfit import Progress
from varigraph.links.link_pairs import link_pairs
from varigraph.links.link_probabilities import Odds
from varigraph.links.methods import RECIPES, Method, chosen
from varigraph.reporting.plots import reliability_figure, write_png
from varigraph.studies.config import Progress as StudyProgress
from varigraph.studies.config import Study, in_hundredths, versions
from varigraph.studies.folder import LINKS_FOLDER, claimed_folds
from varigraph.studies.link_table import LinkRows, matched_probabilities

MEASURES = ("auc", "average_precision", "brier", "ece", "log_loss")


@dataclass(frozen=True, eq=False)
class LinksOutcome:
    """Probabilities of links, and where they were written.

    Args:
        title: what was done, in a line.
        folder: where everything was written.
        graph: the graph with ``edge_prob``, as computed.
        rows: its links without direction, and the measured scores where there are any.
        seed: of everything that was drawn.
        notes: what a reader must know about the graph.
    """

    title: str
    folder: Path
    graph: Data
    rows: LinkRows
    seed: int
    notes: tuple[str, ...]

    @property
    def quality(self) -> LinkQuality:
        """How well the probabilities separate links from non-links."""
        quality: LinkQuality = self.graph.link_quality
        return quality


def links_study(
    source: str,
    *,
    method: Method = "auto",
    folds: int = 5,
    odds: Odds = "balanced",
    seed: int = 0,
    score: ScoreColumn = None,
    ends: tuple[Column, Column] = (0, 1),
    scale: float | None = None,
    out: str | Path | None = None,
    root: str | Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> LinksOutcome:
    """Compute how likely each link is, and write it down: table, quality and diagram.

    Links are judged by the rest of the graph alone. Measured scores of a file are kept beside what
    is computed, and the table begins with the links that the two disagree about.

    A study that was interrupted goes on after the last fold that it finished.

    Args:
        source: name of a data set, or path of a file of links.
        method: see :func:`varigraph.link_probabilities`, also for the next three.
        folds: models to train.
        odds: ``balanced`` or ``density``; changing it does not need new folds.
        seed: of everything that is drawn.
        score: of a file, see :func:`varigraph.read_links`, also for the next two.
        ends: the columns of the ends.
        scale: the score of a certain link.
        out: folder to write; ``links/<name>-<method>-seed<seed>`` if left out.
        root: folder that holds the data sets.
        fresh: replace an earlier study in the same folder.
        progress: called with the fraction done, from 0 to 1, and what is being done.
    """
    name, graph = named_graph(source, score=score, ends=ends, scale=scale, root=root)
    links = link_pairs(graph.edge_index, nodes=graph.num_nodes)
    method = cast(Method, chosen(method, links=len(links)))
    folder = Path(out) if out is not None else Path(LINKS_FOLDER) / f"{name}-{method}-seed{seed}"
    with claimed_folds(folder, fresh=fresh):
        likely = link_probabilities(
            graph,
            method=method,
            folds=folds,
            odds=odds,
            seed=seed,
            folder=folder,
            progress=progress,
        )
        notes = () if "reading" not in graph or graph.reading.lossless else (str(graph.reading),)
        title = f"{name}, {method}, {folds} folds, seed {seed}"
        rows = LinkRows.of(likely, measured=graph.get("edge_prob"))
        outcome = LinksOutcome(title, folder, likely, rows, seed, notes)
        _report(outcome)
    return outcome


def named_graph(
    source: str,
    *,
    score: ScoreColumn = None,
    ends: tuple[Column, Column] = (0, 1),
    scale: float | None = None,
    root: str | Path | None = None,
) -> tuple[str, Data]:
    """What a graph is called, and a data set or the links of a file, with their scores if any.

    Args:
        source: name of a data set, or path of a file of links.
        score: of a file, see :func:`varigraph.read_links`, also for the next two.
        ends: the columns of the ends.
        scale: the score of a certain link.
        root: folder that holds the data sets.

    Raises:
        DatasetError: if there is neither a data set nor a file of that name.
        FileError: if the file cannot be right.
        OptionError: if a data set is given columns.
    """
    if source.lower() in DATASETS:
        if score is not None or scale is not None or ends != (0, 1):
            raise OptionError(
                f"{source} is a data set, whose links have no columns",
                "leave --score, --ends and --scale out, or give a file",
            )
        return source.lower(), load(source, root=root)
    path = Path(source).expanduser()
    if not path.exists():
        raise DatasetError(
            f"{source} is no file, and no data set either; these are {', '.join(DATASETS)}",
            "correct the name or the path",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedLinksWarning)  # it becomes a note
        graph = read_listed_links(path, score, ends=ends, scale=scale)
    return Path(path.name.removesuffix(".gz")).stem, graph


def quality_record(outcome: LinksOutcome) -> dict[str, object]:
    """How good the probabilities are, as a JSON object.

    Args:
        outcome: of :func:`links_study`.
    """
    quality = outcome.quality
    measures = {name: float(getattr(quality, name)) for name in MEASURES}
    return {
        "title": outcome.title,
        "method": quality.method,
        "odds": quality.odds,
        "folds": quality.folds,
        "seed": outcome.seed,
        "nodes": int(outcome.graph.num_nodes),
        "links": len(outcome.rows),
        "disagreeing": outcome.rows.disagreeing,
        # JSON has no infinity, which is the log loss of certainty about a non-link.
        **{name: value if math.isfinite(value) else None for name, value in measures.items()},
        "calibration": list(quality.calibration),
        "notes": list(outcome.notes),
        "versions": versions(),
    }


def _report(outcome: LinksOutcome) -> None:
    folder, quality = outcome.folder, outcome.quality
    write_text(folder / "links.csv", outcome.rows.csv())
    write_json(folder / "quality.json", quality_record(outcome))
    prob = torch.cat([quality.links, quality.non_links])
    figure = reliability_figure(
        prob, torch.arange(len(prob)) < len(quality.links), title=outcome.title
    )
    write_png(folder / "reliability.png", figure)


def link_source(links: str | None) -> str | None:
    """A method by its name, a file by its whole path, None where all links are certain.

    Raises:
        OptionError: if it is neither.
    """
    if links is None or links in RECIPES:
        return links
    path = Path(links).expanduser()
    if not path.is_file():
        raise OptionError(
            f"links is {links!r}, which is no file and no method",
            f"choose {', '.join(RECIPES)}, or a file that `varigraph links` wrote",
        )
    return str(path.resolve())


@dataclass(frozen=True, eq=False)
class LinkSource:
    """The probabilities of a graph's links, or the method that will find them.

    Args:
        method: that computes them, None for no method.
        prob: those of a file, matched to ``edge_index``, ``[edges]``; None for no file.
        note: what was lost in reading the file, if anything was.
    """

    method: Method | None = None
    prob: Tensor | None = None
    note: str | None = None

    @classmethod
    def of(cls, links: str | None, graph: Data) -> LinkSource:
        """What :func:`link_source` names; a file is read at once, so that mistakes show early."""
        if links is None:
            return cls()
        if links in RECIPES:
            return cls(method=cast(Method, links))
        prob, note = matched_probabilities(Path(links), graph)
        return cls(prob=prob, note=note)

    @property
    def fingerprint(self) -> str | None:
        """Distinguishes one file's probabilities from another's."""
        if self.prob is None:
            return None
        return digest(self.prob.numpy().tobytes())

    def in_study(
        self,
        study: Study,
        graph: Data,
        *,
        folder: Path,
        root: str | Path | None,
        progress: StudyProgress,
    ) -> Data:
        """The graph of a study as :meth:`applied` has it, with its folds in the study's folder.

        Args:
            study: names the data set and the seed.
            graph: the data set.
            folder: of the study.
            root: folder that holds the data sets.
            progress: of the study.
        """
        return self.applied(
            graph,
            study.dataset,
            seed=study.seed,
            folder=folder / LINKS_FOLDER,
            root=root,
            progress=in_hundredths(progress, "links"),
        )

    def applied(
        self,
        graph: Data,
        dataset: str,
        *,
        seed: int,
        folder: Path,
        root: str | Path | None,
        progress: Progress,
    ) -> Data:
        """A copy of the graph with ``edge_prob``; the graph itself where all links are certain.

        Args:
            graph: the data set.
            dataset: its name.
            seed: of a method.
            folder: where a method keeps what it has finished.
            root: folder that holds the data sets.
            progress: of a method.
        """
        prob = self.prob
        if self.method is not None:
            prob = links_study(
                dataset, method=self.method, seed=seed, out=folder, root=root, progress=progress
            ).graph.edge_prob
        if prob is None:
            return graph
        uncertain = copy.copy(graph)
        uncertain.edge_prob = prob
        return uncertain
