"""Which draws go into which run, and how they are made: by seed, source and number alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from varigraph.kernels import INSTALLED
from varigraph.moments import Gaussian
from varigraph.moments.gaussian import unexpanded
from varigraph.moments.input_noise import by_node_and_feature
from varigraph.prediction.masks import CPU, WEIGHTS
from varigraph.prediction.numbering import drawn_at, numbering
from varigraph.sparse import made_once

#: The number of each source's draw in one run; what has none is held at its mean.
Draw = Mapping[str, int]


@dataclass(frozen=True)
class Design:
    r"""Runs in groups that tell the sources apart.

    One source: every run has a draw of its own. Several: groups of runs in which any two share the
    draw of at most one source,

    .. math::
        \mathrm{Cov}(y, y') = V[E[y \mid s]]

    for runs that share source s and nothing else. Each source pairs up the runs of a group in its
    own way, as the rounds of a tournament do: a group of four has three rounds and so serves up to
    three sources, one of six serves five. Every run serves the mean and the total as well: the
    division over sources costs no run of its own.

    Args:
        sources: what is drawn, those that act first in the network first.
        samples: number of runs asked for; rounded up to whole groups, of which there are two.
        rounds: parts of the runs after each of which they may be found to be enough; 0 for none.
    """

    sources: tuple[str, ...]
    samples: int
    rounds: int = 0

    @property
    def group(self) -> int:
        """Runs in a group."""
        count = len(self.sources)
        return 1 if count < 2 else max(4, count + 1 + (count + 1) % 2)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return max(2, -(-self.samples // self.group)) * self.group

    @cached_property
    def pairs(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Runs of a group that share one source and nothing else."""
        if self.group == 1:
            return {}
        return dict(zip(self.sources, rounds(self.group), strict=False))

    def draw(self, run: int) -> Draw:
        """The draws of a run."""
        if self.group == 1:
            return dict.fromkeys(self.sources, run)
        group, member = divmod(run, self.group)
        return {
            source: group * len(pairs) + next(k for k, pair in enumerate(pairs) if member in pair)
            for source, pairs in self.pairs.items()
        }


def rounds(players: int) -> list[tuple[tuple[int, int], ...]]:
    """The rounds of a tournament: every two players meet once, and in each round everybody plays.

    Example:
        >>> rounds(4)
        [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    """
    last = players - 1
    found = []
    for number in reversed(range(last)):  # one stays in place, the others go around
        met = [(number, last)]
        for step in range(1, players // 2):
            one, two = (number + step) % last, (number - step) % last
            met.append((min(one, two), max(one, two)))
        found.append(tuple(sorted(met)))
    return found


#: Each source has a stream of its own: masks 1, links 3, fields 4 to 6.
FEATURES = 2
LEVELS = 2**16
#: Numbers in a word of the generator.
PER_WORD = 4
#: Numbers that are drawn at a time; whole words.
AT_ONCE = 2**18


def normals(
    shape: tuple[int, ...],
    sample: int,
    *,
    seed: int,
    stream: int = FEATURES,
    device: torch.device = CPU,
) -> Tensor:
    r"""Standard normal numbers, float32, by the inverse of their distribution.

    .. math::
        z = \Phi^{-1}\left(\frac{k + 1/2}{65536}\right) \Big/ c

    for 16 random bits k, with c such that the variance is exactly 1: 65,536 different numbers up
    to 4.2, of kurtosis 2.999. As with dropout masks, Philox is read at the counter (sample,
    source) under the key ``seed``.

    Args:
        shape: how many.
        sample: number of the draw.
        seed: key of the generator.
        stream: of the source that they are for.
        device: where they are wanted; the same numbers on any.

    Example:
        >>> torch.equal(normals((3, 2), 5, seed=1), normals((3, 2), 5, seed=1))
        True
    """
    size, part = math.prod(shape), numbering()
    if part is not None:
        width = math.prod(shape[1:])
        bits = drawn_at(part.of(shape[0]), width, np.uint16, (0, sample, stream), key=seed)
        return _quantiles()[torch.from_numpy(bits.astype(np.int64))].view(shape).to(device)
    if device.type == "cuda" and INSTALLED and size:
        from varigraph.kernels.philox import philox_levels  # noqa: PLC0415 - needs Triton

        levels = made_once(_quantiles(), ("levels", device), lambda: _quantiles().to(device))
        return philox_levels(levels, size, (0, 0, sample, stream), key=seed).view(shape)
    drawn = torch.empty(size, dtype=torch.float32)
    words, table = _stream(stream, sample, seed), _quantiles()
    for block in drawn.split(AT_ONCE):
        bits = words.random_raw(-(-len(block) // PER_WORD)).view(np.uint16)[: len(block)]
        # index_select takes 32-bit numbers, and is 50 times faster than indexing by brackets.
        torch.index_select(table, 0, torch.from_numpy(bits.astype(np.int32)), out=block)
    return drawn.view(shape).to(device)


def noise_like(
    mean: Tensor, sample: int, *, seed: int, stream: int = FEATURES
) -> Tensor:  # [nodes, features] -> [nodes, features]
    """Standard normal numbers where a tensor is, and of its dtype; see :func:`normals`."""
    drawn = normals(tuple(mean.shape), sample, seed=seed, stream=stream, device=mean.device)
    return drawn.to(mean.dtype)


@lru_cache(maxsize=1)
def _quantiles() -> Tensor:  # [LEVELS]
    table: Tensor = torch.special.ndtri((torch.arange(LEVELS, dtype=torch.float64) + 0.5) / LEVELS)
    table = table / table.square().mean().sqrt()
    return table.float()


def torch_seed(sample: int, *, seed: int) -> int:
    """A seed for torch's own generator, for networks that draw more than dropout.

    Args:
        sample: number of the draw.
        seed: key of the generator.
    """
    # Masks are read at places counted from 0: this one is free.
    stream = np.random.Philox(key=seed, counter=[0, 2**62, sample, WEIGHTS])
    return int(stream.random_raw()) >> 1


def _stream(source: int, sample: int, seed: int) -> np.random.Philox:
    return np.random.Philox(key=seed, counter=[0, 0, sample, source])


#: How much narrower the small space must be to be worth the change of basis.
NARROWER = 2


class Features(Protocol):
    """What takes the place of the features in a run."""

    @property
    def mean(self) -> Tensor:
        """Features without noise."""

    @property
    def maps(self) -> Mapping[Tensor, Tensor]:
        """Matrices to use in the place of the network's own, by those."""

    @property
    def bytes(self) -> int:
        """Memory of a draw, and of what is held to make it."""

    def draw(self, sample: int, *, seed: int) -> Tensor:
        """Features with a draw of noise."""


@dataclass(frozen=True, eq=False)
class FullFeatures:
    r"""All features: :math:`x + \sigma \circ z`, ``[nodes, features]``."""

    x: Gaussian
    maps: Mapping[Tensor, Tensor] = field(default_factory=dict)

    @property
    def mean(self) -> Tensor:
        """Features without noise."""
        return self.x.mean

    @property
    def bytes(self) -> int:
        """Memory of a draw, and of what is held to make it."""
        return self.mean.nbytes + self._std.nbytes

    def draw(self, sample: int, *, seed: int) -> Tensor:
        """Features with a draw of noise."""
        noise = noise_like(self.mean, sample, seed=seed)
        return torch.addcmul(self.mean, noise, self._std, out=noise)

    @cached_property
    def _std(self) -> Tensor:  # [nodes or 1, features or 1]
        return unexpanded(self.x.var).sqrt()


@dataclass(frozen=True, eq=False)
class SmallFeatures:
    r"""Features in an orthonormal basis Q of what the first matrices W can see.

    .. math::
        W x = (W Q) (Q' x) \qquad
        Q' x \sim N\left(Q' \mu,\ \sigma_u^2\, Q' \mathrm{diag}(\sigma_f^2) Q\right)

    The same distribution of everything behind W, from as many normal numbers as Q has columns.

    Args:
        full: the features themselves.
        basis: Q, ``[features, directions]``.
        maps: W Q for each W.
        mean: :math:`Q' \mu`, ``[nodes, directions]``.
    """

    full: FullFeatures
    basis: Tensor
    maps: Mapping[Tensor, Tensor]
    mean: Tensor
    _noise: tuple[Tensor, Tensor] | None

    @classmethod
    def of(cls, full: FullFeatures, matrices: Mapping[Tensor, bool]) -> SmallFeatures:
        """The small space of these matrices, each ``[out, features]`` or transposed.

        Args:
            full: the features.
            matrices: the flag is True for ``[out, features]``.
        """
        as_rows = [w if rows else w.T for w, rows in matrices.items()]
        basis = torch.linalg.qr(torch.cat(as_rows).double().T)[0]
        maps = {
            w: (w.double() @ basis if rows else basis.T @ w.double()).to(w)
            for w, rows in matrices.items()
        }
        narrow = basis.to(full.mean)
        return cls(full, narrow, maps, full.mean @ narrow, _small_noise(full.x.var, basis))

    @property
    def bytes(self) -> int:
        """Memory of a draw, and of what is held to make it."""
        return 2 * self.mean.nbytes + (self.full.bytes if self._noise is None else 0)

    def draw(self, sample: int, *, seed: int) -> Tensor:  # -> [nodes, directions]
        """Features with a draw of noise."""
        if self._noise is None:  # differs by node and by feature: no root serves all nodes
            return self.full.draw(sample, seed=seed) @ self.basis
        std, root = self._noise
        noise = noise_like(self.mean, sample, seed=seed)
        noise = noise if root.dim() == 0 else noise @ root
        return torch.addcmul(self.mean, noise, std, out=noise)


def worthwhile(matrices: Mapping[Tensor, bool], width: int) -> bool:
    """Whether the matrices together look at far fewer directions than there are features."""
    seen = sum(w.numel() // width for w in matrices)
    return 0 < NARROWER * seen <= width


def _small_noise(var: Tensor, basis: Tensor) -> tuple[Tensor, Tensor] | None:
    """Standard deviation by node, and a root of the covariance; a plain 1 stands for no root."""
    parts = by_node_and_feature(var)
    if parts is None:
        return None
    node, feature = unexpanded(parts[0][:, None]), parts[1]
    if bool((feature == feature[0]).all()):
        return (node * feature[0]).sqrt(), node.new_ones(())
    values, vectors = torch.linalg.eigh(basis.T @ (feature.double()[:, None] * basis))
    root = vectors * values.clamp_min(0).sqrt()
    return node.sqrt(), root.T.to(var)
