"""The probabilities of a graph's links, with what is known about them, in one folder."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch_geometric.data import Data

from varigraph.data import DATASETS, DroppedLinksWarning, load, read_links
from varigraph.errors import DatasetError
from varigraph.files import write_json, write_text
from varigraph.links import LinkQuality, link_probabilities
from varigraph.links.crossfit import Progress
from varigraph.links.link_pairs import link_pairs
from varigraph.links.link_probabilities import Odds
from varigraph.links.methods import Method, chosen
from varigraph.reporting.plots import reliability_figure, write_png
from varigraph.studies.config import versions
from varigraph.studies.folder import claimed_folds
from varigraph.studies.link_table import link_table

MEASURES = ("auc", "average_precision", "brier", "ece", "log_loss")


@dataclass(frozen=True, eq=False)
class LinksOutcome:
    """Probabilities of links, and where they were written.

    Args:
        title: what was done, in a line.
        folder: where everything was written.
        graph: the graph with ``edge_prob``.
        links: how many links it has, without direction.
        seed: of everything that was drawn.
        notes: what a reader must know about the graph.
    """

    title: str
    folder: Path
    graph: Data
    links: int
    seed: int
    notes: tuple[str, ...]

    @property
    def quality(self) -> LinkQuality:
        """How well the probabilities tell links from non-links."""
        quality: LinkQuality = self.graph.link_quality
        return quality


def links_study(
    source: str,
    *,
    method: Method = "auto",
    folds: int = 5,
    odds: Odds = "balanced",
    seed: int = 0,
    out: str | Path | None = None,
    root: str | Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> LinksOutcome:
    """Compute how likely each link is, and write it down: table, quality and diagram.

    A study that was broken off goes on after the last fold that it finished.

    Args:
        source: name of a data set, or path of a file of links; of the latter the ends alone count.
        method: see :func:`varigraph.link_probabilities`, and so for the next three.
        folds: models to train.
        odds: ``balanced`` or ``density``; another one does not need the folds anew.
        seed: of everything that is drawn.
        out: folder to write; ``links/<name>-<method>-seed<seed>`` if left out.
        root: folder that holds the data sets.
        fresh: replace an earlier study in the same folder.
        progress: called with the fraction done, from 0 to 1, and what is being done.
    """
    name, graph = named_graph(source, root=root)
    links = link_pairs(graph.edge_index, nodes=graph.num_nodes)
    method = cast(Method, chosen(method, links=len(links)))
    folder = Path(out) if out is not None else Path("links") / f"{name}-{method}-seed{seed}"
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
        outcome = LinksOutcome(title, folder, likely, len(links), seed, notes)
        _report(outcome)
    return outcome


def named_graph(source: str, *, root: str | Path | None = None) -> tuple[str, Data]:
    """A data set, or the links of a file without their scores; and what it is called.

    Raises:
        DatasetError: if there is neither a data set nor a file of that name.
        FileError: if the file cannot be right.
    """
    if source.lower() in DATASETS:
        return source.lower(), load(source, root=root)
    path = Path(source).expanduser()
    if not path.exists():
        raise DatasetError(
            f"{source} is no file, and no data set either; these are {', '.join(DATASETS)}",
            "correct the name or the path",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedLinksWarning)  # it becomes a note
        return Path(path.name.removesuffix(".gz")).stem, read_links(path, score=False)


def quality_record(outcome: LinksOutcome) -> dict[str, object]:
    """How good the probabilities are, as JSON has it.

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
        "links": outcome.links,
        # JSON has no infinity, which is the log loss of certainty about a non-link.
        **{name: value if math.isfinite(value) else None for name, value in measures.items()},
        "calibration": list(quality.calibration),
        "notes": list(outcome.notes),
        "versions": versions(),
    }


def _report(outcome: LinksOutcome) -> None:
    folder, quality = outcome.folder, outcome.quality
    origin = f"{outcome.title}, {quality.odds} odds"
    write_text(folder / "links.tsv", link_table(outcome.graph, title=origin))
    write_json(folder / "quality.json", quality_record(outcome))
    prob = torch.cat([quality.links, quality.non_links])
    figure = reliability_figure(
        prob, torch.arange(len(prob)) < len(quality.links), title=outcome.title
    )
    write_png(folder / "reliability.png", figure)
