"""Faster ways through a network, each tried on one run and kept only if the answer is the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from varigraph.data.kinds import StackedGraph
from varigraph.errors import VarigraphError
from varigraph.moments import LinkProbabilities
from varigraph.moments.running import untouched
from varigraph.prediction.masks import CPU, Site
from varigraph.prediction.network_call import does_not_depend, generator_state
from varigraph.prediction.sampled.draws import (
    Draw,
    Features,
    FullFeatures,
    SmallFeatures,
    worthwhile,
)
from varigraph.prediction.sampled.neighbour_sums import (
    LeftLinks,
    mapped_first,
    only_sums,
    summed_messages,
)
from varigraph.prediction.sampled.network import Inputs, Network, Prefix
from varigraph.prediction.sampled.runs import FirstRun, FixedProducts, HeldTensors
from varigraph.prediction.sources.source import SOURCES, considered

#: Up to so many numbers in its largest tensor, a run is mostly overhead.
SHORT = {"cpu": 2**15, "cuda": 2**23}
#: Where runs that are mostly overhead had better share a product than be without it.
BY_COLUMNS = frozenset({"cuda"})
#: So many missing links show whether weights say the same as a graph without them.
ENOUGH_ABSENT = 20
#: Messages of a layer are formed only if they take less than this part of the memory: a layer
#: may hold several tensors of their size.
PART_FOR_MESSAGES = 8


@dataclass(frozen=True, eq=False)
class Explored:
    """A network whose ways are known.

    Args:
        network: ready to run.
        sources: those that the data and the model carry, in the order in which they act.
        sites: where dropout acts.
        widest: numbers in the largest tensor of a run.
        peak: bytes of a run's tensors at its worst moment, with what layers keep between runs.
        trial_peak: the same for what it took to find out, with the features for that.
        batched: whether many runs at once are faster than one after the other.
    """

    network: Network
    sources: tuple[str, ...]
    sites: tuple[Site, ...]
    widest: int
    peak: int
    trial_peak: int
    batched: bool


@contextmanager
def explored(network: Network) -> Iterator[Explored]:
    """Find out what is random in a network, and how to run it fast.

    Raises:
        ModelError: the network is random although its weights are to be taken as certain, or has
            no use for the chances of the links.
    """
    question = network.question
    with ExitStack() as stack:
        # What does not fit in memory message by message has only one way.
        most = question.room // PART_FOR_MESSAGES
        stack.enter_context(summed_messages(question.model, network.weights, above=most))
        trial = Trial.of(network)
        sources = _sources(trial)
        device = network.features.mean.device.type
        # Features that are certain are mapped once: no space is too wide for that.
        certain = not any(SOURCES[name].moves_features for name in sources)
        beside = trial.beside_each_other(trial.network, sources, stack) if certain else None
        if beside is None:
            network, running = trial.in_small_space()
            beside = trial.beside_each_other(network, sources, stack)
        # Runs on the same links can go side by side through one product.
        by_columns = device in BY_COLUMNS and network.links is None and not trial.random
        if by_columns:
            running = trial.use_sparse_products(network, stack) or running
        network, running = beside or (network, running)
        # What torch.jit hides is seen as nothing, and cannot be batched either.
        short = 0 < running.widest <= SHORT.get(device, SHORT["cpu"])
        batched = short and not trial.random and network.removed is None  # one graph for all runs
        if not (batched or beside or trial.random):
            prefix = Prefix(network.links)
            stack.enter_context(prefix.used_by(network.question.model))
            network = replace(network, prefix=prefix)
        if not (batched or beside or by_columns):
            running = trial.use_sparse_products(network, stack) or running
        if network.removed is not None:  # what was tried lacked some links, and took less for it
            running = _first_run(network, trial.held)
            network.once({}, running=running)
            network.removed.sites = running.sites
        yield Explored(
            network=network,
            sources=sources,
            sites=tuple(running.sites),
            widest=max(running.widest, trial.logits.numel()),
            peak=running.peak,
            trial_peak=trial.first.peak + question.x.mean.nbytes,
            batched=batched or beside is not None,
        )


@contextmanager
def in_step(network: Network) -> Iterator[Explored]:
    """The plain way through a network, run by run, as all processes that share a graph go it.

    What is faster on the nodes of one may not be on those of another, and all must ask each other
    for rows at the same places.
    """
    running = _first_run(network, HeldTensors())
    logits = network.once({}, running=running)
    if network.removed is not None:
        network.removed.sites = running.sites
    found = [
        source for source in considered(network.question) if source.uncertain(network.question)
    ]
    yield Explored(
        network=network,
        sources=tuple(s.name for s in found if not s.masks or running.sites),
        sites=tuple(running.sites),
        widest=max(running.widest, logits.numel()),
        peak=running.peak,
        trial_peak=running.peak,
        batched=False,
    )


@dataclass(frozen=True, eq=False)
class Trial:
    """One run by the plain way, to compare others with.

    Args:
        network: what was run.
        draw: the coins and masks that were used.
        moved: whether the features were others than the graph's.
        first: what was seen on the way.
        logits: what came out, ``[nodes, classes]``.
        random: whether random numbers were drawn that are not dropout's.
        held: counts what this and further runs hold.
    """

    network: Network
    draw: Draw
    moved: bool
    first: FirstRun
    logits: Tensor
    random: bool
    held: HeldTensors
    _known: dict[Features, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, network: Network) -> Trial:
        """Run once; far from the features, where short cuts for noise or coins are to be tried.

        A short cut that is right only near the features would be found out there.
        """
        question = network.question
        if any(s.uncertain(question) for s in considered(question) if not s.masks):
            try:
                return cls._at(network, moved=True)
            except VarigraphError:
                raise
            except Exception:  # a network may refuse such features and take its own
                pass
        with network.blamed():
            return cls._at(network, moved=False)

    @classmethod
    def _at(cls, network: Network, *, moved: bool) -> Trial:
        mean, held = network.question.x.mean, HeldTensors()
        x = _far(mean) if moved else mean.clone()
        question = network.question
        uncertain = [source for source in considered(question) if source.uncertain(question)]
        draw = {source.name: 0 for source in uncertain if not source.moves_features}
        noisy = any(source.moves_features for source in uncertain)
        seeded = replace(network, own_randomness=True, writes=False)
        first = _first_run(network, held)
        seeded.seed(0 if any(source.masks for source in uncertain) else None)
        before, version = generator_state(x.device), x._version
        logits = seeded.once(draw, x=x, running=first)
        if moved and noisy:
            _refuse_unmoved(replace(seeded, writes=True), draw, logits)
        random = not torch.equal(before, generator_state(x.device))
        network = replace(network, own_randomness=random, writes=x._version > version)
        known = {network.features: x} if moved and not network.writes else {}
        return cls(network, draw, moved, first, logits, random, held, known)

    def on_links(self, present: Tensor | None) -> tuple[Tensor, bool]:  # [edges]
        """What comes out for these links, or all, and whether anything was computed from them.

        From the same features, and under no masks.
        """
        mean, running = self.network.question.x.mean, _first_run(self.network, self.held)
        x = _far(mean) if self.moved else mean.clone()
        self.network.seed(0)
        logits = self.network.through(Inputs(x, coins=present), running)
        self.first.peak = max(self.first.peak, running.peak)
        return logits, running.used

    def in_small_space(self) -> tuple[Network, FirstRun]:
        """The network on features in the small space, if it does not notice."""
        full, matrices = self.network.features, self.first.matrices
        fits = all(SOURCES[name].in_small_space for name in self.network.question.sources)
        if not (self.moved and isinstance(full, FullFeatures) and fits):
            return self.network, self.first
        if not worthwhile(matrices, full.mean.shape[-1]):
            return self.network, self.first
        small = replace(self.network, features=SmallFeatures.of(full, matrices))
        running = self.same_by(small)
        return (self.network, self.first) if running is None else (small, running)

    def use_sparse_products(self, network: Network, stack: ExitStack) -> FirstRun | None:
        """Have neighbour sums done by sparse products of few numbers, if the answer is the same.

        Args:
            network: in any space.
            stack: holds open what must stay open.
        """
        with ExitStack() as attempt:
            attempt.enter_context(summed_messages(network.question.model, network.weights))
            attempt.enter_context(mapped_first(network.question.model))
            running = self.same_by(network)
            if running is not None:
                stack.push(attempt.pop_all())
            elif network.prefix is not None:
                network.prefix.forget()
            return running

    def beside_each_other(
        self, network: Network, sources: Sequence[str], stack: ExitStack
    ) -> tuple[Network, FirstRun] | None:
        """The network on several draws of links at once, if the answers are the same; else None.

        Where links are removed, all of them are there, with weights that make sums those over what
        is left: one pattern for all runs.

        Args:
            network: in any space.
            sources: what is drawn.
            stack: holds open what must stay open.
        """
        if self.random or not _tosses_sums(network):
            return None
        try:
            with ExitStack() as attempt:
                # Caches of all links are of no use to a graph without some.
                attempt.enter_context(untouched(network.question.model))
                found = self._beside(network, sources, attempt)
                stack.push(attempt.pop_all())
        except Exception:  # whatever it is, there is another way
            return None
        return found

    def _beside(
        self, network: Network, sources: Sequence[str], stack: ExitStack
    ) -> tuple[Network, FirstRun]:
        links = network.question.links
        assert links is not None  # they are tossed
        half = None
        if network.removed is not None:
            half = self._half(links)
            plain = self.logits if half is None else self.on_links(half)[0]
            network = replace(network, links=LeftLinks(links))
        if not any(SOURCES[name].moves_features for name in sources):
            network = replace(network, fixed=FixedProducts(network.features.mean))
        running = self.use_sparse_products(network, stack)
        draws = [dict.fromkeys(sources, sample) for sample in range(2)]
        same = running is not None
        if half is not None and same:
            x = self._moved_in(network)
            inputs = Inputs(network.features.mean if x is None else x, coins=half)
            same = _near(network.through(inputs, network.running()), plain)
        if running is None or not same:
            raise _Differs
        if not _near(network.at_once(draws, running.sites)[1], network.once(draws[1])):
            raise _Differs
        return network, running

    def _half(self, links: LinkProbabilities) -> Tensor | None:  # -> [edges]
        """Every other link that may be gone is; None where the trial lacks enough of them."""
        coins = links.coins
        if self.network.removed is not None and self.network.removed.absent >= ENOUGH_ABSENT:
            return None
        uncertain = coins.prob < 1
        gone = uncertain & (uncertain.cumsum(0) % 2 == 1)
        return (~gone)[coins.of_edge].to(links.listed[1])

    def same_by(self, network: Network) -> FirstRun | None:
        """What is seen on another way, if it leads to the same answer; else None."""
        running = _first_run(network, self.held)
        try:
            logits = network.once(self.draw, x=self._moved_in(network), running=running)
        except Exception:  # whatever it is, there is another way
            return None
        same = running.sites == self.first.sites and _near(logits, self.logits)
        return running if same else None

    def _moved_in(self, network: Network) -> Tensor | None:
        """The features that the trial was made on, in the space of a network."""
        if not self.moved:
            return None
        features = network.features
        if features not in self._known:
            x = _far(self.network.question.x.mean)
            self._known[features] = x @ features.basis if isinstance(features, SmallFeatures) else x
        return self._known[features]


def _near(found: Tensor, plain: Tensor) -> bool:  # [nodes, classes] each
    """Whether answers are the same, for all that rounding can tell."""
    if found.shape != plain.shape:
        return False
    precision = torch.finfo(found.dtype).eps
    spread = (plain - plain.mean(0)).abs().max()
    allowed = precision**0.5 * spread + 16 * precision * plain.abs().max()
    return bool((found - plain).abs().max() <= allowed)


class _Differs(Exception):  # noqa: N818 - nobody is told
    """Another way leads to another answer."""


def _tosses_sums(network: Network) -> bool:
    """Whether coins decide about links that layers only sum over, on a processor."""
    question, links = network.question, network.question.links
    if links is None or not links.uncertain or network.features.mean.device != CPU:
        return False
    return not isinstance(question.graph, StackedGraph) and only_sums(question.model)


def _refuse_unmoved(network: Network, draw: Draw, logits: Tensor) -> None:
    """Raises if other features give the very same answer, and no way leads from them to it."""
    mean = network.question.x.mean
    if not torch.equal(network.once(draw, x=mean), logits) or not logits.is_floating_point():
        return
    with torch.enable_grad():
        x = mean.detach().requires_grad_()
        again = network.once(draw, x=x * 1)  # a network may write on what it is given
        if not again.numel() or _leads_to(again, x):  # as to that of one whose units are all dead
            return
    raise does_not_depend()


def _leads_to(answer: Tensor, x: Tensor) -> bool:
    if not answer.requires_grad:
        return False
    (slope,) = torch.autograd.grad(answer.sum(), x, allow_unused=True)
    return slope is not None


def _first_run(network: Network, held: HeldTensors) -> FirstRun:
    model, maps = network.question.model, network.features.maps
    own = frozenset([*model.parameters(), *model.buffers()])
    return FirstRun(maps, own, network.question.x.mean.shape[-1], held)


def _sources(trial: Trial) -> tuple[str, ...]:
    """The sources that there is something to draw of, as a first run tells."""
    for source in SOURCES.values():
        source.check(trial)
    found = considered(trial.network.question)
    return tuple(source.name for source in found if source.acts(trial))


def _far(x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, features]
    """Features moved, each by another amount, about as far as they are large."""
    generator = torch.Generator().manual_seed(0)
    node, feature = (2 * torch.rand(n, generator=generator) - 1 for n in x.shape)
    size = torch.linalg.vector_norm(x) / max(x.numel(), 1) ** 0.5
    return torch.addr(x, (3 * torch.where(size > 0, size, 1) * node.to(x)), feature.to(x))
