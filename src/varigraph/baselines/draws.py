"""What every baseline gives: a prediction, here from the mean and the scatter of draws."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.errors import OptionError
from varigraph.moments import Gaussian
from varigraph.prediction import Prediction
from varigraph.prediction.diagonal import Mixture
from varigraph.prediction.sources.source import all_parts
from varigraph.prediction.sources.weights import WEIGHTS


class Baseline(Protocol):
    """A trained method that gives error bars.

    A baseline does not consider uncertain inputs: ``x_var`` is not looked at, and ``edge_prob``
    weights the messages as it did in training.
    """

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """Mean and variance of the class probabilities of every node.

        Args:
            graph: with ``x`` and ``edge_index``; labels are not read.
            samples: number of draws. Methods that draw nothing ignore it.
            seed: of the draws; torch's global generator is left alone.
        """


def from_draws(draws: Iterable[Tensor], *, method: str) -> Prediction:  # each [nodes, classes]
    r"""What draws of the logits say together; all variance counts as due to the weights.

    .. math::
        \bar y = \frac1T \sum_t \operatorname{softmax}(z_t), \qquad
        v = \frac1T \sum_t \left(\operatorname{softmax}(z_t) - \bar y\right)^2

    One draw is held at a time, in double precision.

    Args:
        draws: logits of all nodes, once for every draw of the weights (or of the graph).
        method: what drew them; it becomes ``Prediction.method``.

    Example:
        >>> draws = [torch.tensor([[0.0, 9.0]]), torch.tensor([[9.0, 0.0]])]
        >>> pred = from_draws(draws, method="ensemble")
        >>> [round(value, 3) for value in (*pred.mean[0].tolist(), pred.total[0, 0].item())]
        [0.5, 0.5, 0.25]
    """
    logits: Mixture | None = None
    classes: Mixture | None = None
    for draw in draws:
        dtype, exact = draw.dtype, draw.detach().double()
        one, two = Mixture.of_one(exact), Mixture.of_one(exact.softmax(-1))
        if logits is None or classes is None:
            logits, classes = one.owned(), two.owned()
        else:
            logits += one
            classes += two
    if logits is None or classes is None:
        raise OptionError("there are no draws", "draw at least once: samples=100")
    var = classes.between.to(dtype)
    return Prediction(
        mean=classes.mean.to(dtype),
        by_source={part: var if part == WEIGHTS else torch.zeros_like(var) for part in all_parts()},
        logits=Gaussian(logits.mean.to(dtype), logits.between.to(dtype)),
        method=method,
        samples=logits.count,
    )
