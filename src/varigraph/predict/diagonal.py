"""``method="diagonal"``: the paper's closed form, all numbers taken as independent."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator, Sequence
from functools import reduce

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.moments.softmax import class_probabilities, normal_points
from varigraph.predict.checks import check_nodes, check_output
from varigraph.predict.masks import draw_masks
from varigraph.predict.mixture import Mixture
from varigraph.predict.passes import Passes
from varigraph.predict.prediction import Prediction, Task

NO_DROPOUT = (
    "the network has no dropout, so its weights are taken as certain and the epistemic variance "
    "is 0; give dropout=0.1 to inject some, or samples=0 to say that this is meant"
)


def diagonal(
    passes: Passes,
    *,
    samples: int,
    seed: int,
    task: Task,
    nodes: Tensor | Sequence[int] | None,
    memory: int,
) -> Prediction:
    r"""Mean and variance by assumed density filtering and T dropout masks (equation 13).

    Every number in the network gets the mean and variance that its layer's rule computes from
    those before it, as if those were independent. Cheap, and it ranks nodes well; on trained
    networks hidden numbers move together, and the size of the variance can be far too small.
    """
    plain = passes.without_masks()
    check_output(plain, task)
    chosen, points = check_nodes(nodes, len(plain)), None
    if task == "classification":
        points = normal_points(max(samples, 1), plain.mean.shape[1])
    logits, answers = [], []
    for outputs, masks in _outputs(passes, plain, samples, seed=seed, memory=memory):
        picked = outputs if chosen is None else outputs[:, chosen]
        logits.append(Mixture.of(picked))
        if points is not None:
            answers.append(Mixture.of(class_probabilities(picked, points[masks])))
    before_softmax = reduce(operator.add, logits)
    answer = reduce(operator.add, answers) if answers else before_softmax
    return Prediction(
        mean=answer.mean,
        aleatoric=answer.within,
        epistemic=answer.between,
        logits=before_softmax.total,
        method="diagonal",
        samples=samples,
        task=task,
    )


def _outputs(
    passes: Passes, plain: Gaussian, samples: int, *, seed: int, memory: int
) -> Iterator[tuple[Gaussian, slice]]:
    """Outputs ``[masks, nodes, classes]`` under batches of masks, and which masks those are."""
    if samples == 0 or not passes.sites:
        if samples > 0:
            warnings.warn(NO_DROPOUT, stacklevel=4)
        yield Gaussian(plain.mean[None], plain.var[None]), slice(0, 1)
        return
    batch = max(1, memory // passes.bytes_per_mask())
    for start in range(0, samples, batch):
        chosen = range(start, min(start + batch, samples))
        masks = [
            draw_masks(site, place, chosen, seed=seed).to(plain.mean)
            for place, site in enumerate(passes.sites)
        ]
        mean, var = torch.vmap(passes.with_masks)(*masks)
        yield Gaussian(mean, var), slice(chosen.start, chosen.stop)
