"""What every contender answers, as far as it can."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Answer:
    """Logits and class probabilities, ``[nodes, classes]`` each.

    Args:
        logits: their mean.
        logits_var: their variance; None from a plain forward.
        mean: of the class probabilities.
        total: variance of the class probabilities.
    """

    logits: Tensor
    logits_var: Tensor | None = None
    mean: Tensor | None = None
    total: Tensor | None = None
