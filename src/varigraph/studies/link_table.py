"""Probabilities of links as a file of text, written and found again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data import DroppedLinksWarning, read_links
from varigraph.errors import FileError
from varigraph.links.link_pairs import LinkPairs, link_pairs, numbered_pairs, pair_numbers


def link_table(graph: Data, *, title: str) -> str:
    """One line for each link, its ends and its probability, that ``vg.read_links`` reads back.

    Ends are called by ``graph.node_names`` where there are names, else by their numbers. Directions
    and links of a node to itself are left out. Names stay as they are, also where a spreadsheet
    would take them for formulas: an apostrophe in front could not be told from one of a name.

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
