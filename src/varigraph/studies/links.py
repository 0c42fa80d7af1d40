"""The probabilities of a graph's links: computed, written down, and found again by a study."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.choices import DATASETS
from varigraph.data import DroppedLinksWarning, load, read_links
from varigraph.errors import DatasetError, FileError, OptionError
from varigraph.files import write_json, write_text
from varigraph.files.fingerprint import digest
from varigraph.links import LinkQuality, link_probabilities
from varigraph.links.crossfit import Progress
from varigraph.links.link_pairs import LinkPairs, link_pairs, numbered_pairs, pair_numbers
from varigraph.links.link_probabilities import Odds
from varigraph.links.methods import RECIPES, Method, chosen
from varigraph.reporting.plots import reliability_figure, write_png
from varigraph.studies.config import Progress as StudyProgress
from varigraph.studies.config import Study, in_hundredths, versions
from varigraph.studies.folder import LINKS_FOLDER, claimed_folds

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
    out: str | Path | None = None,
    root: str | Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> LinksOutcome:
    """Compute how likely each link is, and write it down: table, quality and diagram.

    A study that was interrupted goes on after the last fold that it finished.

    Args:
        source: name of a data set, or path of a file of links; of a file only the ends count.
        method: see :func:`varigraph.link_probabilities`, also for the next three.
        folds: models to train.
        odds: ``balanced`` or ``density``; changing it does not need new folds.
        seed: of everything that is drawn.
        out: folder to write; ``links/<name>-<method>-seed<seed>`` if left out.
        root: folder that holds the data sets.
        fresh: replace an earlier study in the same folder.
        progress: called with the fraction done, from 0 to 1, and what is being done.
    """
    name, graph = named_graph(source, root=root)
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


def link_table(graph: Data, *, title: str) -> str:
    """One line for each link, its ends and its probability, that ``vg.read_links`` reads back.

    Ends are called by ``graph.node_names`` where there are names, else by their numbers. Directions
    and links of a node to itself are left out. Names stay as they are, even where a spreadsheet
    would take them for formulas: an apostrophe in front could be part of a name.

    Args:
        graph: with ``edge_prob``, the same in both directions of a link.
        title: what is known about the numbers, for the comment in the first line.
    """
    low, high = graph.edge_index
    once = low < high
    names = [_field(str(name)) for name in graph.get("node_names") or range(graph.num_nodes)]
    ends = (map(names.__getitem__, end[once].tolist()) for end in (low, high))
    # Nine digits are enough for every float32 to come back as it is.
    probs = (f"{prob:.9g}" for prob in graph.edge_prob[once].tolist())
    lines = map("\t".join, zip(*ends, probs, strict=True))
    return "\n".join([f"# probabilities of links: {title}", *lines, ""])


def matched_probabilities(path: Path, graph: Data) -> tuple[Tensor, str | None]:  # -> [edges]
    """Probabilities of a graph's links from a file that calls nodes by their numbers.

    Links of a node to itself are certain, whatever the file says.

    Args:
        path: a file of three columns that ``vg.read_links`` reads.
        graph: with ``edge_index``.

    Returns:
        One probability for each column of ``edge_index``, and what was lost in reading, if anything
        was.

    Raises:
        FileError: naming a node or link that the graph lacks, or a link that the file lacks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedLinksWarning)  # returned instead
        read = read_links(path)
    own = link_pairs(graph.edge_index, nodes=graph.num_nodes)
    given = _numbers(path, read.node_names, graph.num_nodes)[read.edge_index]  # [2, 2 * links]
    numbers, probs = pair_numbers(given), read.edge_prob
    order = numbers.argsort()
    numbers, probs = numbers[order][::2], probs[order][::2]  # both directions are the same
    _compare(path, own, numbers, dropped=read.reading.impossible)
    certain = probs.new_ones(1)  # self links have the number -1, the last place
    loss = None if read.reading.lossless else f"{path.name}: {read.reading}"
    return torch.cat([probs, certain])[own.link_of_edge], loss


def _field(name: str) -> str:
    """A name as a field between tabs, in quotes where it could be taken for something else."""
    plain = not name.startswith("#") and not set(name) & {'"', "\t"}
    return name if plain else '"' + name.replace('"', '""') + '"'


def _numbers(path: Path, names: Sequence[str], nodes: int) -> Tensor:  # -> [names]
    number_of = {str(node): node for node in range(nodes)}
    unknown = next((name for name in names if name not in number_of), None)
    if unknown is not None:
        raise FileError(
            path,
            f"there is no node {unknown!r} in the graph, whose nodes are 0 to {nodes - 1}",
            "call nodes by their numbers in the graph, as `varigraph links` does for a data set",
        )
    return torch.tensor([number_of[name] for name in names])


def _compare(path: Path, own: LinkPairs, numbers: Tensor, *, dropped: int) -> None:  # [links]
    wanted = pair_numbers(own.pairs)
    if lacking := _first_outside(wanted, numbers):
        zero = f"; {dropped} in the file have the score 0" if dropped else ""
        raise FileError(
            path,
            f"it lacks {lacking} of the graph",
            f"give every link of the graph a probability above 0{zero}",
        )
    if foreign := _first_outside(numbers, wanted):
        raise FileError(
            path,
            f"it has {foreign} that the graph lacks",
            "remove what is no link of the graph, or name the data set that the file is about",
        )


def _first_outside(these: Tensor, others: Tensor) -> str | None:  # [pairs], [pairs]
    """The first of these pairs that is not among the others, in words."""
    alone = these[~torch.isin(these, others)]
    if not len(alone):
        return None
    low, high = numbered_pairs(alone[:1]).flatten().tolist()
    more = f" and {len(alone) - 1} more" if len(alone) > 1 else ""
    return f"the link {low} - {high}{more}"
