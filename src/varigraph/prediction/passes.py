"""Passes of one model over one graph: what is the same for all masks is computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from varigraph.errors import ModelError
from varigraph.moments import Gaussian, Propagation, StandIn, propagating
from varigraph.moments.by_rows import ByRows
from varigraph.moments.softmax import Logits
from varigraph.prediction.checks import check_last_softmax
from varigraph.prediction.masks import Drop, Masks, Site, Sites, draw_masks, dropped, masked
from varigraph.prediction.memory import too_large
from varigraph.prediction.network_call import no_randomness_but_dropout
from varigraph.prediction.prediction import Task
from varigraph.prediction.question import Question
from varigraph.prediction.sources.source import entering

#: Runs one rule called from the model's own code.
Step = Callable[[Callable[[], Any]], Any]

#: Tensors of a layer's size that a rule holds at once: inputs, results and what is in between.
TENSORS_AT_ONCE = 12
#: Tensors of the answer's size that are held while masks are averaged: of logits and of answers
#: three each, those without masks, those under the last, and what is on its way between them.
TENSORS_OF_ANSWER = 18
#: Values that sums read whole must fit so many times: what is made of them and kept for all masks,
#: and the answers, are held with them.
WHOLE_VALUES = 4
#: Numbers per node in a layer, as long as no layer has been seen.
USUAL_WIDTH = 256
#: Numbers in the widest tensor of a batch of masks: a few megabytes on a processor, and on a GPU
#: as many as keep it busy.
NUMBERS_AT_ONCE = {"cpu": 2**20, "cuda": 2**26}


@dataclass
class Passes:
    """Runs a converted model, once without masks and then once for every set of masks.

    Args:
        question: about what model and graph, in how much memory.
    """

    question: Question
    sites: list[Site] = field(default_factory=list)
    approximate: tuple[str, ...] = ()
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

        with no_randomness_but_dropout(self._x.device):
            out = self._through(sites, step, alone=True)
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
        drops: list[Drop] = [
            lambda x, rows, mask=mask, site=site: masked(x, mask, site.scale)  # type: ignore[misc]
            for mask, site in zip(masks, self.sites, strict=True)
        ]
        out = self._masked(drops, alone=alone)
        return out.mean, out.var

    def _masked(self, drops: Sequence[Drop], *, alone: bool) -> Gaussian:
        """The output under one mask for every site; what precedes them is not redone."""
        kept = iter(self._before_dropout)

        def step(compute: Callable[[], Any]) -> Any:
            result = next(kept, None)
            return compute() if result is None else result

        return self._through(Masks(self.sites, drops), step, alone=alone)

    def masks_at_once(self) -> tuple[int, int]:
        """How many batches to run side by side, and how many masks in each.

        Within the memory, and no more than is quick: together masks cost fewer calls, but beyond
        the processor's cache they cost more than that.
        """
        if self.tall:
            return 1, 1
        device = self._x.device.type
        numbers = sum(s.shape.numel() for s in self.sites) + TENSORS_AT_ONCE * self._widest
        fitting = max(1, self.question.room // (numbers * self._x.element_size()))
        workers = min(torch.get_num_threads(), fitting) if device == "cpu" else 1
        quick = NUMBERS_AT_ONCE.get(device, 2**20) // max(self._widest, 1)
        return workers, max(1, min(fitting // workers, quick))

    @property
    def tall(self) -> bool:
        """Whether the graph is worked on in blocks of nodes."""
        return len(self._x) > self._rows_at_once(self.question.room)

    def _rows_at_once(self, memory: int) -> int:
        numbers = TENSORS_AT_ONCE * max(self._x.shape[1], USUAL_WIDTH)
        return memory // (numbers * self._x.element_size())

    @cached_property
    def _features(self) -> Gaussian:
        x, room = entering(self.question.x, self.question), self.question.room
        if not self.tall:
            return x
        # A third of the memory for values that are needed twice; blocks may turn out to be wide.
        step = self._rows_at_once(room // 16)
        return ByRows.of(x, step, room=room // 3, limit=room / WHOLE_VALUES)

    @property
    def _x(self) -> Tensor:  # [nodes, features]
        return self.question.x.mean

    def _through(self, dropout: Sites | Masks, step: Step, *, alone: bool) -> Gaussian:
        """The output of one pass, which may be alone or one of several that vmap runs."""
        question = self.question
        propagation = Propagation(
            question.links, dropout, step, question.prepared, overwrite=alone and not self.tall
        )
        with propagating(propagation):
            out = answer_of(question.run(StandIn(self._features)), question.task)
            out = self._known(out) if isinstance(out, ByRows) else out
        if isinstance(dropout, Sites):  # later passes leave out what comes before dropout
            self.approximate = tuple(propagation.approximate)
        return out

    def _known(self, out: ByRows) -> Gaussian:
        need, question = TENSORS_OF_ANSWER * out.numel() * self._x.element_size(), self.question
        if need > question.room:
            what = f"the answer for {len(self._x):,} nodes needs"
            raise too_large(what, need + question.memory - question.room, question.memory)
        return out.known


def answer_of(out: Any, task: Task) -> Gaussian:
    """The value behind what a model returned; what stood before a last softmax, if it has one."""
    if isinstance(out, StandIn):
        if not isinstance(out.value, Logits):
            return out.value
        check_last_softmax(task)
        return out.value.before
    raise ModelError(
        f"the forward returned {_what(out)}, not one value per node that depends on x",
        "pick the output: vg.predict(..., forward=lambda model, x, data: model(x, ...)[0])",
    )


def _what(out: Any) -> str:
    if isinstance(out, tuple):
        return f"a tuple of {len(out)}"
    return f"a {type(out).__name__}"
