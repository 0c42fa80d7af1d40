"""The links of a graph as a table: written with what is known about each, and read back."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data import DroppedLinksWarning, read_links
from varigraph.errors import FileError
from varigraph.links.link_pairs import LinkPairs, link_pairs, numbered_pairs, pair_numbers

#: What was measured and what was computed disagree if they are further apart than this.
APART = 0.5


@dataclass(frozen=True, eq=False)
class LinkRows:
    """Links without direction, in the order of the table: those to look at come first.

    Where scores were measured, the largest difference comes first; else the least likely link.

    Args:
        ends: names of the two ends of each link.
        computed: how likely it is by the rest of the graph, ``[links]``.
        measured: its score, ``[links]``; None where nothing was measured.
    """

    ends: list[tuple[str, str]]
    computed: Tensor
    measured: Tensor | None

    @classmethod
    def of(cls, graph: Data, *, measured: Tensor | None = None) -> LinkRows:
        """The links of a graph, each once; those of a node to itself are left out.

        Args:
            graph: with ``edge_prob``, the same in both directions of a link, and ``node_names``
                where nodes are not called by their numbers.
            measured: scores, ``[edges]``, the same in both directions.
        """
        low, high = graph.edge_index
        once = (low < high).nonzero().flatten()
        computed: Tensor = graph.edge_prob[once]
        scores = None if measured is None else measured[once]
        first = computed if scores is None else -(computed - scores).abs()
        order = first.argsort(stable=True)
        names = [str(name) for name in graph.get("node_names") or range(graph.num_nodes)]
        at = once[order]
        ends = [(names[u], names[v]) for u, v in graph.edge_index[:, at].t().tolist()]
        return cls(ends, computed[order], None if scores is None else scores[order])

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def disagreeing(self) -> int | None:
        """How many links were computed to be far from what was measured; None without scores."""
        return None if self.measured is None else int(self._disagree(self.measured).sum())

    def csv(self) -> str:
        """One line for each link, ``from,to,computed``, that ``vg.read_links`` reads back.

        Where scores were measured: ``from,to,measured,computed,difference,disagrees``, and what is
        read back is what was measured. Names stay as they are, even where a spreadsheet would take
        them for formulas: an apostrophe in front could be part of a name.
        """
        columns: dict[str, Sequence[str]] = {
            "from": [_field(start) for start, _ in self.ends],
            "to": [_field(end) for _, end in self.ends],
        }
        if self.measured is not None:
            columns["measured"] = _digits(self.measured)
        columns["computed"] = _digits(self.computed)
        if self.measured is not None:
            difference = (self.computed - self.measured).tolist()
            columns["difference"] = [f"{value:.3g}" for value in difference]
            marks = self._disagree(self.measured).tolist()
            columns["disagrees"] = ["yes" if mark else "no" for mark in marks]
        lines = map(",".join, zip(*columns.values(), strict=True))
        return "\n".join([",".join(columns), *lines, ""])

    def _disagree(self, measured: Tensor) -> Tensor:  # [links] -> [links]
        return (self.computed - measured).abs() > APART


def _digits(probs: Tensor) -> list[str]:
    """As few digits as bring every float32 back as it is: 0.989, not 0.989000022."""
    return [str(prob) for prob in probs.numpy()]


def _field(name: str) -> str:
    """A name as a field between commas, in quotes where it could be taken for something else."""
    plain = not name.startswith("#") and not set(name) & {'"', ","}
    return name if plain else '"' + name.replace('"', '""') + '"'


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
