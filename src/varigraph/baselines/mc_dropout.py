"""Monte-Carlo dropout (Gal and Ghahramani, 2016): leave dropout on, and look at the scatter."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn
from torch_geometric.data import Data

from varigraph.prediction import Prediction, predict


@dataclass(frozen=True, eq=False)
class McDropout:
    r"""Mean and variance of the softmax over T dropout masks.

    .. math::
        \bar y = \frac1T \sum_t \operatorname{softmax}(f_t(x)), \qquad
        v = \frac{1}{T - 1} \sum_t \left(\operatorname{softmax}(f_t(x)) - \bar y\right)^2

    It is :func:`varigraph.predict` with ``method="sampled"`` and the weights as the only source:
    masks are independent over nodes and passes, neighbourhoods are full, and normalisation layers
    stay in evaluation mode. A network without dropout has variance 0, and a warning says so.
    https://arxiv.org/abs/1506.02142

    Args:
        model: any trained network with ``F.dropout`` or ``nn.Dropout``.
    """

    model: nn.Module

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The mean over that many masks, at least two, with standard errors."""
        drawn = predict(
            self.model, graph, method="sampled", sources=("weights",), samples=samples, seed=seed
        )
        return replace(drawn, method="mc-dropout")
