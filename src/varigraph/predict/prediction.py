"""What a prediction is: a mean, a variance and where the variance comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from varigraph.moments import Gaussian

Task = Literal["classification", "regression"]


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    r"""Mean and variance of a network's answer for every node (equation 13).

    .. math::
        \text{total} = \underbrace{\frac{1}{T} \sum_t v_t}_{\text{aleatoric}}
            + \underbrace{\frac{1}{T} \sum_t (m_t - \bar m)^2}_{\text{epistemic}}

    All variances are on the scale of ``mean``, never on two scales at once.

    Args:
        mean: expected class probability, ``[nodes, classes]``; in regression the expected value.
        aleatoric: variance that comes from the data: noisy features, uncertain links.
        epistemic: variance that comes from the weights, by T dropout masks.
        logits: mean and total variance before the softmax.
        method: how it was computed.
        samples: number T of dropout masks; 0 where the weights were taken as certain.
        task: ``"classification"`` or ``"regression"``.
    """

    mean: Tensor
    aleatoric: Tensor
    epistemic: Tensor
    logits: Gaussian
    method: str
    samples: int
    task: Task = "classification"

    @property
    def total(self) -> Tensor:  # [nodes, classes]
        """Total variance: ``aleatoric + epistemic``."""
        return self.aleatoric + self.epistemic

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.mean.shape))
        return (
            f"Prediction({shape}, {self.task}, method={self.method!r}, samples={self.samples}, "
            f"mean variance: aleatoric {self.aleatoric.mean():.3g}, "
            f"epistemic {self.epistemic.mean():.3g})"
        )
