"""Dropout masks that depend on the seed, the sample and the place, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from varigraph.errors import ModelError
from varigraph.kernels import INSTALLED, fused
from varigraph.moments import Gaussian
from varigraph.moments.gaussian import ALIGNED, ByRows
from varigraph.prediction.network_call import refuse_own_dropout
from varigraph.prediction.numbering import Numbers, drawn_at, numbering

#: Draws are keyed by their source as well, so that other sources can have streams of their own.
WEIGHTS = 1
LEVELS = 2**16
#: The lower eight bits of a level are counted in such steps, near 256 times the golden section:
#: places next to each other, and samples, are spread evenly over them.
STRIDE = 157
LARGEST_WORD = 2**64 - 1
CPU = torch.device("cpu")
Bytes = npt.NDArray[np.uint8]
Kept = npt.NDArray[np.bool_]
#: Puts a mask on a value, or on the rows of it that it is given.
ApplyMask = Callable[[Gaussian, slice | None], Gaussian]
#: Bytes that the generator gives each time it counts, four words of 64 bits: masks can be drawn
#: from every so-manieth row on.
PER_COUNT = ALIGNED


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
        refuse_own_dropout(rate)
        if isinstance(x, ByRows) and not self.found:
            x.settle()  # every mask starts from here
        self.found.append(Site(x.shape, rate))
        return x


class Masks:
    """Applies given masks, one after the other, to the values that meet dropout.

    Args:
        sites: the places, in the order of the forward.
        drops: what puts the mask of each of them on a value, or on some rows of it.
    """

    def __init__(self, sites: Sequence[Site], drops: Sequence[ApplyMask]) -> None:
        self.left = list(zip(sites, drops, strict=True))

    def __call__(self, x: Gaussian, rate: float) -> Gaussian:
        """Apply the next mask."""
        if not self.left or self.left[0][0].shape != x.shape:
            raise ModelError(
                "the model met dropout in another order or shape than in its first pass",
                "let the forward take the same way every time",
            )
        _, drop = self.left.pop(0)
        if isinstance(x, ByRows):
            return x.then(lambda rows: drop(x.rows(rows), rows))
        return drop(x, None)


def fitting(mask: Tensor, site: Site) -> Tensor:
    """A mask that was drawn beforehand, if it still fits."""
    if mask.shape != site.shape:  # the way through the network depends on the draw
        raise RuntimeError("dropout met another shape than in the first run")
    return mask


def masked(x: Gaussian, mask: Tensor, scale: float) -> Gaussian:
    """A value under a scaled mask, which is used up: its square is the mask times its scale."""
    mean = x.mean * mask
    return Gaussian(mean, mask.mul_(x.var).mul_(scale))


def dropped(
    x: Gaussian, rows: slice | None, *, site: Site, place: int, sample: int, seed: int
) -> Gaussian:
    """A value, or the rows of it that are given, under the mask of one sample."""
    if numbering() is not None or not fused(x.mean, x.var):
        drawn = draw_masks(
            site, place, range(sample, sample + 1), seed=seed, rows=rows, device=x.mean.device
        )
        return masked(x, drawn[0].to(x.mean), site.scale)
    from varigraph.kernels.philox import philox_dropped  # noqa: PLC0415 - needs Triton

    _, start = _shape_and_start(site, place, sample, rows)
    return Gaussian(
        *philox_dropped(x.mean, x.var, start, key=seed, dropped=site.dropped, scale=site.scale)
    )


def _shape_and_start(
    site: Site, place: int, sample: int, rows: slice | None
) -> tuple[torch.Size, tuple[int, int, int, int]]:
    """The shape of a mask, or of some rows of it, and where the generator starts."""
    if rows is None:
        return site.shape, (0, place, sample, WEIGHTS)
    shape = torch.Size([rows.stop - rows.start, *site.shape[1:]])
    return shape, (rows.start * shape[1:].numel() // PER_COUNT, place, sample, WEIGHTS)


def draw_masks(
    site: Site,
    place: int,
    samples: range,
    *,
    seed: int,
    rows: slice | None = None,
    device: torch.device = CPU,
) -> Tensor:
    r"""Scaled masks, 0 with the rate r of the site and :math:`1 / (1 - r)` else.

    .. math::
        m_i = \frac{[256 b_i + c_i \ge 65536 r]}{1 - r}, \qquad c_i = 157 (i + t) \bmod 256

    for the random byte :math:`b_i` of number i in sample t. Philox is a counter-based generator:
    each mask is read at the counter (place, sample, source) under the key ``seed``, so that it is
    the same however the samples are grouped, and on any device. Rates are rounded to 1 / 65,536,
    the scale with them. What is counted instead of drawn takes every value equally often: over
    256 samples the expected mean is exactly 1, and numbers are as independent as the bytes.

    Args:
        site: where the mask acts.
        place: number of the site in the order of the forward.
        samples: which samples to draw for.
        seed: key of the generator.
        rows: draw for these only; they start at a multiple of :data:`PER_COUNT`.
        device: where they are wanted.

    Returns:
        ``[samples, *shape]`` in float32, or with as many rows as asked for.
    """
    part = numbering()
    if part is not None:
        chosen = part.of(site.shape[0])[rows or slice(None)]
        each = [_masks_at(chosen, site, place, sample, seed) for sample in samples]
        return torch.stack(each).to(device)
    shape, start = _shape_and_start(site, place, samples.start, rows)
    masks = (len(samples), shape.numel())
    if device.type == "cuda" and INSTALLED:
        from varigraph.kernels.philox import philox_masks  # noqa: PLC0415 - needs Triton

        drawn = philox_masks(
            masks, start, key=seed, dropped=site.dropped, scale=site.scale, device=device
        )
    else:
        drawn = _numpy_masks(masks, start, site, seed).to(device)
    return drawn.view(len(samples), *shape)


def _numpy_masks(
    shape: tuple[int, int], start: tuple[int, int, int, int], site: Site, seed: int
) -> Tensor:  # [masks, numbers]
    masks, (at, place, first, source) = np.empty(shape, dtype=np.float32), start
    words = -(-shape[1] // 256) * 32  # whole rounds of what is counted
    for sample, mask in enumerate(masks, start=first):
        counter = [at, place, sample, source]
        stream = np.random.Generator(np.random.Philox(key=seed, counter=counter))
        # The stream's own words; drawn like this, other threads can draw at the same time.
        drawn = stream.integers(0, LARGEST_WORD, words, np.uint64, endpoint=True)
        kept = _kept(drawn.view(np.uint8).reshape(-1, 256), at * PER_COUNT + sample, site.dropped)
        np.multiply(kept.view(np.uint8)[: mask.size], np.float32(site.scale), out=mask)
    return torch.from_numpy(masks)


def _kept(drawn: Bytes, first: int, dropped: int) -> Kept:  # [rounds, 256] -> [numbers]
    """Whether the level of each number reaches ``dropped``, of which the upper bits are drawn."""
    counted = STRIDE * (first + np.arange(256)) % 256
    least = (dropped - counted + 255) // 256  # byte that is enough: 256 if none is
    if dropped < 256:  # and 0 if any is; a byte holds one of the two alone
        return (drawn >= least.astype(np.uint8)).ravel()
    return (drawn > (least - 1).astype(np.uint8)).ravel()


def _masks_at(rows: Numbers, site: Site, place: int, sample: int, seed: int) -> Tensor:
    """The mask of a sample for some rows of a whole graph, by their numbers there."""
    width = site.shape[1:].numel()
    drawn = drawn_at(rows, width, np.uint8, (place, sample, WEIGHTS), key=seed)
    number = (rows[:, None] * width + np.arange(width) + sample) & 255
    kept = drawn.astype(np.int32) * 256 + STRIDE * number % 256 >= site.dropped
    return torch.from_numpy(kept * np.float32(site.scale)).view(len(rows), *site.shape[1:])
