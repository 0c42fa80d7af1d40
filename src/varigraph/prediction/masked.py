"""The network under dropout masks, a batch of masks at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from varigraph.moments import Gaussian
from varigraph.prediction.checks import check_nodes
from varigraph.prediction.heap import keep_freed, without_gaps
from varigraph.prediction.network_call import opened
from varigraph.prediction.passes import Passes
from varigraph.prediction.question import Question
from varigraph.prediction.side_by_side import side_by_side

Finished = TypeVar("Finished")

NO_DROPOUT = (
    "the network has no dropout, so its weights are taken as certain and the epistemic variance "
    "is 0; give dropout=0.1 to inject some, or samples=0 to say that this is meant"
)


@contextmanager
def prepared_passes(question: Question) -> Iterator[Passes]:
    """Passes of a model by rules, dropout on if masks are to be drawn, and injected if asked."""
    with opened(question, by_rules=True), ExitStack() as stack:
        passes = Passes(question)
        if passes.tall:
            stack.enter_context(without_gaps())
        else:
            keep_freed()
        yield passes


def over_masks(
    passes: Passes,
    plain: Gaussian,
    question: Question,
    finish: Callable[[Gaussian, slice], Finished],
) -> Iterator[Finished]:
    """What is made of the outputs ``[masks, nodes, classes]`` under one batch of masks each.

    Args:
        passes: which have been run without masks already.
        plain: what that gave.
        question: how many masks, under which seed, in how much memory.
        finish: makes it, of the outputs and the numbers of their masks.
    """
    if question.samples == 0 or not passes.sites:
        if question.samples > 0:
            warnings.warn(NO_DROPOUT, stacklevel=7)
        yield finish(Gaussian(plain.mean[None], plain.var[None]), slice(0, 1))
        return
    total, (workers, batch) = question.samples, passes.masks_at_once()
    batches = [range(first, min(first + batch, total)) for first in range(0, total, batch)]

    def work(samples: range) -> Finished:
        return finish(passes.with_masks(samples), slice(samples.start, samples.stop))

    results = side_by_side(work, batches, workers=workers)
    for samples, result in zip(batches, results, strict=True):
        yield result
        question.progress(samples.stop, total)


def covariance_over_masks(
    question: Question, nodes: Tensor | None
) -> Tensor:  # [nodes, outputs, outputs]
    r""":math:`\frac{1}{T} \sum_t (m_t - \bar m)(m_t - \bar m)'` of the output's means.

    Args:
        question: about masks alone.
        nodes: those to answer for; None for all.
    """
    with torch.no_grad(), prepared_passes(question) as passes:
        plain = passes.without_masks()
        rows = check_nodes(nodes, len(plain))
        means = list(over_masks(passes, plain, question, lambda outputs, _: outputs.mean))
    found = torch.cat(means) if rows is None else torch.cat(means)[:, rows]
    centred = found - found[:1]  # around one of them first: a mean is rounded
    centred -= centred.mean(0)
    return torch.einsum("tni,tnj->nij", centred, centred) / len(found)
