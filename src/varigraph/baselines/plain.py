"""What every baseline gives: a prediction, here from the mean and the scatter of draws.

Baselines on any network: its plain softmax, Monte-Carlo dropout, deep ensembles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.errors import OptionError
from varigraph.moments import Gaussian
from varigraph.prediction import Prediction, predict
from varigraph.prediction.diagonal import Mixture
from varigraph.prediction.predict import ask
from varigraph.prediction.sampled.network import opened_network
from varigraph.prediction.sources.source import all_parts
from varigraph.prediction.sources.weights import WEIGHTS
from varigraph.prediction.tasks import check_output
from varigraph.training import train


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


#: Ensembles of neighbouring seeds share no member as long as they are smaller than this.
SEEDS_PER_ENSEMBLE = 1000


@dataclass(frozen=True, eq=False)
class Plain:
    r""":math:`\bar y = \operatorname{softmax}(f(x))` with all variances 0.

    Args:
        model: any trained network that maps ``(x, edge_index)`` to logits.
    """

    model: nn.Module

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The softmax of one pass; ``samples`` and ``seed`` change nothing."""
        return from_draws([plain_logits(self.model, graph)], method="plain")


def plain_logits(model: nn.Module, graph: Data) -> Tensor:  # -> [nodes, classes]
    """What a network says in evaluation mode, every message weighted as in training.

    Raises:
        GraphError: the graph or its link probabilities cannot be right.
        ModelError: model and graph do not fit together.
    """
    certain = ask(model, graph, links="bernoulli", samples=0).only()
    with opened_network(certain) as network:
        logits = network.once({})
    check_output(Gaussian.certain(logits), "classification", logits=True)
    return logits


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
            self.model,
            graph,
            method="sampled",
            links="bernoulli",  # messages are weighted as in training
            sources=(WEIGHTS,),
            samples=samples,
            seed=seed,
        )
        return replace(drawn, method="mc-dropout")


@dataclass(frozen=True, eq=False)
class DeepEnsemble:
    r"""Mean and variance of the softmax over M networks that were trained separately.

    .. math::
        \bar y = \frac1M \sum_m \operatorname{softmax}(f_m(x)), \qquad
        v = \frac1M \sum_m \left(\operatorname{softmax}(f_m(x)) - \bar y\right)^2

    Every member answers in evaluation mode. https://arxiv.org/abs/1612.01474

    Args:
        models: trained networks that map ``(x, edge_index)`` to logits, at least two.
    """

    models: Sequence[nn.Module]

    def __post_init__(self) -> None:
        if len(self.models) < 2:
            raise OptionError(
                f"an ensemble of {len(self.models)} has no scatter", "give two networks or more"
            )

    @classmethod
    def fit(
        cls,
        build: Callable[[int], nn.Module],
        graph: Data,
        *,
        members: int = 5,
        seed: int = 0,
        **training: Any,
    ) -> DeepEnsemble:
        """Train the members one after the other, each from first weights and batches of its own.

        Args:
            build: an untrained network from a seed, as
                ``lambda seed: vg.paper_network(graph, seed=seed)``.
            graph: as for :func:`varigraph.train`.
            members: how many.
            seed: member i gets the seed ``1000 * seed + i``.
            **training: options of :func:`varigraph.train`, such as ``epochs``.
        """
        if not 2 <= members <= SEEDS_PER_ENSEMBLE:
            raise OptionError(
                f"members={members} is no ensemble", f"members=5, from 2 to {SEEDS_PER_ENSEMBLE}"
            )
        models = []
        for number in range(members):
            own = SEEDS_PER_ENSEMBLE * seed + number
            models.append(build(own))
            train(models[-1], graph, seed=own, **training)
        return cls(models)

    def predict(self, graph: Data, *, samples: int = 100, seed: int = 0) -> Prediction:
        """The mean over the members; ``samples`` and ``seed`` change nothing."""
        logits = (plain_logits(model, graph) for model in self.models)
        return from_draws(logits, method="deep-ensemble")
