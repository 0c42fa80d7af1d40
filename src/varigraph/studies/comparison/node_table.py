"""Table 3: three nodes of PubMed, one by one."""

from __future__ import annotations

from varigraph.reporting.text_table import TextTable
from varigraph.studies.comparison.cell import WATCHED
from varigraph.studies.comparison.cell_text import figure_text, number_text
from varigraph.studies.comparison.results import Figure, Results
from varigraph.studies.config import NOISE
from varigraph.studies.paper import NODES

HEADER = ("node", "noise", "protocol", "method", "probability", "variance", "trained on")
NOTES = (
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
            rows += [(*start, *cells) for cells in _rows(results, level, place)]
    title = "Table 3. Nodes 12, 13 and 28 of PubMed"
    return TextTable(title, HEADER, tuple(rows), words=4, notes=NOTES)


def _rows(results: Results, level: int, place: int) -> list[tuple[str, ...]]:
    rows = []
    for protocol in ("paper", "held-out"):
        for method in results.methods(protocol, "pubmed"):
            found = [
                cell["levels"][level]["nodes"][place]
                for cell in results.cells
                if (cell["protocol"], cell["dataset"], cell["method"])
                == (protocol, "pubmed", method)
            ]
            figures = [
                figure_text(Figure.of([node[what] for node in found]), "node")
                for what in ("probability", "variance")
            ]
            seen = sum(node["trained_on"] for node in found)
            rows.append((protocol, method, *figures, f"{seen} of {len(found)}"))
    return rows
