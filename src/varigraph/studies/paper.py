"""The figures that the paper printed, and what is known about them.

Munikoti, Agarwal, Das and Natarajan, *A general framework for quantifying aleatoric and epistemic
uncertainty in graph neural networks*. Accuracies are shares (0.9796, printed as 97.96 %).
"""

from __future__ import annotations

from varigraph.quantify import Published

TABLES: dict[str, dict[float, Published]] = {
    "cora": {  # table 4
        0.0: Published(0.9796, 0.19, None, None),
        2.5: Published(0.9021, 0.45, -0.98, 0.12),
        5.0: Published(0.7811, 0.76, -0.65, 0.24),
        12.0: Published(0.6122, 1.64, -0.23, 0.57),
    },
    "computers": {  # table 5
        0.0: Published(0.8256, 0.599, None, None),
        2.5: Published(0.8188, 0.624, -1.58, 0.0137),
        5.0: Published(0.8079, 0.6435, -1.47, 0.0246),
        12.0: Published(0.7826, 0.6938, -1.24, 0.0549),
    },
    "pubmed": {  # table 6
        0.0: Published(0.8400, 0.40, None, None),
        2.5: Published(0.8283, 0.46, 10.75, 0.0029),
        5.0: Published(0.8070, 0.52, 6.83, 0.0046),
        12.0: Published(0.7603, 0.70, 3.90, 0.0092),
    },
}

_OURS = (
    "ours: unseen test nodes, variances of class probabilities; this method (diagonal) drops "
    "correlations, so its aleatoric part is far too small."
)
_SCALES = "its variance adds a variance of logits to one of probabilities."
_NOTES = {
    "cora": f"paper: its Cora features held the class label (hence 97.96 %); {_SCALES}",
    "computers": f"paper: trained on 300 nodes per class, not on 70 %; {_SCALES}",
    "pubmed": f"paper: trained on 300 nodes per class, not on 70 %; {_SCALES}",
}


def published(dataset: str, noise: float) -> Published | None:
    """The paper's row for a data set and a level of noise, where it has one.

    Example:
        >>> published("cora", 12).accuracy
        0.6122
    """
    return TABLES.get(dataset, {}).get(noise)


def notes(dataset: str) -> tuple[str, ...]:
    """What a reader must know before comparing our figures with the paper's.

    Args:
        dataset: name of the data set; one that the paper did not use has nothing to compare with.
    """
    return (_OURS, _NOTES.get(dataset, f"paper: {dataset} is not among its data sets."))
