"""Passes of one model over one graph by rules; what all masks share is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from varigraph.errors import ModelError
from varigraph.moments import Gaussian, Propagation, StandIn, propagating
from varigraph.moments.gaussian import ByRows
from varigraph.moments.running import keeps_something, untouched
from varigraph.options import warn
from varigraph.prediction.masks import ApplyMask, Masks, Site, Sites, draw_masks, dropped, masked
from varigraph.prediction.memory import RoomForPasses
from varigraph.prediction.network_call import answer_of, no_randomness_but_dropout, opened
from varigraph.prediction.numbering import numbering
from varigraph.prediction.processor import keep_freed, side_by_side, without_gaps
from varigraph.prediction.question import Question, check_nodes
from varigraph.prediction.sources.source import entered, entering

#: Runs one rule called from the model's own code.
Step = Callable[[Callable[[], Any]], Any]


@dataclass
class Passes:
    """Runs a converted model, once without masks and then once for every set of masks.

    Args:
        question: about what model and graph, in how much memory.

    Attributes:
        sites: where dropout acts.
        approximate: names of rules on the way that are only approximate.
        logits: whether a softmax or sigmoid was the last step.
        keeps: whether a pass leaves something on the model, which is taken back.
    """

    question: Question
    sites: list[Site] = field(default_factory=list)
    approximate: tuple[str, ...] = ()
    logits: bool = False
    keeps: bool = False
    _followed: set[nn.Module] = field(default_factory=set)
    _before_dropout: list[Any] = field(default_factory=list)
    _widest: int = 0

    def without_masks(self) -> Gaussian:
        """One pass that finds out where dropout acts, and keeps what was computed before it."""
        sites, links = Sites(), self.question.links

        def step(compute: Callable[[], Any]) -> Any:
            result = compute()
            if not sites.found:
                self._before_dropout.append(result)
            elif isinstance(result, Gaussian):
                self._widest = max(self._widest, result.numel())
            return result

        def run() -> Gaussian:
            return self._through(sites, step, alone=True)

        with no_randomness_but_dropout(self._x.device):
            out, self.keeps = keeps_something(self.question.model, run)
        if links is not None and not links.used:
            raise ModelError(
                "the graph has link probabilities, but no message-passing layer used them",
                "pass messages with layers of torch_geometric, or leave data.edge_prob out",
            )
        self.sites = sites.found
        return out

    def with_masks(self, samples: range) -> Gaussian:
        """Outputs ``[samples, nodes, classes]`` under the masks of some samples."""
        x, seed = self._x, self.question.seed
        if self.tall or (x.is_cuda and len(samples) == 1):
            return self._dropping(samples[0])
        masks = [
            draw_masks(site, place, samples, seed=seed, device=x.device).to(x.dtype)
            for place, site in enumerate(self.sites)
        ]
        if len(samples) > 1:
            return Gaussian(*torch.vmap(self._under)(*masks))
        mean, var = self._under(*(mask[0] for mask in masks), alone=True)
        return Gaussian(mean[None], var[None])

    def _dropping(self, sample: int) -> Gaussian:
        """The same for one sample, whose masks are drawn where they are needed."""
        draw = partial(dropped, sample=sample, seed=self.question.seed)
        places = enumerate(self.sites)
        drops = [partial(draw, site=site, place=place) for place, site in places]
        out = self._masked(drops, alone=True)
        return Gaussian(out.mean[None], out.var[None])

    def _under(self, *masks: Tensor, alone: bool = False) -> tuple[Tensor, Tensor]:
        drops: list[ApplyMask] = [
            lambda x, rows, mask=mask, site=site: masked(x, mask, site.scale)  # type: ignore[misc]
            for mask, site in zip(masks, self.sites, strict=True)
        ]
        out = self._masked(drops, alone=alone)
        return out.mean, out.var

    def _masked(self, drops: Sequence[ApplyMask], *, alone: bool) -> Gaussian:
        """The output under one mask for every site; what precedes them is not redone."""
        kept = iter(self._before_dropout)

        def step(compute: Callable[[], Any]) -> Any:
            result = next(kept, None)
            return compute() if result is None else result

        return self._through(Masks(self.sites, drops), step, alone=alone)

    @property
    def tall(self) -> bool:
        """Whether the graph is worked on in blocks of nodes."""
        return self.room.tall

    @cached_property
    def room(self) -> RoomForPasses:
        """What fits in the memory."""
        return RoomForPasses(self.question)

    def masks_at_once(self) -> tuple[int, int]:
        """How many batches to run side by side, and how many masks in each."""
        if numbering() is not None:  # in step with the processes that have the other parts
            return 1, 1
        numbers = sum(site.shape.numel() for site in self.sites)
        workers, masks = self.room.masks_at_once(numbers, self._widest)
        return (1 if self.keeps else workers), masks  # what is kept is of one pass

    @cached_property
    def _features(self) -> Gaussian:
        x = entering(self.question.x, self.question)
        return self.room.in_blocks(x) if self.tall else x

    @property
    def _x(self) -> Tensor:  # [nodes, features]
        return self.question.x.mean

    def _through(self, dropout: Sites | Masks, step: Step, *, alone: bool) -> Gaussian:
        """The output of one pass, which may be alone or one of several that vmap runs."""
        question = self.question
        propagation = Propagation(
            question.links,
            dropout,
            step,
            question.prepared,
            overwrite=alone and not self.tall,
            masked=question.masked,
            followed=self._followed,
        )
        kept = untouched(question.model) if self.keeps else nullcontext()
        with kept, propagating(propagation):
            out = question.run(StandIn(self._features), *entered(question))
            out, logits = answer_of(out, question.task)
            out = self.room.known(out) if isinstance(out, ByRows) else out
        if isinstance(dropout, Sites):  # later passes leave out what comes before dropout
            self.approximate, self.logits = tuple(propagation.approximate), logits
        return out


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
            warn(NO_DROPOUT)
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
