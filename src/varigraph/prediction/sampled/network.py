"""A plain network, opened once and run on many draws; what stays the same is computed once."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from varigraph.moments import Propagation, propagating
from varigraph.moments.messages import scaled_messages
from varigraph.moments.running import untouched
from varigraph.prediction.masks import PER_COUNT, Site, draw_masks
from varigraph.prediction.network_call import opened, outer_layers
from varigraph.prediction.processor import give_back
from varigraph.prediction.question import Question
from varigraph.prediction.sampled.draws import Draw, Features, FullFeatures, torch_seed
from varigraph.prediction.sampled.neighbour_sums import DrawnLinks
from varigraph.prediction.sampled.removed import RemovedLinks
from varigraph.prediction.sampled.runs import FixedProducts, Masking, PlainRun
from varigraph.prediction.sources.source import SOURCES, Drawn


@dataclass(frozen=True, eq=False)
class _Kept:
    """The result of a layer, and the draws that it depends on."""

    layer: nn.Module
    coins: bool  # whether it depends on coins
    draws: tuple[int | None, ...]
    result: Tensor
    version: int  # torch counts changes in place: a changed result is of no use


@dataclass
class Prefix:
    """Keeps what layers before the first dropout returned, for runs with the same draws.

    Without noise in the features that is everything up to the first dropout or the first coin,
    for all runs; with noise it is the same for two runs that share its draw.

    Args:
        links: knows whether a coin has been looked at in a run.
    """

    links: DrawnLinks | RemovedLinks | None
    _kept: dict[int, _Kept] = field(default_factory=dict)
    _place: int = 0
    _draw: Draw | None = None
    _running: PlainRun | None = None
    _coins_met: bool = False

    @property
    def bytes(self) -> int:
        """Memory of what is kept."""
        return sum(kept.result.nbytes for kept in self._kept.values())

    def begin(self, draw: Draw | None, running: PlainRun) -> None:
        """Start a run.

        Args:
            draw: its draws; None for a run like no other.
            running: knows whether dropout has acted.
        """
        self._draw, self._running = draw, running
        self._place, self._coins_met = 0, False
        if draw is not None:  # what is of no use to this run is not held beside its successor
            self._kept = {place: kept for place, kept in self._kept.items() if self._holds(kept)}

    def forget(self) -> None:
        """Start anew."""
        self._kept.clear()

    @contextmanager
    def used_by(self, model: nn.Module) -> Iterator[None]:
        """While this is open, the layers of the model are asked for here first."""
        layers = [layer for layer in outer_layers(model) if _may_be_skipped(layer)]
        for layer in layers:
            object.__setattr__(layer, "forward", self._forward(layer, layer.forward))
        try:
            yield
        finally:
            for layer in layers:
                object.__delattr__(layer, "forward")
            # A run knows its masks, and these the network: a circle would keep all that is held.
            self.forget()
            self._running = None

    def _forward(self, layer: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any, **kwargs: Any) -> Any:
            if self._draw is None:
                return forward(*args, **kwargs)
            self._place += 1
            kept = self._kept.get(self._place)
            if kept is not None and kept.layer is layer and self._holds(kept):
                self._coins_met |= kept.coins
                return kept.result
            result = forward(*args, **kwargs)
            if isinstance(result, Tensor) and not self._dropped():
                coins = self._coins_met or (self.links is not None and self.links.met)
                kept = _Kept(layer, coins, self._draws(coins=coins), result, result._version)
                self._kept[self._place] = kept
            return result

        return ask

    def _holds(self, kept: _Kept) -> bool:
        if self._dropped() or kept.result._version != kept.version:
            return False
        return kept.draws == self._draws(coins=kept.coins)

    def _draws(self, *, coins: bool) -> tuple[int | None, ...]:
        """The draws that a result depends on; one like no other has an entry of its own."""
        draw = self._draw or {}
        reaching = [name for name, source in SOURCES.items() if source.reaches(coins=coins)]
        return tuple(draw.get(name) for name in ("", *reaching))

    def _dropped(self) -> bool:
        return self._running is None or bool(self._running.sites)


def _may_be_skipped(layer: nn.Module) -> bool:
    return "forward" not in vars(layer) and not isinstance(layer, torch.jit.ScriptModule)


#: Runs of a group share draws with every second run, or sooner.
DRAWS_KEPT = 2
#: Larger masks are drawn in blocks of rows, of about so many numbers, unless they are kept: few
#: enough for a cache, or what keeps a GPU busy.
LARGE = {"cpu": 2**18, "cuda": 2**26}
#: The draw of a run on features of its own, which shares nothing with others.
LIKE_NO_OTHER: Draw = {"": -1}


@dataclass(eq=False)
class Inputs:
    """What one run is given, put together source by source.

    Args:
        x: the features.
        coins: weights of the links; None for their chances, or for all of them.
        masking: the masks of dropout; None holds them at their means.
        masks_of: number of their draw.
        fields: what takes the place of fields of the graph.
    """

    x: Tensor
    coins: Tensor | None = None
    masking: Masking | None = None
    masks_of: int | None = None
    fields: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Network:
    """Runs a network on draws of its sources.

    Args:
        question: what is asked.
        features: the features, in full or in a small space.
        links: weights of the messages, or graphs without some links, where links have chances.
        own_randomness: the network draws random numbers that are not dropout's.
        writes: the network changes its features in place, and must be given copies.
        prefix: what layers returned in earlier runs, where it is kept.
        fixed: linear maps of features that are the same in all runs, where they are kept.
        keeps_masks: masks are kept for the run that shares them.
        tight: memory that was freed is given back before every run.
    """

    question: Question
    features: Features
    links: DrawnLinks | RemovedLinks | None = None
    own_randomness: bool = False
    writes: bool = True
    prefix: Prefix | None = None
    fixed: FixedProducts | None = None
    keeps_masks: bool = False
    tight: bool = False
    _recent: dict[Hashable, dict[int, Tensor]] = field(default_factory=dict, init=False)

    def once(
        self, draw: Draw, *, x: Tensor | None = None, running: PlainRun | None = None
    ) -> Tensor:  # -> [nodes, classes]
        """Logits of one run.

        Args:
            draw: what is drawn.
            x: features to use in the place of a draw.
            running: what watches the run.
        """
        if self.tight:
            give_back()
        running = running or self.running()
        if self.prefix is not None:
            self.prefix.begin(LIKE_NO_OTHER if x is not None else draw, running)
        inputs = Inputs(self.features.mean)
        for name, sample in draw.items():
            if x is None or not SOURCES[name].moves_features:
                SOURCES[name].put(inputs, self, sample)
        inputs.x = inputs.x if x is None else x
        self.seed(inputs.masks_of)
        if x is not None or self.removed is None:
            return self.through(inputs, running)
        with self.blamed():
            logits = self.through(inputs, running)
        self.removed.check_form(logits)
        return logits

    def running(self) -> PlainRun:
        """What watches a run of which nothing needs to be known."""
        return PlainRun(self.features.maps, self.fixed)

    def blamed(self) -> AbstractContextManager[None]:
        """What goes wrong here may be due to the links that a run lacks."""
        return nullcontext() if self.removed is None else self.removed.blamed(self.question)

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
        stacked: dict[str, Drawn] = {}
        for name in draws[0]:  # one after the other: draws are not held beside all stacks
            stacked[name] = SOURCES[name].draws(self, [draw[name] for draw in draws], sites)

        def run(drawn: Mapping[str, Drawn]) -> Tensor:
            inputs = Inputs(self.features.mean)
            for name, tensors in drawn.items():
                SOURCES[name].use(inputs, tensors)
            return self.through(inputs, self.running())

        with warnings.catch_warnings():
            # Functions that torch cannot batch are run one by one: slow, but right.
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return torch.vmap(run)(stacked)

    def through(self, inputs: Inputs, running: PlainRun) -> Tensor:
        """Logits for these inputs, ``[nodes, classes]``."""
        return running.logits(self.answer(inputs, running), self.question.task)

    def answer(self, inputs: Inputs, running: PlainRun) -> Any:
        """What the model returns for these inputs."""
        if self.links is not None:
            self.links.show(inputs.coins)
        if self.removed is not None:
            running.given = self.removed.tensors
        running.masking, running.masked = inputs.masking, self.question.masked
        x = inputs.x.clone() if self.writes else inputs.x
        with ExitStack() as stack:
            # A cache of links is of one graph, and whatever users keep is of one run.
            same = self.removed is None and not inputs.fields
            kept = untouched(self.question.model, but_caches=same)
            stack.enter_context(kept)
            stack.enter_context(propagating(Propagation()))
            stack.enter_context(running)
            return self.question.run(x, *self._graph(inputs))

    def _graph(self, inputs: Inputs) -> tuple[Data, ...]:
        """The graph of a run, where it is another than the question's."""
        fewer = () if self.removed is None else self.removed.given
        if not inputs.fields:
            return fewer
        graph = copy.copy(fewer[0] if fewer else self.question.graph)
        assert graph is not None  # it has the fields
        for name, value in inputs.fields.items():
            graph[name] = value if self.removed is None else self.removed.left_of(name, value)
        return (graph,)

    @property
    def removed(self) -> RemovedLinks | None:
        """What makes graphs without some links, where that is how chances are read."""
        return self.links if isinstance(self.links, RemovedLinks) else None

    @property
    def weights(self) -> DrawnLinks | None:
        """Weights of the messages, where that is how chances are read."""
        return self.links if isinstance(self.links, DrawnLinks) else None

    def masking(self, sample: int) -> Masking:
        """The masks of a draw, made where they are met."""

        def mask(site: Site, place: int) -> Tensor | Iterator[Tensor]:
            of_links = None if self.removed is None else self.removed.among_all(site.shape, place)
            if of_links is not None:  # a link has the same mask, whichever others there are
                shape, rows = of_links
                return self.mask(replace(site, shape=shape), place, sample)[rows]
            whole = self.keeps_masks or site.shape.numel() <= self.large
            return (self.mask if whole else self._mask_by_rows)(site, place, sample)

        return mask

    def mask(self, site: Site, place: int, sample: int) -> Tensor:
        """The mask of a draw for one place."""

        def draw(sample: int) -> Tensor:
            one = range(sample, sample + 1)
            return draw_masks(site, place, one, seed=self.question.seed, device=self._device)[0]

        if not self.keeps_masks:
            return draw(sample)
        kept = self.known(("mask", place), sample, draw)
        return kept if kept.shape == site.shape else draw(sample)

    def _mask_by_rows(self, site: Site, place: int, sample: int) -> Iterator[Tensor]:
        count, samples = site.shape[0], range(sample, sample + 1)
        step = -(-self.large * count // site.shape.numel() // PER_COUNT) * PER_COUNT
        for start in range(0, count, step):
            rows = slice(start, min(start + step, count))
            drawn = draw_masks(
                site, place, samples, seed=self.question.seed, rows=rows, device=self._device
            )
            yield drawn[0]

    @property
    def large(self) -> int:
        """Numbers from which on a mask is drawn in blocks of rows."""
        return LARGE.get(self._device.type, LARGE["cpu"])

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
        links = _drawn_links(question)
        if isinstance(links, DrawnLinks):
            stack.enter_context(scaled_messages(question.model, links))
        yield Network(question, FullFeatures(question.x), links)


def _drawn_links(question: Question) -> DrawnLinks | RemovedLinks | None:
    if question.links is None or question.links.reading != "removed":
        return None if question.links is None else DrawnLinks(question.links)
    assert question.graph is not None  # whoever asks about links has a graph
    return RemovedLinks(question.links, question.graph)
