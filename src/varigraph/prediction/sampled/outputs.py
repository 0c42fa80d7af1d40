"""Outputs of all runs, in order: many at once where that is faster, else one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from varigraph.prediction.sampled.design import Design
from varigraph.prediction.sampled.shortcuts import Explored

#: Tensors of the largest size that a batched run holds at once, rather too many than too few.
TENSORS_AT_ONCE = 8
#: Outputs that are summed at a time: few enough to fit a cache, many enough to be worth it.
RUNS_TOGETHER = 16


def outputs_of(found: Explored, design: Design) -> Iterator[Tensor]:
    """Logits of the runs, ``[some runs, nodes, classes]`` at a time.

    Args:
        found: the network and the ways through it.
        design: the draws of each run.
    """
    done = 0
    try:
        for outputs in _batched(found, design) if found.batched and design.sources else ():
            done += len(outputs)
            yield outputs
    except RuntimeError:  # torch.vmap cannot follow every network
        pass
    yield from _one_by_one(found, design, range(done, design.runs))


def _batched(found: Explored, design: Design) -> Iterator[Tensor]:
    x = found.network.features.mean
    numbers = TENSORS_AT_ONCE * found.widest + sum(site.shape.numel() for site in found.sites)
    at_once = max(1, found.network.question.memory // (numbers * x.element_size()))
    for start in range(0, design.runs, at_once):
        draws = [design.draw(run) for run in range(start, min(start + at_once, design.runs))]
        yield found.network.at_once(draws, found.sites)


def _one_by_one(found: Explored, design: Design, runs: range) -> Iterator[Tensor]:
    for run in runs:
        yield found.network.once(design.draw(run))[None]


def in_groups(outputs: Iterable[Tensor], group: int, memory: int) -> Iterator[Tensor]:
    """The same outputs in whole groups of runs, several at a time.

    Args:
        outputs: ``[some runs, nodes, classes]`` at a time.
        group: number of runs in a group.
        memory: bound in bytes on what is held of them.
    """
    left: list[Tensor] = []
    for output in outputs:
        left.append(output)
        runs = sum(map(len, left))
        fitting = memory // (TENSORS_AT_ONCE * output[0].numel() * output.element_size())
        if runs < max(group, min(RUNS_TOGETHER, fitting)):
            continue
        joined = torch.cat(left)
        yield joined[: runs - runs % group]
        left = [joined[runs - runs % group :]]
    if sum(map(len, left)) > 0:
        yield torch.cat(left)
