"""The record that comes with link probabilities: how good they were where the truth is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from varigraph.metrics import auroc, average_precision, binary_brier, binary_ece, log_loss


@dataclass(frozen=True, eq=False)
class LinkQuality:
    """How well the probabilities tell links from as many non-links, none of which was learnt from.

    Whatever ``odds`` were asked for, quality is measured at balanced ones, since it takes equal
    numbers of both kinds.

    Args:
        links: probability of each undirected link at balanced odds, ``[links]``.
        non_links: that of as many pairs without a link, ``[links]``.
        method: which scorer judged them.
        calibration: how the scores of each fold became probabilities, ``scaled`` or ``isotonic``.
        odds: those of ``edge_prob``, ``balanced`` or ``density``.

    Example:
        >>> quality = LinkQuality(torch.tensor([0.9, 0.8]), torch.tensor([0.2, 0.1]),
        ...     method="hadamard", calibration=("scaled", "scaled"), odds="balanced")
        >>> print(quality)
        hadamard, 2 folds, balanced odds, scaled 2 times: AUC 1.000, average precision 1.000, Brier
        score 0.025, ECE 0.150, log loss 0.164
    """

    links: Tensor
    non_links: Tensor
    method: str
    calibration: tuple[str, ...]
    odds: str
    auc: float = field(init=False)
    average_precision: float = field(init=False)
    brier: float = field(init=False)
    ece: float = field(init=False)
    log_loss: float = field(init=False)

    def __post_init__(self) -> None:
        prob = torch.cat([self.links, self.non_links])
        real = torch.arange(len(prob), device=prob.device) < len(self.links)
        measures = {
            "auc": auroc,
            "average_precision": average_precision,
            "brier": binary_brier,
            "ece": binary_ece,
            "log_loss": log_loss,
        }
        for name, measure in measures.items():
            object.__setattr__(self, name, measure(prob, real))

    @property
    def folds(self) -> int:
        """How many models shared the work."""
        return len(self.calibration)

    def __str__(self) -> str:
        kinds = sorted(set(self.calibration))
        ways = ", ".join(f"{kind} {self.calibration.count(kind)} times" for kind in kinds)
        return (
            f"{self.method}, {self.folds} folds, {self.odds} odds, {ways}: "
            f"AUC {self.auc:.3f}, average precision {self.average_precision:.3f}, "
            f"Brier score {self.brier:.3f}, ECE {self.ece:.3f}, log loss {self.log_loss:.3f}"
        )
