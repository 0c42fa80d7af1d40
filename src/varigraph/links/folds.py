"""Who learns from which pairs, and who judges which: no pair is judged by who has seen it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varigraph.errors import GraphError
from varigraph.links.link_pairs import LinkPairs, non_links

#: Share of the pairs outside a fold that are kept for choosing and calibrating its model.
HELD = 0.1
#: Fewest links that a fold may have.
LEAST = 10


@dataclass(frozen=True, eq=False)
class Examples:
    """Pairs of nodes of which it is known whether they are links.

    Args:
        pairs: the links, then the non-links, ``[2, examples]``.
        real: which are links, ``[examples]`` bool.
    """

    pairs: Tensor
    real: Tensor

    @classmethod
    def of(cls, links: Tensor, others: Tensor) -> Examples:  # [2, links], [2, others]
        """Links and non-links together."""
        pairs = torch.cat([links, others], dim=1)
        return cls(pairs, torch.arange(pairs.size(1), device=pairs.device) < links.size(1))


@dataclass(frozen=True, eq=False)
class Fold:
    """What one model sees, and what it is asked.

    Args:
        train: pairs to learn from. Their links are the structure that may be seen.
        held: pairs to choose and calibrate the model on.
        scored: pairs to judge.
        seed: of everything random in this fold.
    """

    train: Examples
    held: Examples
    scored: Examples
    seed: int

    @property
    def structure(self) -> Tensor:  # [2, links]
        """The links that may be seen."""
        return self.train.pairs[:, self.train.real]


@dataclass(frozen=True, eq=False)
class Folds:
    """All links and as many non-links, each in one fold; and non-links only to learn from.

    Args:
        links: the links, ``[2, links]``.
        others: as many non-links, ``[2, links]``.
        extra: more non-links that every model may learn from, ``[2, extra]``.
        fold_of_link: where each link is judged, ``[links]``.
        fold_of_other: where each of the others is judged, ``[links]``.
        count: how many folds there are.
        seed: of the division.
    """

    links: Tensor
    others: Tensor
    extra: Tensor
    fold_of_link: Tensor
    fold_of_other: Tensor
    count: int
    seed: int

    def __getitem__(self, number: int) -> Fold:
        # Seeds of different folds, and of the division, must not give the same numbers.
        seed = (self.seed * self.count + number + 1) * 0x9E3779B97F4A7C15 % 2**31
        generator = torch.Generator().manual_seed(seed)
        links = self.links[:, self.fold_of_link != number]
        others = self.others[:, self.fold_of_other != number]
        held_links, links = _held_and_rest(links, generator)
        held_others, others = _held_and_rest(others, generator)
        return Fold(
            train=Examples.of(links, torch.cat([others, self.extra], dim=1)),
            held=Examples.of(held_links, held_others),
            scored=Examples.of(
                self.links[:, self.fold_of_link == number],
                self.others[:, self.fold_of_other == number],
            ),
            seed=seed,
        )


def divided(links: LinkPairs, *, folds: int, contrast: int = 1, seed: int = 0) -> Folds:
    """Links and random non-links in ``folds`` parts of equal size, up to one pair.

    Args:
        links: the links of the graph.
        folds: how many parts.
        contrast: non-links to learn from for each link, as far as the graph has them. It makes
            no difference to the pairs that are judged.
        seed: of the division and of the non-links.

    Raises:
        GraphError: if there are too few links, or too few pairs without one.
    """
    count = len(links)
    if count < LEAST * folds:
        raise GraphError(
            f"the graph has {count} links, too few for {folds} folds of at least {LEAST}",
            f"choose at most {count // LEAST} folds"
            if count >= 2 * LEAST
            else f"give a graph with at least {2 * LEAST} links",
        )
    generator = torch.Generator().manual_seed(seed)
    place = [torch.randperm(count, generator=generator) % folds for _ in range(2)]
    others = non_links(links.pairs, nodes=links.nodes, count=count, generator=generator)
    known = torch.cat([links.pairs, others], dim=1)
    more = min((contrast - 1) * count, links.possible - known.size(1))
    return Folds(
        links=links.pairs,
        others=others,
        extra=non_links(known, nodes=links.nodes, count=more, generator=generator),
        fold_of_link=place[0].to(others.device),
        fold_of_other=place[1].to(others.device),
        count=folds,
        seed=seed,
    )


def _held_and_rest(pairs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    order = torch.randperm(pairs.size(1), generator=generator).to(pairs.device)
    held = -int(-HELD * pairs.size(1) // 1)
    return pairs[:, order[:held]], pairs[:, order[held:]]
