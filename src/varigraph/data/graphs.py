"""Graphs by name, ready for training: features, links, labels and a seeded split."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from varigraph.data.cora import cora
from varigraph.data.raw import read
from varigraph.data.sources import SOURCES
from varigraph.data.splits import random_split
from varigraph.errors import DatasetError
from varigraph.options import path_of

DATASETS: tuple[str, ...] = ("cora", *SOURCES)


def load(name: str, *, root: str | Path | None = None, seed: int = 0) -> Data:
    r"""A graph with ``x``, ``edge_index``, ``y``, ``train_mask``, ``val_mask`` and ``test_mask``.

    Features of Cora, CiteSeer and PubMed are scaled per node to

    .. math::
        x_{nf} \leftarrow x_{nf} \Big/ \sum_g x_{ng}

    (a node without words keeps its zeros); those of Computers and Photo stay 0 or 1. Every link
    is listed once in each direction, sorted. Cora comes with ``class_names``.

    Args:
        name: one of :data:`DATASETS`, in any case. Cora is part of this package; the others are
            read from disk and, where they are missing, downloaded into the cache folder
            (``$XDG_CACHE_HOME/varigraph``, else ``~/.cache/varigraph``).
        root: the folder that holds ``PubMed/raw``, ``Computers/raw`` and so on; else
            ``$VARIGRAPH_DATA``, else the cache folder. It is only read, never written.
        seed: of the random split into 70 % training, 10 % validation and 20 % test nodes.

    Raises:
        DatasetError: if the name is unknown, or its files are missing or unreadable.
        OptionError: an option has a value that makes no sense.

    Example:
        >>> graph = load("cora")
        >>> graph.num_nodes, graph.num_edges, graph.num_features, len(graph.class_names)
        (2708, 10556, 1433, 7)
        >>> int(graph.train_mask.sum()), int(graph.val_mask.sum()), int(graph.test_mask.sum())
        (1895, 270, 543)
    """
    key = _known(name)
    if root is not None:
        path_of("root", root, remedy='root="folder", the one that holds PubMed/raw and so on')
    stored = cora() if key == "cora" else read(SOURCES[key], root=root)
    normalise = key == "cora" or SOURCES[key].row_normalised
    split = random_split(stored.num_nodes, seed=seed)
    graph = Data(
        x=_row_normalised(stored.x) if normalise else stored.x,
        edge_index=to_undirected(stored.edge_index, num_nodes=stored.num_nodes),
        y=stored.y,
        train_mask=split.train,
        val_mask=split.val,
        test_mask=split.test,
    )
    if "class_names" in stored:
        graph.class_names = stored.class_names
    return graph


def _known(name: str) -> str:
    key = str(name).lower()
    if key in DATASETS:
        return key
    nearest = get_close_matches(key, DATASETS, n=1)
    raise DatasetError(
        f"no data set is called {name!r}; known are {', '.join(DATASETS)}",
        f"load({nearest[0]!r})" if nearest else f"load one of these, such as load({DATASETS[0]!r})",
    )


def _row_normalised(x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, features]
    # torch_geometric's NormalizeFeatures leaves rows whose sum is below 1 as they are.
    total = x.sum(dim=1, keepdim=True)
    return x / total.where(total > 0, 1)
