"""A plain network, opened once and run on many draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from varigraph.moments import Propagation, propagating
from varigraph.moments.messages import scaled_messages
from varigraph.prediction.heap import give_back
from varigraph.prediction.masks import PER_COUNT, Site, draw_masks
from varigraph.prediction.network_call import opened
from varigraph.prediction.question import Question
from varigraph.prediction.sampled.design import Draw
from varigraph.prediction.sampled.draws import torch_seed
from varigraph.prediction.sampled.features import Features, FullFeatures
from varigraph.prediction.sampled.links import DrawnLinks
from varigraph.prediction.sampled.passes import Masking, Pass
from varigraph.prediction.sampled.prefix import Prefix
from varigraph.prediction.sources.source import SOURCES, Drawn

#: Runs of a group share draws with every second run, or sooner.
DRAWS_KEPT = 2
#: Larger masks are drawn in blocks of rows, of about so many numbers, unless they are kept.
LARGE = 2**18
#: The draw of a run on features of its own, which shares nothing with others.
LIKE_NO_OTHER: Draw = {"": -1}


@dataclass(eq=False)
class Inputs:
    """What one run is given, put together source by source.

    Args:
        x: the features.
        coins: weights of the links; None for their chances.
        masking: the masks of dropout; None holds them at their means.
        masks_of: number of their draw.
    """

    x: Tensor
    coins: Tensor | None = None
    masking: Masking | None = None
    masks_of: int | None = None


@dataclass(frozen=True, eq=False)
class Network:
    """Runs a network on draws of its sources.

    Args:
        question: what is asked.
        features: the features, in full or in a small space.
        links: weights of the messages, where links have chances.
        own_randomness: the network draws random numbers that are not dropout's.
        writes: the network changes its features in place, and must be given copies.
        prefix: what layers returned in earlier runs, where it is kept.
        keeps_masks: masks are kept for the run that shares them.
        tight: memory that was freed is given back before every run.
    """

    question: Question
    features: Features
    links: DrawnLinks | None = None
    own_randomness: bool = False
    writes: bool = True
    prefix: Prefix | None = None
    keeps_masks: bool = False
    tight: bool = False
    _recent: dict[Hashable, dict[int, Tensor]] = field(default_factory=dict, init=False)

    def once(
        self, draw: Draw, *, x: Tensor | None = None, running: Pass | None = None
    ) -> Tensor:  # -> [nodes, classes]
        """Logits of one run.

        Args:
            draw: what is drawn.
            x: features to use in the place of a draw.
            running: what watches the run.
        """
        if self.tight:
            give_back()
        running = running or Pass(self.features.maps)
        if self.prefix is not None:
            self.prefix.begin(LIKE_NO_OTHER if x is not None else draw, running)
        inputs = Inputs(self.features.mean)
        for name, sample in draw.items():
            if x is None or not SOURCES[name].moves_features:
                SOURCES[name].put(inputs, self, sample)
        inputs.x = inputs.x if x is None else x
        self.seed(inputs.masks_of)
        return self.through(inputs, running)

    def seed(self, sample: int | None) -> None:
        """Seed torch's generators, where the network uses them itself.

        Args:
            sample: number of the draw of the masks; None where none are drawn.
        """
        if self.own_randomness and sample is not None:
            number = torch_seed(sample, seed=self.question.seed)
            torch.default_generator.manual_seed(number)
            if self.features.mean.device.type == "cuda":
                torch.cuda.manual_seed(number)

    def at_once(self, draws: Sequence[Draw], sites: Sequence[Site]) -> Tensor:
        """Logits of many runs, ``[runs, nodes, classes]``.

        Args:
            draws: of each run.
            sites: where dropout acts, if masks are drawn.
        """
        each = [
            {name: SOURCES[name].draw(self, sample, sites) for name, sample in draw.items()}
            for draw in draws
        ]
        stacked = {
            name: {key: torch.stack([one[name][key] for one in each]) for key in drawn}
            for name, drawn in each[0].items()
        }
        del each

        def run(drawn: Mapping[str, Drawn]) -> Tensor:
            inputs = Inputs(self.features.mean)
            for name, tensors in drawn.items():
                SOURCES[name].use(inputs, tensors)
            return self.through(inputs, Pass(self.features.maps))

        with warnings.catch_warnings():
            # Functions that torch cannot batch are run one by one: slow, but right.
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return torch.vmap(run)(stacked)

    def through(self, inputs: Inputs, running: Pass) -> Tensor:
        """Logits for these inputs, ``[nodes, classes]``."""
        return running.logits(self.answer(inputs, running), self.question.task)

    def answer(self, inputs: Inputs, running: Pass) -> Any:
        """What the model returns for these inputs."""
        if self.links is not None:
            self.links.show(inputs.coins)
        running.masking, x = inputs.masking, inputs.x
        with propagating(Propagation()), running:
            return self.question.run(x.clone() if self.writes else x)

    def masking(self, sample: int) -> Masking:
        """The masks of a draw, made where they are met."""

        def mask(site: Site, place: int) -> Tensor | Iterator[Tensor]:
            whole = self.keeps_masks or site.shape.numel() <= LARGE
            return (self.mask if whole else self._mask_by_rows)(site, place, sample)

        return mask

    def mask(self, site: Site, place: int, sample: int) -> Tensor:
        """The mask of a draw for one place."""

        def draw(sample: int) -> Tensor:
            one = range(sample, sample + 1)
            return draw_masks(site, place, one, seed=self.question.seed, device=self._device)[0]

        if not self.keeps_masks:
            return draw(sample)
        return self.known(("mask", tuple(site.shape), place), sample, draw)

    def _mask_by_rows(self, site: Site, place: int, sample: int) -> Iterator[Tensor]:
        count, samples = site.shape[0], range(sample, sample + 1)
        step = -(-LARGE * count // site.shape.numel() // PER_COUNT) * PER_COUNT
        for start in range(0, count, step):
            rows = slice(start, min(start + step, count))
            drawn = draw_masks(
                site, place, samples, seed=self.question.seed, rows=rows, device=self._device
            )
            yield drawn[0]

    @property
    def _device(self) -> torch.device:
        return self.question.x.mean.device

    def known(
        self, what: Hashable, sample: int, draw: Callable[[int], Tensor], *, keep: int = DRAWS_KEPT
    ) -> Tensor:
        """A draw, made once for all runs of a group.

        Args:
            what: is drawn.
            sample: number of the draw.
            draw: makes it.
            keep: how many of the last draws are kept.
        """
        recent = self._recent.setdefault(what, {})
        if sample not in recent:
            while len(recent) >= keep:
                del recent[next(iter(recent))]
            recent[sample] = draw(sample)
        return recent[sample]


@contextmanager
def opened_network(question: Question, *, gradients: bool = False) -> Iterator[Network]:
    """A network ready to run; afterwards the model and torch's generators are as before.

    Args:
        question: what is asked.
        gradients: whether the answers are to be differentiated.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(gradients))
        stack.enter_context(opened(question, by_rules=False))
        links = None if question.links is None else DrawnLinks(question.links)
        if links is not None:
            stack.enter_context(scaled_messages(question.model, links))
        yield Network(question, FullFeatures(question.x), links)
