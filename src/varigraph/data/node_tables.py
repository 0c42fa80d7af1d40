"""``vg.read_tables``: a graph from two tables with commas, one of nodes and one of links."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.delimited import SCORES, comma_rows
from varigraph.data.link_files import read_links
from varigraph.data.link_tables import DroppedLinksWarning
from varigraph.errors import FileError
from varigraph.options import path_of, warn

#: Columns of nodes that are no features: the name, the truth, and what it may be used for.
NAME, TRUTH, SPLIT = "node", "y", "split"
#: Ends of the names of columns that say how noisy a feature is: its variance, or one σ.
NOISE = {"_var": 1, "_std": 2}
SPLITS = ("train", "val", "test")
#: What else the tables of links that we write have.
OURS = ("difference", "disagrees")
EMPTY = "fill it in with a guess, and say by a {column}_var how good that is; or leave the node out"


def read_tables(nodes: str | PathLike[str], links: str | PathLike[str]) -> Data:
    r"""A graph from ``nodes.csv`` and ``links.csv``, ready for :func:`varigraph.predict`.

    The table of nodes has a header, and one line for each node:

    - ``node``: its name, as the table of links has it.
    - Features, any number of columns: numbers, in the order of the table.
    - For a feature ``t``, where it is noisy: ``t_var``, the variance of its noise, or ``t_std``,
      its standard deviation. Features without either are exact.
    - ``y``, if known: a class by its name or number, or a value; empty where it is not known.
    - ``split``, if there is one: ``train``, ``val``, ``test`` or empty.

    The table of links has the two ends and, if known, how sure the link is, under ``probability``,
    ``measured`` or ``computed``, as ``varigraph links`` writes it.

    Args:
        nodes: the table of nodes, in UTF-8.
        links: the table of links.

    Returns:
        ``x`` ``[nodes, features]``, ``edge_index``, ``node_names`` and ``feature_names``; where the
        tables have them ``x_var`` ``[nodes, features]``, ``edge_prob``, ``y``, ``class_names`` and
        ``train_mask``, ``val_mask``, ``test_mask``.

    Raises:
        FileError: naming the line or column that cannot be right.

    Warns:
        DroppedLinksWarning: once, if anything that the table of links says is not in the graph.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     files = Path(folder) / "nodes.csv", Path(folder) / "links.csv"
        ...     _ = files[0].write_text("node,t,t_std\nA,1.5,0.5\nB,2.5,0.1\n")
        ...     _ = files[1].write_text("from,to,probability\nA,B,0.9\n")
        ...     graph = read_tables(*files)
        >>> graph.x.tolist(), graph.edge_prob.tolist()
        ([[1.5], [2.5]], [0.8999999761581421, 0.8999999761581421])
    """
    file = path_of("nodes", nodes, remedy='read_tables("nodes.csv", "links.csv")')
    table = NodeTable.read(file)
    fields = {
        "x": table.features(),
        "node_names": table.names(),
        "feature_names": list(table.measured),
        "x_var": table.noise(),
        **table.truth(),
        **table.masks(),
    }
    numbers = {name: number for number, name in enumerate(table.names())}
    listed = path_of("links", links, remedy='read_tables("nodes.csv", "links.csv")')
    fields["edge_index"], fields["edge_prob"] = _links(listed, numbers, file)
    return Data(**{name: value for name, value in fields.items() if value is not None})


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The columns of a table of nodes.

    Args:
        path: the file, for messages.
        lines: number of the line of each node.
        columns: what stands in each column, by its name.
    """

    path: Path
    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, path: Path) -> NodeTable:
        """The table of a file, whose columns are known to make sense."""
        (line, header), *rows = [*comma_rows(path)] or [(1, [])]
        if NAME not in header:
            raise FileError(
                path,
                f"no column is called {NAME!r}",
                f"begin with a line such as {NAME},temperature,temperature_std",
                line=line,
            )
        for name in header:
            if not name or header.count(name) > 1:
                problem = f"columns are called {name!r}" if name else "a column has no name"
                raise FileError(path, problem, "give each a name of its own", line=line)
        if not rows:
            raise FileError(path, "there are no nodes in this file", "give one line to each")
        lines, body = zip(*rows, strict=True)
        columns = dict(zip(header, zip(*body, strict=True), strict=True))
        table = cls(path, lines, columns)
        table._check_columns()
        return table

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the features."""
        noise = {name for feature in self.columns for name in self._noise_of(feature)}
        return tuple(name for name in self.columns if name not in {NAME, TRUTH, SPLIT} | noise)

    def names(self) -> list[str]:
        """What nodes are called."""
        first: dict[str, int] = {}
        for line, name in zip(self.lines, self.columns[NAME], strict=True):
            if not name or name in first:
                said = f"{name!r} stands in line {first[name]} already" if name else "has no name"
                raise FileError(self.path, f"a node {said}", "give each node one line", line=line)
            first[name] = line
        return list(first)

    def features(self) -> Tensor:  # -> [nodes, features]
        """What was measured."""
        return torch.from_numpy(np.stack([self._numbers(name) for name in self.measured], 1))

    def noise(self) -> Tensor | None:  # -> [nodes, features]
        """The variance of the noise of each feature; None where all are exact."""
        given = [self._noise_of(feature) for feature in self.measured]
        if not any(given):
            return None
        exact = np.zeros(len(self.lines), dtype=np.float32)
        var = [self._variance(columns[0]) if columns else exact for columns in given]
        return torch.from_numpy(np.stack(var, 1))

    def truth(self) -> dict[str, Tensor | list[str]]:
        """``y``, and ``class_names`` where it has words."""
        if TRUTH not in self.columns:
            return {}
        texts = self.columns[TRUTH]
        known = sorted({text for text in texts if text})
        if all(text.isdecimal() for text in known):
            return {"y": torch.tensor([int(text) if text else -1 for text in texts])}
        try:
            return {"y": torch.tensor([float(text) if text else np.nan for text in texts])}
        except ValueError:
            number = {"": -1, **{text: place for place, text in enumerate(known)}}
            return {"y": torch.tensor([number[text] for text in texts]), "class_names": known}

    def masks(self) -> dict[str, Tensor]:
        """Which nodes the network has learnt from, was chosen by, and is judged by."""
        if SPLIT not in self.columns:
            return {}
        for line, text in zip(self.lines, self.columns[SPLIT], strict=True):
            if text and text not in SPLITS:
                raise FileError(
                    self.path, f"{text!r} is no split", f"one of {', '.join(SPLITS)}", line=line
                )
        return {
            f"{name}_mask": torch.tensor([text == name for text in self.columns[SPLIT]])
            for name in SPLITS
        }

    def _noise_of(self, feature: str) -> list[str]:
        """Columns that say how noisy a feature is."""
        return [f"{feature}{end}" for end in NOISE if f"{feature}{end}" in self.columns]

    def _check_columns(self) -> None:
        if not self.measured:
            raise FileError(self.path, "there is no feature", "add a column of numbers")
        for feature in self.measured:
            if len(self._noise_of(feature)) > 1:
                raise FileError(
                    self.path,
                    f"{feature} has both a variance and a standard deviation",
                    f"leave {feature}_var or {feature}_std out",
                )
            stem, end = feature[:-4], feature[-4:]
            if end in NOISE:
                raise FileError(
                    self.path,
                    f"{feature} says how noisy {stem} is, but there is no column {stem}",
                    f"rename it, or add {stem}",
                )

    def _variance(self, column: str) -> NDArray[np.float32]:
        given = self._numbers(column)
        if (given < 0).any():
            line = self.lines[int((given < 0).argmax())]
            raise FileError(self.path, f"{column} is below 0", "noise is 0 or more", line=line)
        return np.power(given, NOISE[column[-4:]], dtype=np.float32)

    def _numbers(self, column: str) -> NDArray[np.float32]:
        texts = self.columns[column]
        try:
            found = np.array(texts, dtype=np.float64).astype(np.float32)
        except ValueError:
            found = np.array([_number(text) for text in texts])
        bad = ~np.isfinite(found)
        if bad.any():
            place = int(bad.argmax())
            text, remedy = texts[place], "correct it, or leave the column out"
            problem = f"{column} is {text!r}, which is no finite number"
            if not text or text.lower() in {"nan", "na", "null", "none"}:
                problem, remedy = f"{column} is missing", EMPTY.format(column=column)
            raise FileError(self.path, problem, remedy, line=self.lines[place])
        return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _links(path: Path, numbers: dict[str, int], nodes: Path) -> tuple[Tensor, Tensor | None]:
    """``edge_index`` ``[2, edges]`` in the numbers of the nodes, and the probabilities if any."""
    line, header = next(comma_rows(path), (1, []))
    unknown = [name for name in header[2:] if name not in (*SCORES, *OURS)]
    if unknown:
        raise FileError(
            path,
            f"the column {unknown[0]!r} has no meaning that is known",
            f"call the one that says how sure a link is {SCORES[0]}, and leave others out",
            line=line,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedLinksWarning)
        read = read_links(path, score=None if set(SCORES) & set(header[2:]) else False)
    if not read.reading.lossless:
        warn(f"{path}: {read.reading}", DroppedLinksWarning)
    for name in read.node_names:
        if name not in numbers:
            raise FileError(
                path, f"there is no node {name!r} in {nodes.name}", "add it there, or correct it"
            )
    own = torch.tensor([numbers[name] for name in read.node_names])
    return own[read.edge_index], read.get("edge_prob")
