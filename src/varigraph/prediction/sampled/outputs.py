"""Outputs of all runs, in order: many at once where that is faster, else one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor

from varigraph.prediction.sampled.design import Design
from varigraph.prediction.sampled.shortcuts import Explored


def outputs_of(found: Explored, design: Design, at_once: int) -> Iterator[Tensor]:
    """Logits of the runs, ``[some runs, nodes, classes]`` at a time.

    Args:
        found: the network and the ways through it.
        design: the draws of each run.
        at_once: runs that are computed together, where that is faster.
    """
    done = 0
    try:
        for outputs in _batched(found, design, at_once) if found.batched and design.sources else ():
            done += len(outputs)
            yield outputs
    except RuntimeError:  # torch.vmap cannot follow every network
        pass
    yield from _one_by_one(found, design, range(done, design.runs))


def _batched(found: Explored, design: Design, at_once: int) -> Iterator[Tensor]:
    for start in range(0, design.runs, at_once):
        draws = [design.draw(run) for run in range(start, min(start + at_once, design.runs))]
        yield found.network.at_once(draws, found.sites)


def _one_by_one(found: Explored, design: Design, runs: range) -> Iterator[Tensor]:
    for run in runs:
        yield found.network.once(design.draw(run))[None]


def in_groups(outputs: Iterable[Tensor], group: int, together: int) -> Iterator[list[Tensor]]:
    """The same outputs in whole groups of runs, several at a time.

    Args:
        outputs: ``[some runs, nodes, classes]`` at a time.
        group: number of runs in a group.
        together: number of runs to wait for, in whole groups.

    Yields:
        Lists for the taker to empty: nothing else holds what is in them.
    """
    held: list[Tensor] = []
    for output in outputs:
        held.append(output)
        del output  # or it would be held beside the next ones
        runs = sum(map(len, held))
        if runs >= together:
            rest = _cut_off(held, runs % group)
            yield held
            held = rest
    if held:
        yield held


def _cut_off(held: list[Tensor], over: int) -> list[Tensor]:
    """Take so many runs, fewer than came last, off the end of what is held."""
    if over == 0:
        return []
    last = held.pop()
    held.append(last[:-over])
    return [last[-over:]]
