"""A plain network, opened once and run on many draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from varigraph.moments import Propagation, propagating
from varigraph.moments.conversion import is_normalisation
from varigraph.moments.messages import scaled_messages
from varigraph.prediction.heap import give_back
from varigraph.prediction.masks import PER_COUNT, Site, draw_masks
from varigraph.prediction.question import Question
from varigraph.prediction.sampled.caches import sound_caches
from varigraph.prediction.sampled.design import Draw
from varigraph.prediction.sampled.draws import torch_seed
from varigraph.prediction.sampled.features import Features, FullFeatures
from varigraph.prediction.sampled.links import DrawnLinks
from varigraph.prediction.sampled.passes import Masking, Pass
from varigraph.prediction.sampled.prefix import Prefix

#: A draw of the features serves runs that follow each other, other draws every second run.
DRAWS_KEPT = {"x": 1, "coins": 2}
MASKS_KEPT = 2
#: Larger masks are drawn in blocks of rows, of about so many numbers, unless they are kept.
LARGE = 2**18
#: A run on features of its own shares nothing with others.
LIKE_NO_OTHER = Draw(features=-1, links=-1)


@dataclass(frozen=True, eq=False)
class Network:
    """Runs a network on draws of its sources.

    Args:
        question: what is asked.
        features: the features, in full or in a small space.
        noisy: whether the features have noise.
        links: weights of the messages, where links have chances.
        own_randomness: the network draws random numbers that are not dropout's.
        writes: the network changes its features in place, and must be given copies.
        prefix: what layers returned in earlier runs, where it is kept.
        keeps_masks: masks are kept for the run that shares them.
        tight: memory that was freed is given back before every run.
    """

    question: Question
    features: Features
    noisy: bool
    links: DrawnLinks | None = None
    own_randomness: bool = False
    writes: bool = True
    prefix: Prefix | None = None
    keeps_masks: bool = False
    tight: bool = False
    _recent: dict[tuple[str, int], dict[int, Tensor]] = field(default_factory=dict, init=False)

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
        self.seed(draw)
        running = running or Pass(self.masking(draw), self.features.maps)
        if self.prefix is not None:
            self.prefix.begin(LIKE_NO_OTHER if x is not None else draw, running)
        if x is None:
            x = self.features.mean if draw.features is None else self._x(draw.features)
        coins = None if draw.links is None else self._coins(draw.links)
        return self.through(x, coins, running)

    def seed(self, draw: Draw) -> None:
        """Seed torch's generators, where the network uses them itself."""
        if self.own_randomness and draw.weights is not None:
            number = torch_seed(draw.weights, seed=self.question.seed)
            torch.default_generator.manual_seed(number)
            if self.features.mean.device.type == "cuda":
                torch.cuda.manual_seed(number)

    @property
    def uncertain_links(self) -> bool:
        """Whether coins are to be drawn."""
        return self.links is not None and self.links.uncertain

    def at_once(self, draws: Sequence[Draw], sites: Sequence[Site]) -> Tensor:
        """Logits of many runs, ``[runs, nodes, classes]``.

        Args:
            draws: of each run.
            sites: where dropout acts, if masks are drawn.
        """
        drawn: dict[str | int, Tensor] = {}
        if draws[0].features is not None:
            drawn["x"] = _stacked(self._x, [draw.features for draw in draws])
        if draws[0].links is not None:
            drawn["coins"] = _stacked(self._coins, [draw.links for draw in draws])
        if draws[0].weights is not None:
            numbers = [draw.weights for draw in draws]
            for place, site in enumerate(sites):
                drawn[place] = _stacked(partial(self._mask, site, place), numbers)

        def run(drawn: dict[str | int, Tensor]) -> Tensor:
            masking = None if 0 not in drawn else lambda site, place: _fit(drawn[place], site)
            running = Pass(masking, self.features.maps)
            return self.through(drawn.get("x", self.features.mean), drawn.get("coins"), running)

        with warnings.catch_warnings():
            # Functions that torch cannot batch are run one by one: slow, but right.
            warnings.filterwarnings("ignore", message="There is a performance drop")
            return torch.vmap(run)(drawn)

    def through(self, x: Tensor, coins: Tensor | None, running: Pass) -> Tensor:
        """Logits for these features and weights of links, ``[nodes, classes]``."""
        if self.links is not None:
            self.links.show(coins)
        with propagating(Propagation()), running:
            out = self.question.run(x.clone() if self.writes else x)
        return running.logits(out, self.question.task)

    def masking(self, draw: Draw) -> Masking | None:
        """Masks of a run; None holds them at their means."""
        number = draw.weights
        if number is None:
            return None

        def mask(site: Site, place: int) -> Tensor | Iterator[Tensor]:
            whole = self.keeps_masks or site.shape.numel() <= LARGE
            return (self._mask if whole else self._mask_by_rows)(site, place, number)

        return mask

    def _x(self, sample: int) -> Tensor:
        return self._known("x", 0, sample, partial(self.features.draw, seed=self.question.seed))

    def _coins(self, sample: int) -> Tensor:
        assert self.links is not None  # coins are drawn only where links have chances
        return self._known("coins", 0, sample, partial(self.links.draw, seed=self.question.seed))

    def _mask(self, site: Site, place: int, sample: int) -> Tensor:
        def draw(sample: int) -> Tensor:
            one = range(sample, sample + 1)
            return draw_masks(site, place, one, seed=self.question.seed, device=self._device)[0]

        if not self.keeps_masks:
            return draw(sample)
        return self._known(f"mask {tuple(site.shape)}", place, sample, draw)

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

    def _known(self, what: str, place: int, sample: int, draw: Callable[[int], Tensor]) -> Tensor:
        """A draw, made once for all runs of a group."""
        recent = self._recent.setdefault((what, place), {})
        if sample not in recent:
            while len(recent) >= DRAWS_KEPT.get(what, MASKS_KEPT):
                del recent[next(iter(recent))]
            recent[sample] = draw(sample)
        return recent[sample]


def _stacked(draw: Callable[[int], Tensor], samples: Sequence[int | None]) -> Tensor:
    """Draws one below the other, ``[samples, ...]``."""
    return torch.stack([draw(sample) for sample in samples if sample is not None])


def _fit(mask: Tensor, site: Site) -> Tensor:
    if mask.shape != site.shape:  # the way through the network depends on the draw
        raise RuntimeError("dropout met another shape than in the first run")
    return mask


@contextmanager
def opened(question: Question) -> Iterator[Network]:
    """A network ready to run; afterwards the model and torch's generators are as before."""
    device, model, given = question.x.mean.device, question.model, question.links
    cuda = [device] if device.type == "cuda" else []
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng(devices=cuda))
        stack.enter_context(_untouched(model))
        for module in model.modules():
            module.training = "weights" in question.sources and not is_normalisation(module)
        stack.enter_context(sound_caches(model))
        links = None if given is None else DrawnLinks(given)
        if links is not None:
            stack.enter_context(scaled_messages(model, links))
        yield Network(question, FullFeatures(question.x), question.noisy, links)


@contextmanager
def _untouched(model: nn.Module) -> Iterator[None]:
    """Take back whatever passes leave on modules: modes, caches, what users store there."""
    before = [(module, module.training, dict(vars(module))) for module in model.modules()]
    try:
        yield
    finally:
        for module, training, state in before:
            for name in vars(module).keys() - state.keys():
                del vars(module)[name]
            vars(module).update(state)
            module.training = training
