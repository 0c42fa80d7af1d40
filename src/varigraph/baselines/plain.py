"""The network's own softmax, without any error bar: what every other method has to improve on."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.baselines.draws import from_draws
from varigraph.moments import Gaussian
from varigraph.prediction import Prediction
from varigraph.prediction.checks import check_output
from varigraph.prediction.predict import ask
from varigraph.prediction.sampled.design import Draw
from varigraph.prediction.sampled.network import opened


@dataclass(frozen=True, eq=False)
class Plain:
    r""":math:`\bar y = \operatorname{softmax}(f(x))` with all variances 0.

    Args:
        model: any trained network that maps ``(x, edge_index)`` to logits.
    """

    model: nn.Module

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The softmax of one pass; ``samples`` and ``seed`` have nothing to decide."""
        return from_draws([plain_logits(self.model, graph)], method="plain")


def plain_logits(model: nn.Module, graph: Data) -> Tensor:  # -> [nodes, classes]
    """What a network says in evaluation mode, every message weighed as in training.

    Raises:
        GraphError: the graph or its link probabilities cannot be right.
        ModelError: model and graph do not fit together.
    """
    certain = ask(model, graph, sources=("weights",), samples=0)
    with opened(certain) as network:
        logits = network.once(Draw())
    check_output(Gaussian.certain(logits), "classification")
    return logits
