"""Dropout masks that depend on the seed, the sample and the place, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from varigraph.errors import ModelError
from varigraph.moments import Gaussian
from varigraph.moments.by_rows import ByRows

#: Draws are keyed by their source as well, so that other sources can have streams of their own.
WEIGHTS = 1
LEVELS = 2**16
LARGEST_WORD = 2**64 - 1
#: Levels that the generator gives each time it counts: four words of 64 bits.
PER_COUNT = 16


@dataclass(frozen=True)
class Site:
    """A place in the network where dropout acts: the shape it meets and its rate."""

    shape: torch.Size
    rate: float

    @property
    def dropped(self) -> int:
        """The rate in units of 1 / 65,536."""
        return round(self.rate * LEVELS)

    @property
    def scale(self) -> float:
        """What is not dropped is multiplied by this, in float32 as the masks are."""
        return float(np.float32(LEVELS / max(LEVELS - self.dropped, 1)))


@dataclass
class Sites:
    """Finds out where dropout acts, and leaves the values as they are."""

    found: list[Site] = field(default_factory=list)

    def __call__(self, x: Gaussian, rate: float) -> Gaussian:
        """Note the place."""
        if isinstance(x, ByRows) and not self.found:
            x.settle()  # every mask starts from here
        self.found.append(Site(x.shape, rate))
        return x


class Masks:
    """Applies given masks, one after the other, to the values that meet dropout.

    Args:
        sites: the places, in the order of the forward.
        masks: what gives the mask of each of them, or some rows of it.
    """

    def __init__(self, sites: Sequence[Site], masks: Sequence[Callable[[slice], Tensor]]) -> None:
        self.left = list(zip(sites, masks, strict=True))

    def __call__(self, x: Gaussian, rate: float) -> Gaussian:
        """Apply the next mask."""
        if not self.left or self.left[0][0].shape != x.shape:
            raise ModelError(
                "the model met dropout in another order or shape than in its first pass",
                "let the forward take the same way every time",
            )
        site, mask = self.left.pop(0)
        if isinstance(x, ByRows):
            return x.then(lambda rows: _masked(x.rows(rows), mask(rows), site.scale))
        return _masked(x, mask(slice(None)), site.scale)


def _masked(x: Gaussian, mask: Tensor, scale: float) -> Gaussian:
    # A mask squared is the mask times its scale: one pass over the numbers, not two.
    none = x.var.new_zeros(())
    return Gaussian(x.mean * mask, torch.addcmul(none, x.var, mask, value=scale))


def draw_masks(
    site: Site, place: int, samples: range, *, seed: int, rows: slice | None = None
) -> Tensor:
    r"""Scaled masks, 0 with the rate of the site and :math:`1 / (1 - r)` else.

    Philox is a counter-based generator: each mask is read at the counter (place, sample, source)
    under the key ``seed``, so that it is the same however the samples are grouped, and on any
    device. Rates are rounded to 1 / 65,536, the scale with them: the mean of a mask is exactly 1.

    Args:
        site: where the mask acts.
        place: number of the site in the order of the forward.
        samples: which samples to draw for.
        seed: key of the generator.
        rows: draw for these only; they start at a multiple of 16.

    Returns:
        ``[samples, *shape]`` in float32, or with as many rows as asked for.
    """
    shape, skipped = site.shape, 0
    if rows is not None:
        shape = torch.Size([rows.stop - rows.start, *shape[1:]])
        skipped = rows.start * shape[1:].numel()
    size = shape.numel()
    masks = np.empty((len(samples), size), dtype=np.float32)
    for mask, sample in zip(masks, samples, strict=True):
        counter = [skipped // PER_COUNT, place, sample, WEIGHTS]
        stream = np.random.Generator(np.random.Philox(key=seed, counter=counter))
        # The stream's own words; drawn like this, other threads can draw at the same time.
        words = stream.integers(0, LARGEST_WORD, -(-size // 4), np.uint64, endpoint=True)
        levels = words.view(np.uint16)[:size]
        np.multiply((levels >= site.dropped).view(np.uint8), np.float32(site.scale), out=mask)
    return torch.from_numpy(masks).view(len(samples), *shape)


def draw_all_masks(sites: Sequence[Site], samples: range, *, seed: int) -> list[Tensor]:
    """Masks of every site for the same samples, ``[samples, *shape]`` each.

    Sites are drawn side by side on as many threads as torch has.
    """
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        drawn = [
            pool.submit(draw_masks, site, place, samples, seed=seed)
            for place, site in enumerate(sites)
        ]
        return [masks.result() for masks in drawn]
