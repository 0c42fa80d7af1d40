"""All tables of a comparison, by number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data

from varigraph.data import load
from varigraph.reporting.text_table import TextTable
from varigraph.studies.comparison.cells import BGCN, BGNN, DATASET, WATCHED
from varigraph.studies.comparison.results import (
    SECONDS,
    Figure,
    Results,
    figure_text,
    number_text,
    verdicts,
)
from varigraph.studies.config import NOISE
from varigraph.studies.paper import ACCURACY, DATA, NODES, note, published


def tables(
    numbers: Sequence[int], results: Results, datasets: Sequence[str], *, root: Path | None
) -> dict[int, list[TextTable]]:
    """The tables, each of one part or several.

    Args:
        numbers: of the tables.
        results: of their cells.
        datasets: that table 1 describes.
        root: folder that holds them.
    """
    return {number: _table(number, results, datasets, root) for number in numbers}


def _table(
    number: int, results: Results, datasets: Sequence[str], root: Path | None
) -> list[TextTable]:
    if number == 1:
        return [data_table(datasets, root=root)]
    if number == 2:
        return [accuracy_table(results)]
    if number == 3:
        return [node_table(results)]
    papers, held_out, beyond, parts = method_tables(results, number)
    dataset = DATASET[number]
    return [
        replace(papers, notes=(*papers.notes, note(dataset))),
        held_out,
        replace(beyond, notes=(*beyond.notes, *verdicts(results, dataset))),
        parts,
    ]


DATA_HEADER = (
    "data set",
    "counted by",
    "nodes",
    "links",
    "features",
    "classes",
    "degree",
    "clustering",
)
DATA_NOTES = (
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
        rows.append((dataset, "us", *_counts_text(counts(load(dataset, root=root)))))
        rows.append((dataset, "paper", *_counts_text(DATA[dataset])))
    return TextTable("Table 1. Data sets", DATA_HEADER, tuple(rows), words=2, notes=DATA_NOTES)


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


def _counts_text(row: tuple[int, int, int, int, float, float]) -> tuple[str, ...]:
    *whole, degree, clustered = row
    return (*(f"{number:,}" for number in whole), f"{degree:.2f}", f"{clustered:.2f}")


ACCURACY_HEADER = ("protocol", "noise", "BGCN", "paper", "BGNN", "paper")
ACCURACY_NOTES = (
    "accuracy in per cent, mean ± standard deviation over seeds.",
    "paper protocol: the class is among the features of Cora, hence the figures near 98 %. "
    "held-out: without it. The paper's BGCN was run with dropout off and a graph learned from the "
    "true labels of all nodes, test nodes included; ours never sees a label of a test node.",
)


def accuracy_table(results: Results) -> TextTable:
    """BGCN and BGNN under both protocols.

    Args:
        results: of the cells of table 2.
    """
    rows = [
        (protocol, f"{noise:g} %", *_accuracy_cells(results, protocol, noise))
        for protocol in ("paper", "held-out")
        for noise in NOISE
    ]
    title = "Table 2. Accuracy on Cora"
    return TextTable(title, ACCURACY_HEADER, tuple(rows), words=2, notes=ACCURACY_NOTES)


def _accuracy_cells(results: Results, protocol: str, noise: float) -> list[str]:
    cells = []
    for method in (BGCN, BGNN):
        figure = results.figure(protocol, "cora", method, noise, "accuracy")
        printed = ACCURACY[method][noise] if protocol == "paper" else None
        cells += [figure_text(figure, "accuracy"), number_text(printed, "accuracy")]
    return cells


NODE_HEADER = ("node", "noise", "protocol", "method", "probability", "variance", "trained on")
NODE_NOTES = (
    "probability: of the true class. variance: total, averaged over classes. Mean ± standard "
    "deviation over seeds.",
    "trained on: for how many seeds the node was among the training nodes; its probability is then "
    "no test of anything. The paper does not say.",
    "paper protocol: the variance adds one of logits to one of class probabilities.",
)


def node_table(results: Results) -> TextTable:
    """The nodes that the paper looks at, at every level of noise.

    Args:
        results: of the cells of table 3.
    """
    rows = []
    for place, node in enumerate(WATCHED["pubmed"]):
        for level, noise in enumerate(NOISE):
            start = (str(node), f"{noise:g} %")
            printed = [number_text(number, "node") for number in NODES[node][noise]]
            rows.append((*start, "paper", "printed", *printed, "?"))
            rows += [(*start, *cells) for cells in _node_rows(results, level, place)]
    title = "Table 3. Nodes 12, 13 and 28 of PubMed"
    return TextTable(title, NODE_HEADER, tuple(rows), words=4, notes=NODE_NOTES)


def _node_rows(results: Results, level: int, place: int) -> list[tuple[str, ...]]:
    rows = []
    for protocol in ("paper", "held-out"):
        for method in results.methods(protocol, "pubmed"):
            found = [
                cell["levels"][level]["nodes"][place]
                for cell in results.cells
                if (cell["protocol"], cell["dataset"], cell["method"])
                == (protocol, "pubmed", method)
            ]
            texts = [
                figure_text(Figure.of([node[what] for node in found]), "node")
                for what in ("probability", "variance")
            ]
            seen = sum(node["trained_on"] for node in found)
            rows.append((protocol, method, *texts, f"{seen} of {len(found)}"))
    return rows


PAPERS = {
    "accuracy": "accuracy",
    "cross_entropy": "loss",
    "per_class_nll": "NLL",
    "total": "variance",
}
PARTS = {
    "aleatoric": "aleatoric",
    "epistemic": "epistemic",
    "training_seconds": "training s",
    "prediction_seconds": "prediction s",
}
BEYOND = {
    "brier": "Brier",
    "ece": "ECE",
    "auroc": "AUROC",
    "confidence_auroc": "confidence",
    "risk_coverage_area": "AURC",
}
_LEGEND = {
    "papers": (
        "accuracy in per cent; loss: cross entropy of the expected probabilities; NLL: equation "
        "14, variances below 1e-6 count as 1e-6; variance: total, mean over test nodes and "
        "classes. Mean ± standard deviation over seeds.",
        "NLL takes every class of every node as a Gaussian with the predicted variance. In the "
        "hundreds it is no misprint: some nodes are wrong although their variance is close to 0, "
        "and each counts its squared error divided by that. It rewards small variances and is no "
        "proper score of classes; loss, Brier score and ECE are.",
    ),
    "parts": (
        "aleatoric + epistemic = variance; a baseline counts all of it as epistemic. Seconds "
        "of processor time: training of one network (or of all members) for one level of noise, "
        "and prediction for all nodes.",
    ),
    "beyond": (
        "Brier: summed over classes; ECE: 15 bins of equal width; AUROC: of the total variance for "
        "spotting errors, beside it that of plain softmax confidence; AURC: area under the "
        "risk-coverage curve of the variance. Brier, ECE and AURC: lower is better.",
    ),
}


def method_tables(results: Results, table: int) -> list[TextTable]:
    """What the paper measures, the parts of the variance, and what it leaves out.

    Args:
        results: of the cells of that table.
        table: 4, 5 or 6.
    """
    start = f"Table {table}. {DATASET[table].capitalize()}"
    return [
        _method_table(
            results, table, "paper", PAPERS, f"{start}, paper protocol", _LEGEND["papers"]
        ),
        _method_table(results, table, "held-out", PAPERS, f"{start}, held-out", _LEGEND["papers"]),
        _method_table(
            results, table, "held-out", BEYOND, f"{start}, held-out: calibration", _LEGEND["beyond"]
        ),
        _method_table(
            results, table, "held-out", PARTS, f"{start}, held-out: parts", _LEGEND["parts"]
        ),
    ]


def _method_table(
    results: Results,
    table: int,
    protocol: str,
    measures: dict[str, str],
    title: str,
    notes: tuple[str, ...],
) -> TextTable:
    dataset = DATASET[table]
    rows = []
    for noise in NOISE:
        if protocol == "paper":
            rows.append((f"{noise:g} %", "printed", "–", *_printed(dataset, noise, measures)))
        for method in results.methods(protocol, dataset):
            means = [
                results.figure(protocol, dataset, method, noise, metric) for metric in measures
            ]
            seeds = str(len(results.by_seed(protocol, dataset, method, noise, SECONDS[0])))
            cells = map(figure_text, means, measures)
            rows.append((f"{noise:g} %", method, seeds, *cells))
    header = ("noise", "method", "seeds", *measures.values())
    return TextTable(title, header, tuple(rows), words=2, notes=notes)


def _printed(dataset: str, noise: float, measures: dict[str, str]) -> list[str]:
    row = published(dataset, noise)
    return [number_text(getattr(row, metric), metric) for metric in measures]
