"""Tables 4 to 6: every method at every level of noise."""

from __future__ import annotations

from varigraph.reporting.text_table import TextTable
from varigraph.studies.comparison.cell_text import figure_text, number_text
from varigraph.studies.comparison.plan import DATASET
from varigraph.studies.comparison.results import SECONDS, Results
from varigraph.studies.config import NOISE
from varigraph.studies.paper import published

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
        _table(results, table, "paper", PAPERS, f"{start}, paper protocol", _LEGEND["papers"]),
        _table(results, table, "held-out", PAPERS, f"{start}, held-out", _LEGEND["papers"]),
        _table(
            results, table, "held-out", BEYOND, f"{start}, held-out: calibration", _LEGEND["beyond"]
        ),
        _table(results, table, "held-out", PARTS, f"{start}, held-out: parts", _LEGEND["parts"]),
    ]


def _table(
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
            figures = [
                results.figure(protocol, dataset, method, noise, metric) for metric in measures
            ]
            seeds = str(len(results.by_seed(protocol, dataset, method, noise, SECONDS[0])))
            cells = map(figure_text, figures, measures)
            rows.append((f"{noise:g} %", method, seeds, *cells))
    header = ("noise", "method", "seeds", *measures.values())
    return TextTable(title, header, tuple(rows), words=2, notes=notes)


def _printed(dataset: str, noise: float, measures: dict[str, str]) -> list[str]:
    row = published(dataset, noise)
    return [number_text(getattr(row, metric), metric) for metric in measures]
