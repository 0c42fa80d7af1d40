"""Where the probabilities of a run's links come from: nowhere, a method or a file."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from torch import Tensor
from torch_geometric.data import Data

from varigraph.errors import OptionError
from varigraph.files.fingerprint import digest
from varigraph.links.crossfit import Progress
from varigraph.links.methods import RECIPES, Method
from varigraph.studies.link_table import matched_probabilities
from varigraph.studies.links import links_study


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
        """Tells one file's probabilities from another's."""
        if self.prob is None:
            return None
        return digest(self.prob.numpy().tobytes())

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
