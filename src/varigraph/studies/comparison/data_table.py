"""Table 1: the data sets, as we count them and as the paper does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data

from varigraph.data import load
from varigraph.reporting.text_table import TextTable
from varigraph.studies.paper import DATA

HEADER = ("data set", "counted by", "nodes", "links", "features", "classes", "degree", "clustering")
NOTES = (
    "links: without direction, each once, none of a node to itself. degree: two ends of each link, "
    "over the nodes. clustering: share of a node's pairs of neighbours that are linked, mean over "
    "nodes; a node with fewer than two neighbours counts 0.",
    "paper: its degree of PubMed is not two links over nodes, which gives 4.50.",
)
#: Rows of the adjacency matrix that are squared at a time.
BLOCK = 1000


def data_table(datasets: Sequence[str], *, root: Path | None = None) -> TextTable:
    """What the data sets hold.

    Args:
        datasets: their names.
        root: folder that holds them.
    """
    rows = []
    for dataset in datasets:
        rows.append((dataset, "us", *_text(counts(load(dataset, root=root)))))
        rows.append((dataset, "paper", *_text(DATA[dataset])))
    return TextTable("Table 1. Data sets", HEADER, tuple(rows), words=2, notes=NOTES)


def counts(graph: Data) -> tuple[int, int, int, int, float, float]:
    """Nodes, links, features, classes, mean degree and clustering of a graph.

    Args:
        graph: with every link in both directions.
    """
    adjacency = _adjacency(graph)
    nodes, links = graph.num_nodes, adjacency.nnz // 2
    classes = int(graph.y.max()) + 1
    return nodes, links, graph.num_features, classes, 2 * links / nodes, clustering(adjacency)


def clustering(adjacency: sp.csr_array) -> float:
    r"""Mean local clustering coefficient, :math:`\frac1n \sum_i \frac{(A^3)_{ii}}{d_i (d_i - 1)}`.

    Args:
        adjacency: symmetric, of zeros and ones, without a diagonal.
    """
    degree = np.diff(adjacency.indptr)
    closed = np.concatenate(
        [
            (block @ adjacency).multiply(block).sum(axis=1)
            for start in range(0, adjacency.shape[0], BLOCK)
            for block in [adjacency[start : start + BLOCK]]
        ]
    )
    return float(np.mean(closed / np.maximum(degree * (degree - 1), 1)))


def _adjacency(graph: Data) -> sp.csr_array:
    source, target = graph.edge_index.numpy()
    once = source != target
    ones = np.ones(int(once.sum()))
    shape = (graph.num_nodes, graph.num_nodes)
    adjacency = sp.csr_array((ones, (source[once], target[once])), shape=shape)
    adjacency.sum_duplicates()
    adjacency.data[:] = 1
    return adjacency


def _text(row: tuple[int, int, int, int, float, float]) -> tuple[str, ...]:
    *whole, degree, clustered = row
    return (*(f"{number:,}" for number in whole), f"{degree:.2f}", f"{clustered:.2f}")
