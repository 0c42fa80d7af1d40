"""Draws of noise and coins that depend on the seed, the source and the sample, on nothing else."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from varigraph.prediction.masks import WEIGHTS

#: Each source has streams of its own; ``masks`` draws those of the weights.
FEATURES, LINKS = 2, 3
LEVELS = 2**16
#: Numbers in a word of the generator.
PER_WORD = 4
#: Numbers that are drawn at a time; whole words.
AT_ONCE = 2**18


def normals(shape: tuple[int, ...], sample: int, *, seed: int) -> Tensor:
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

    Example:
        >>> torch.equal(normals((3, 2), 5, seed=1), normals((3, 2), 5, seed=1))
        True
    """
    drawn = torch.empty(math.prod(shape), dtype=torch.float32)
    stream, table = _stream(FEATURES, sample, seed), _quantiles()
    for block in drawn.split(AT_ONCE):
        bits = stream.random_raw(-(-len(block) // PER_WORD)).view(np.uint16)[: len(block)]
        # index_select takes 32-bit numbers, and is 50 times faster than indexing by brackets.
        torch.index_select(table, 0, torch.from_numpy(bits.astype(np.int32)), out=block)
    return drawn.view(shape)


@lru_cache(maxsize=1)
def _quantiles() -> Tensor:  # [LEVELS]
    table: Tensor = torch.special.ndtri((torch.arange(LEVELS, dtype=torch.float64) + 0.5) / LEVELS)
    table = table / table.square().mean().sqrt()
    return table.float()


def coins(prob: Tensor, sample: int, *, seed: int) -> Tensor:  # [coins] -> [coins]
    """Whether each coin comes up, as a number of the dtype of ``prob``.

    Args:
        prob: chance of each.
        sample: number of the draw.
        seed: key of the generator.
    """
    words = _stream(LINKS, sample, seed).random_raw(len(prob))
    uniform = torch.from_numpy((words >> np.uint64(11)) * 2.0**-53)
    return (uniform.to(prob.device) < prob).to(prob.dtype)


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
