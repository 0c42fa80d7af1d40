"""Closed forms on a trained network, asked like the baselines."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch_geometric.data import Data

from varigraph.baselines.plain import Plain
from varigraph.moments.links import Reading
from varigraph.prediction import Prediction, predict
from varigraph.prediction.predict import Method
from varigraph.prediction.prediction import PARTS
from varigraph.prediction.question import Source


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """:func:`varigraph.predict` by a method, with noise, links and dropout considered.

    Args:
        model: a trained network.
        method: how to predict.
        links: how the probability of a link is read.
        sources: what to consider; None for all of them.
        certain_links: whether all links count as certain, whatever the graph says.
    """

    model: nn.Module
    method: Method
    links: Reading = "bernoulli"
    sources: tuple[Source, ...] | None = None
    certain_links: bool = False

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """Mean and variance of the class probabilities of every node."""
        return predict(
            self.model,
            certain(graph) if self.certain_links else graph,
            method=self.method,
            links=self.links,
            sources=self.sources,
            samples=samples,
            seed=seed,
        )


def certain(graph: Data) -> Data:
    """The graph with all its links certain.

    Args:
        graph: stays as it is.
    """
    sure = copy.copy(graph)
    if "edge_prob" in sure:
        del sure.edge_prob
    return sure


@dataclass(frozen=True, eq=False)
class OwnMean:
    """Error bars of a closed form around the network's own softmax.

    A network that was trained with noise and dropout has learned to average over them: a second
    average, as :func:`varigraph.predict` takes it, would make it less sure than it should be.

    Args:
        closed_form: gives the variances, and has the network.
    """

    closed_form: ClosedForm

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The softmax at the features as they are seen, with the variances of the closed form."""
        bars = self.closed_form.predict(graph, samples=samples, seed=seed)
        plain = Plain(self.closed_form.model).predict(
            certain(graph) if self.closed_form.certain_links else graph
        )
        return replace(bars, mean=plain.mean, std_error=None)


@dataclass(frozen=True, eq=False)
class MixedScales:
    r"""What the paper's tables call output variance: two scales in one sum.

    .. math:: v = V_\text{noise, links}[\text{logits}] + V_\text{masks}[\text{class probabilities}]

    The mean is that over dropout masks, as if the features were what they seem.

    Args:
        model: a trained network.
    """

    model: nn.Module

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The mean over masks; features stand for everything that is not due to the weights."""
        masks = predict(
            self.model,
            graph,
            method="diagonal",
            links="weight",
            sources=("weights",),
            samples=samples,
            seed=seed,
        )
        noise = predict(self.model, graph, method="diagonal", links="weight", samples=0)
        none = torch.zeros_like(masks.epistemic)
        parts = {"features": noise.logits.var, "weights": masks.epistemic}
        return replace(
            masks,
            by_source={part: parts.get(part, none) for part in PARTS},
            method="diagonal, two scales",
        )
