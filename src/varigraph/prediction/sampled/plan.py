"""How much memory the runs may take, and the runs themselves, in groups that fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from varigraph.prediction.memory import BYTES_PER_LINK, NUMBERS_AT_ONCE, too_large
from varigraph.prediction.sampled.draws import Design
from varigraph.prediction.sampled.estimates import batches_of
from varigraph.prediction.sampled.network import DRAWS_KEPT
from varigraph.prediction.sampled.shortcuts import Explored
from varigraph.prediction.sources.source import SOURCES

#: Tensors of the largest size that a batched run holds at once, rather too many than too few.
TENSORS_AT_ONCE = 8
#: Numbers of runs side by side on a processor: more leave its caches, and the heap.
NUMBERS_BESIDE = 2**21
#: Outputs that are summed at a time: few enough to fit a cache, many enough to be worth it.
RUNS_TOGETHER = 16
#: Blocks of numbers on their way, and torch's own buffers.
BUFFERS = 2**24
BYTES_PER_MASK = 4
#: Masks are kept only where there is so many times the room for them.
TIMES_THE_ROOM = 4
#: The C library leaves gaps between what is used: so large a part of it comes on top, ...
GAPS = 3
#: ... as far as tensors are small enough to be put next to each other.
MOST_GAPS = 2**27


@dataclass(frozen=True)
class Plan:
    """What the memory is used for.

    Args:
        together: runs whose outputs are held to be summed together.
        at_once: runs that are computed at once, where that is faster.
        keeps_masks: whether masks are kept for the run that shares them.
        tight: whether there is so little to spare that freed memory is better given back.
    """

    together: int
    at_once: int
    keeps_masks: bool
    tight: bool = False

    @classmethod
    def of(cls, found: Explored, design: Design, *, output: int, asked: int) -> Plan:
        """The fastest way within the memory.

        Args:
            found: what is known about the network.
            design: which runs there are.
            output: numbers in the output of a run.
            asked: numbers in that part of it which is asked for.

        Raises:
            TooLargeError: there is none.
        """
        question, size = found.network.question, found.network.features.mean.element_size()
        left = question.memory - _least(found, design, size * output, size * asked)
        if left < 0:
            what = f"{design.runs} runs on {len(question.x.mean):,} nodes need"
            less, need = "; fewer samples= or nodes= need less", question.memory - left
            raise too_large(what, need, question.memory, otherwise=less)
        masks = sum(site.shape.numel() for site in found.sites)
        kept = DRAWS_KEPT * BYTES_PER_MASK * masks
        keeps_masks = TIMES_THE_ROOM * kept <= left
        left -= kept if keeps_masks else 0
        groups = min(RUNS_TOGETHER, left // (size * output)) // design.group
        together = max(1, groups) * design.group
        widest = max(found.widest, question.edges if found.network.links is not None else 0)
        at_once = left // (size * (TENSORS_AT_ONCE * widest + masks))
        most = NUMBERS_AT_ONCE["cuda"] if question.x.mean.is_cuda else NUMBERS_BESIDE
        at_once = min(at_once, most // max(widest, 1))
        at_once = max(1, at_once)
        tight = 2 * left < question.memory and not question.x.mean.is_cuda
        return cls(together, at_once, keeps_masks, tight)


def _least(found: Explored, design: Design, output: int, asked: int) -> int:
    """Bytes that one run after the other takes, with all that is held between them."""
    network, question = found.network, found.network.question
    batches = batches_of(design, asked // network.features.mean.element_size())
    several = len(design.sources) > 1
    sums = (2 + len(design.pairs)) + (2 + several)
    held = (sums * batches + 2) * asked + design.group * output
    drawn = sum(SOURCES[name].bytes_of_draw(network) for name in design.sources)
    drawn += network.features.mean.nbytes if network.writes else 0
    drawn += 0 if network.fixed is None else network.fixed.bytes
    if question.x.mean.is_cuda:  # a processor's blocks of masks are among the buffers
        widest = max((site.shape.numel() for site in found.sites), default=0)
        drawn += BYTES_PER_MASK * min(network.large, widest)
    links = BYTES_PER_LINK * question.edges if network.links is not None else 0
    most = max(found.peak + held + drawn + links, found.trial_peak)
    return BUFFERS + most + min(most // GAPS, MOST_GAPS)


def outputs_of(found: Explored, design: Design, at_once: int) -> Iterator[Tensor]:
    """Logits of the runs, ``[some runs, nodes, classes]`` at a time.

    Args:
        found: the network and the ways through it.
        design: the draws of each run.
        at_once: runs that are computed together, where that is faster.
    """
    done, several = 0, found.batched and at_once > 1
    try:
        for outputs in _batched(found, design, at_once) if several and design.sources else ():
            done += len(outputs)
            yield outputs
    except RuntimeError:  # torch.vmap cannot follow every network
        pass
    yield from _one_by_one(found, design, range(done, design.runs))


def _batched(found: Explored, design: Design, at_once: int) -> Iterator[Tensor]:
    part = design.runs // max(design.rounds, 1)
    at_once = -(-part // -(-part // at_once))  # parts of a size, none with few runs left
    for first in range(0, design.runs, part):
        for start in range(first, first + part, at_once):
            runs = range(start, min(start + at_once, first + part))
            yield found.network.at_once([design.draw(run) for run in runs], found.sites)


def _one_by_one(found: Explored, design: Design, runs: range) -> Iterator[Tensor]:
    for run in runs:
        yield found.network.once(design.draw(run))[None]


def in_groups(
    outputs: Iterable[Tensor], group: int, together: int, part: int = 0
) -> Iterator[list[Tensor]]:
    """The same outputs in whole groups of runs, several at a time.

    Args:
        outputs: ``[some runs, nodes, classes]`` at a time.
        group: number of runs in a group.
        together: number of runs to wait for, in whole groups.
        part: not beyond the end of so many runs; 0 for any number.

    Yields:
        Lists for the taker to empty: nothing else holds what is in them.
    """
    held: list[Tensor] = []
    done = 0
    for output in outputs:
        held.append(output)
        done += len(output)
        del output  # or it would be held beside the next ones
        runs = sum(map(len, held))
        if runs >= together or (part and done % part == 0):
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
