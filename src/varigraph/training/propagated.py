"""Closed-form moments of the logits that weights can be learned through."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from varigraph.errors import ModelError, TooLargeError
from varigraph.moments import Gaussian, LinkProbabilities
from varigraph.moments.affine import Affine
from varigraph.moments.cotangents import row_blocks
from varigraph.prediction.first_order.noise_root import NoiseRoot, from_features
from varigraph.prediction.first_order.responses import sums_on_the_way, walk_back
from varigraph.prediction.first_order.shares import from_noises
from varigraph.prediction.linearised import Linearised, one_pass
from varigraph.prediction.question import Question
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.weights import WEIGHTS
from varigraph.training.batch import Batch

#: Bytes that the responses of one step may take; what is kept for the way back comes on top.
MEMORY = 2**28
#: Nodes whose covariance enters a step: others take their turn in later steps.
ROWS = 512


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of the logits.

    Args:
        mean: of all nodes, ``[nodes, classes]``.
        rows: the nodes whose covariance was computed, ``[rows]``.
        covariance: of their logits, ``[rows, classes, classes]``.
    """

    mean: Tensor
    rows: Tensor
    covariance: Tensor


class PropagatedLogits:
    r"""First-order moments of a network's logits, features and dropout together.

    .. math::
        \mu = f(E[x]), \qquad
        \Sigma_u = \sum_w T_{uw}\, V_w\, T_{uw}'

    Means go through the rules of the layers; covariances are those of
    :func:`varigraph.predict` with ``method="first-order"``, all correlations included: T is the
    response of an output to the noise V of the features, or to that of a dropout mask.

    Args:
        model: the network.
        batch: what it is run on. Neighbourhoods are prepared once.
    """

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        links = None
        if batch.prob is not None:
            links = LinkProbabilities(batch.edge_index, batch.prob, len(batch.x), "weight")
        self.question = Question(
            model,
            run=lambda x: model(x, batch.edge_index),
            x=Gaussian(batch.x, batch.var),
            links=links,
            sources=frozenset({FEATURES, WEIGHTS}),
            samples=1,
            seed=0,
            task="classification",
            nodes=None,
            memory=MEMORY,
        )

    def moments(self, rows: Tensor) -> Moments:  # [rows]
        """Mean of all nodes; covariance of the first of ``rows``, as many as memory allows."""
        whole = one_pass(self.question)
        rows = _fitting(whole, rows)
        noises = whole.tape.noises
        wanted = {noise.value.number for noise in noises}
        responses = walk_back(whole.tape, whole.output, rows, until=wanted)
        if isinstance(whole.output, Affine):
            covariance = whole.output.covariance[rows]
        else:
            covariance = from_features(responses, NoiseRoot.all_of(responses))
        masks = from_noises(responses, noises, [noise.added for noise in noises])
        return Moments(whole.output.mean, rows, covariance + masks)


def _fitting(whole: Linearised, rows: Tensor) -> Tensor:
    output, tape = whole.output, whole.tape
    widest = max(entry.value.mean.shape[1] for entry in tape.entries[1:])
    numbers = 2 * output.mean.shape[1] * widest  # own value and neighbours' side by side
    try:
        return next(iter(row_blocks([sums_on_the_way(tape, output)], rows[:ROWS], numbers, MEMORY)))
    except TooLargeError as error:
        raise TooLargeError(error.problem, 'train with noise="inject"') from error


def check_propagable(model: nn.Module) -> None:
    """Raises if a network has layers that learn from the batch itself.

    Args:
        model: the network, which stays as it is.

    Raises:
        ModelError: naming the layer.
    """
    for name, module in model.named_modules():
        if isinstance(module, _NormBase) and module.track_running_stats:
            raise ModelError(
                f"layer {name} ({type(module).__name__}) takes its statistics from batches, which "
                "moments do not have",
                'train with noise="inject"',
            )
