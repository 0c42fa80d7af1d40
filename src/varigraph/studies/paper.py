"""The figures that the paper printed, and what is known about them.

Munikoti, Agarwal, Das and Natarajan, *A general framework for quantifying aleatoric and epistemic
uncertainty in graph neural networks*. Accuracies are shares (0.9796, printed as 97.96 %).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """One row of a published table; ``None`` where the table has a dash."""

    accuracy: float
    cross_entropy: float
    per_class_nll: float | None
    total: float | None


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

#: Table 1: nodes, links, features, classes, mean degree, clustering.
DATA: dict[str, tuple[int, int, int, int, float, float]] = {
    "cora": (2708, 5429, 1433, 7, 4.00, 0.24),
    "computers": (13752, 245861, 767, 10, 36.74, 0.35),
    "pubmed": (19717, 44338, 500, 3, 6.34, 0.06),
}
#: Table 2: accuracy on Cora by method and noise.
ACCURACY: dict[str, dict[float, float]] = {
    "bgcn-map": {0.0: 0.9771, 2.5: 0.8925, 5.0: 0.7616, 12.0: 0.5860},
    "bgnn": {0.0: 0.9796, 2.5: 0.9021, 5.0: 0.7811, 12.0: 0.6122},
}
#: Table 3: nodes of PubMed, and for each level of noise the probability of the true class and the
#: total variance, averaged over classes.
NODES: dict[int, dict[float, tuple[float, float]]] = {
    12: {0.0: (0.923, 0.0003), 2.5: (0.835, 0.0031), 5.0: (0.767, 0.0062), 12.0: (0.578, 0.0166)},
    13: {0.0: (0.775, 0.0031), 2.5: (0.716, 0.0081), 5.0: (0.689, 0.0119), 12.0: (0.635, 0.0218)},
    28: {0.0: (0.551, 0.0023), 2.5: (0.353, 0.0034), 5.0: (0.262, 0.0044), 12.0: (0.131, 0.0063)},
}


def published(dataset: str, noise: float) -> Published | None:
    """The paper's row for a data set and a level of noise, where it has one.

    Example:
        >>> published("cora", 12).accuracy
        0.6122
    """
    return TABLES.get(dataset, {}).get(noise)


_SCALES = "its variance adds a variance of logits to one of probabilities."
_NOTES = {
    "cora": f"paper: its Cora features held the class label (hence 97.96 %); {_SCALES}",
    "computers": f"paper: trained on 300 nodes per class, not on 70 %; {_SCALES}",
    "pubmed": f"paper: trained on 300 nodes per class, not on 70 %; {_SCALES}",
}


def note(dataset: str) -> str:
    """What a reader must know before comparing our figures with the paper's.

    Args:
        dataset: name of a data set that the paper used.
    """
    return _NOTES[dataset]
