"""``vg.read_links``: a graph from a file that knows how sure each of its links is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import torch
from torch_geometric.data import Data

from varigraph.data.delimited import Column, ScoreColumn, Wanted, delimited
from varigraph.data.graphml import graphml
from varigraph.data.link_tables import DroppedLinksWarning, LinkBlock, LinkTable
from varigraph.errors import OptionError
from varigraph.options import path_of, warn

GRAPHML = (".graphml", ".xml")


def read_links(
    path: str | PathLike[str],
    score: ScoreColumn = None,
    *,
    ends: tuple[Column, Column] = (0, 1),
    scale: float | None = None,
) -> Data:
    r"""A graph whose links keep their measured probability, ready for :func:`varigraph.predict`.

    .. math::
        p_{uv} = \max_{\text{lines about } \{u, v\}} \text{score} / \text{scale}

    Links are undirected. A link that is listed more than once, in either direction, is taken once;
    if its scores differ, the largest counts. Links of a node to itself and of score 0 are left
    out, but their nodes stay.

    The name of the file says how it is written, with or without ``.gz`` (gzip itself is known by
    content): ``.graphml`` or ``.xml`` is GraphML; ``.csv`` is a table with commas and a header;
    all others have white space between the fields (tabs, if the first line has one) and a header
    only if columns are asked for by name. Files of STRING are known by their header: 1000 is
    certain. Lines that begin with ``#`` and blank lines are skipped.

    Args:
        path: the file, in UTF-8, or in any encoding that GraphML declares.
        score: the column of the score, by name or by number, counted from 0; in GraphML an edge
            attribute. None is for tables of three columns without a header, for STRING, and for
            tables whose header has ``probability``, ``measured`` or ``computed``.
            False reads the ends alone, whatever other columns there are: the graph is given no
            ``edge_prob``, and every line counts as an observed link.
        ends: the columns of the two ends, by name or number. GraphML has its own.
        scale: the score of a certain link; 1 by default, and 1000 for STRING.

    Returns:
        ``edge_index`` ``[2, 2 * links]``, the links as first listed and then all of them reversed;
        ``edge_prob`` ``[2 * links]``, float32, if scores are read; ``num_nodes``;
        ``node_names``, in the order of the file; ``reading``, the
        :class:`~varigraph.data.Reading` that counts lines.

    Raises:
        FileError: the file or one of its lines cannot be right; nothing is half read.
        OptionError: an option has a value that makes no sense.

    Warns:
        DroppedLinksWarning: once, if anything that the file says is not in the graph.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "links.csv"
        ...     _ = file.write_text("from,to,confidence\nA,B,0.75\nB,C,0.25\n")
        ...     graph = read_links(file, score="confidence")
        >>> graph.node_names, graph.edge_index.tolist(), graph.edge_prob.tolist()
        (['A', 'B', 'C'], [[0, 1, 1, 2], [1, 2, 0, 1]], [0.75, 0.25, 0.75, 0.25])
        >>> print(graph.reading)
        2 lines, 2 links
    """
    _check_options(score, ends, scale)
    return _graph(path, Wanted(score, ends), scale)


def read_listed_links(
    path: str | PathLike[str],
    score: ScoreColumn = None,
    *,
    ends: tuple[Column, Column] = (0, 1),
    scale: float | None = None,
) -> Data:
    """As :func:`read_links`; a file without any scores gives a graph without ``edge_prob``."""
    _check_options(score, ends, scale)
    return _graph(path, Wanted(score, ends, optional=True), scale)


def _graph(path: str | PathLike[str], wanted: Wanted, scale: float | None) -> Data:
    file = path_of("path", path, remedy='read_links("links.csv")')
    table, reading = LinkTable.of(_blocks(file, wanted), file, scale).merged()
    if not reading.lossless:
        warn(f"{file}: {reading}", DroppedLinksWarning)
    there = torch.from_numpy(table.ends).t()  # [2, links]
    graph = Data(
        edge_index=torch.cat([there, there.flip(0)], dim=1),
        num_nodes=len(table.names),
        node_names=table.names,
        reading=reading,
    )
    if table.scored:
        graph.edge_prob = torch.from_numpy(table.probs).float().repeat(2)
    return graph


def _blocks(path: Path, wanted: Wanted) -> Iterator[LinkBlock]:
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    if kind not in GRAPHML:
        return delimited(path, wanted, commas=kind == ".csv")
    score = wanted.score
    if (isinstance(score, int) and score is not False) or wanted.ends != (0, 1):
        raise OptionError(
            "GraphML has no columns: its edges have a source, a target and attributes by name",
            'read_links(path, score="confidence")',
        )
    return graphml(path, score, optional=wanted.optional)


def _check_options(score: object, ends: object, scale: float | None) -> None:
    if score is not None and score is not False and not _is_column(score):
        raise OptionError(
            f"score={score!r} is no column", 'score="confidence", score=2, or False for no scores'
        )
    if score is False and scale is not None:
        raise OptionError(f"scale={scale!r}, but score=False reads no scores", "leave scale= out")
    if not isinstance(ends, tuple) or len(ends) != 2 or not all(map(_is_column, ends)):
        raise OptionError(f"ends={ends!r} are not two columns", 'ends=("from", "to") or (0, 1)')
    if scale is not None and not (_is_number(scale) and 0 < scale < math.inf):
        raise OptionError(f"scale={scale!r} is not the score of a certain link", "scale=1000")


def _is_column(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, str) or (isinstance(value, int) and value >= 0)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
