"""``method="sampled"`` on a graph in parts: in blocks of draws, between which all is on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from varigraph.choices import Task
from varigraph.distributed.asked import Asked
from varigraph.distributed.exchange import Exchange, Nobody, Processes, Sent
from varigraph.distributed.network import Reach, check_neighbours_suffice
from varigraph.distributed.unfinished import Unfinished, sums_after
from varigraph.moments import Gaussian
from varigraph.options import warn
from varigraph.prediction.masks import Site
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.sampled.draws import Design, Draw
from varigraph.prediction.sampled.estimates import FEWEST_BATCHES, SampledMoments
from varigraph.prediction.sampled.method import AT_ONCE, CERTAIN, answered
from varigraph.prediction.sampled.plan import Plan
from varigraph.prediction.sampled.runs import PlainRun
from varigraph.prediction.sampled.shortcuts import in_step
from varigraph.prediction.tasks import check_output, probabilities

#: Seconds of work that may be lost, and done again.
EVERY = 30.0
PLAIN = "plain"


@dataclass(frozen=True)
class Facts:
    """What a first run on a part tells.

    Args:
        sources: that something is drawn of.
        sites: where dropout acts.
        plan: how memory is used.
        shown: parts of the variance.
        task: what the output means.
    """

    sources: tuple[str, ...]
    sites: tuple[Site, ...]
    plan: Plan
    shown: tuple[str, ...]
    task: Task

    @classmethod
    def of(cls, asked: Asked) -> Facts:
        """Look at a part alone: what comes out is wrong where others would be asked for rows.

        Raises:
            ModelError: more is needed than the neighbours of a node.
            TooLargeError: the work on this part does not fit in the memory.
        """
        share, question, running = asked.share, asked.question, PlainRun({})
        assert question.graph is not None  # it was asked about
        with asked.asking(Nobody(share)):
            check_neighbours_suffice(question.model, question.run, question.graph, Reach.of(share))
        with asked.asking(Nobody(share)), asked.opened(()) as network, in_step(network) as found:
            logits = network.once({}, running=running)
            check_output(Gaussian.certain(logits), question.task, logits=running.looked_through)
            design = design_of(found.sources, question.draws)
            own = logits[: len(share.own)].numel()
            plan = Plan.of(found, design, output=logits.numel(), asked=own)
        return cls(found.sources, found.sites, plan, question.parts, question.task)


def design_of(sources: tuple[str, ...], draws: int) -> Design:
    """Which draws there are."""
    return Design(sources, draws if sources else FEWEST_BATCHES)


@dataclass(frozen=True)
class Block:
    """Some runs; run -1 is the network's own, of which nothing is drawn.

    Args:
        first: the first of them.
        last: the one behind the last.
    """

    first: int
    last: int

    @property
    def plain(self) -> bool:
        """Whether nothing is drawn."""
        return self.first < 0

    def draws(self, design: Design) -> dict[int, Draw]:
        """What is drawn, by run."""
        return {run: {} if self.plain else design.draw(run) for run in range(self.first, self.last)}


OWN_ANSWER = Block(-1, 0)


class Runner(Protocol):
    """Runs a network on the parts of a process."""

    def outputs(self, block: Block) -> Iterator[tuple[int, list[Tensor]]]:
        """By part, logits of own nodes under each draw of a block, ``[own, classes]``."""

    def held(self, block: Block) -> int:
        """Bytes on disk for a run of the last block; 0 where all is in memory."""

    def forget(self) -> None:
        """What the last block has left is needed no more."""


@dataclass(frozen=True, eq=False)
class OnePart:
    """A process that has one part, in memory: rows travel while the network runs.

    Args:
        number: of the part.
        asked: about it.
        facts: about it too.
        design: which draws there are.
        processes: that have the others.
        sent: counts what is sent to them.
    """

    number: int
    asked: Asked
    facts: Facts
    design: Design
    processes: Processes
    sent: Sent

    def outputs(self, block: Block) -> Iterator[tuple[int, list[Tensor]]]:
        """By part, logits of own nodes under each draw of a block, ``[own, classes]``."""
        share, plan = self.asked.share, self.facts.plan
        others = Exchange(share, self.processes, self.sent)
        with (
            self.asked.asking(others),
            self.asked.opened(self.facts.sites, plain=block.plain) as opened,
        ):
            network = replace(opened, keeps_masks=plan.keeps_masks, tight=plan.tight)
            draws = block.draws(self.design).values()
            yield self.number, [network.once(draw)[: len(share.own)] for draw in draws]

    def held(self, block: Block) -> int:
        """Nothing is on disk."""
        return 0

    def forget(self) -> None:
        """Nothing is left over."""


Told = Callable[[int, int], None]


@dataclass(eq=False)
class Sampling:
    """Draws for all parts of a process, in step with the other processes.

    Args:
        facts: what is known of each part of this process, by its number.
        runner: runs the network on them.
        design: which draws there are.
        together: how many are summed at a time, the same everywhere.
        processes: all of them.
        unfinished: where all that is done is kept.
        told: is told how many draws are done, and of how many.
    """

    facts: Mapping[int, Facts]
    runner: Runner
    design: Design
    together: int
    processes: Processes
    unfinished: Unfinished
    told: Told

    def __post_init__(self) -> None:
        self._sums: dict[int, tuple[SampledMoments, SampledMoments]] = {}
        self._kept_at = time.monotonic()

    def run(self) -> None:
        """Do what is not done yet."""
        if not next(iter(self.facts.values())).sources:
            warn(CERTAIN)
        self._run_plain()
        size, done = self._block_size(), self._least(map(self.unfinished.done, self.facts))
        while done < self.design.runs:
            block = Block(done, min(done + size, self.design.runs))
            for part, outputs in self.runner.outputs(block):
                self._add(part, outputs, block)
            done = block.last
            self._keep(done)
            self.told(done, self.design.runs)

    def answers(self) -> Iterator[tuple[int, Prediction]]:
        """The answer for the own nodes of each part."""
        for part, facts in self.facts.items():
            logits, answers = self._sums_of(part, self.design.runs)
            found = answered(
                logits,
                answers,
                sources=facts.sources,
                parts=facts.shown,
                runs=self.design.runs if facts.sources else 0,
                task=facts.task,
            )
            self._sums.pop(part, None)
            yield part, replace(found, plain=probabilities(self._plain(part), facts.task))

    def _least(self, numbers: Iterator[int] | Sequence[int]) -> int:
        """The least of the numbers that all processes have."""
        return -self.processes.largest(-min(numbers))

    def _run_plain(self) -> None:
        if self._least([self.unfinished.has(part, PLAIN) for part in self.facts]):
            return
        for part, (logits,) in self.runner.outputs(OWN_ANSWER):
            held = torch.tensor(self.runner.held(OWN_ANSWER))
            self.unfinished.save(part, PLAIN, {"logits": logits.contiguous(), "held": held})
        self.processes.largest(0)  # others may still ask for what is forgotten now
        self.runner.forget()

    def _block_size(self) -> int:
        """As many draws as fit on the disk and in memory beside each other, in whole groups."""
        held = max(int(self.unfinished.load(part, PLAIN)["held"]) for part in self.facts)
        fitting = ON_DISK // max(1, self.processes.largest(held))
        groups = max(1, min(self.together, fitting) // self.design.group)
        return groups * self.design.group

    def _plain(self, part: int) -> Tensor:  # [own, classes]
        return self.unfinished.load(part, PLAIN)["logits"]

    def _sums_of(self, part: int, done: int) -> tuple[SampledMoments, SampledMoments]:
        """Sums of so many draws: those of logits, and those of answers."""
        if part in self._sums:
            return self._sums[part]
        like = self._plain(part)
        logits = SampledMoments(like, self.design, by_source=False)
        answers = SampledMoments(like, self.design)
        if done:
            kept = self.unfinished.load(part, sums_after(done))
            for name, moments in (("logits", logits), ("answers", answers)):
                state = {k.removeprefix(f"{name} "): kept[k] for k in kept if k.startswith(name)}
                moments.restore(state, done)
        return logits, answers

    def _add(self, part: int, outputs: list[Tensor], block: Block) -> None:
        logits, answers = self._sums_of(part, block.first)
        for rows in logits.blocks(AT_ONCE["cpu"] // len(outputs)):
            some = torch.stack([run[rows] for run in outputs])
            logits.add(some, rows)
            answers.add(probabilities(some, self.facts[part].task), rows)
        self._sums[part] = logits, answers
        if len(self.facts) > 1:  # in turn: the next one needs the memory
            self._save(part, block.last)

    def _save(self, part: int, done: int) -> None:
        logits, answers = self._sums.pop(part) if len(self.facts) > 1 else self._sums[part]
        states = {"logits": logits.state(), "answers": answers.state()}
        whole = {f"{name} {key}": value for name, state in states.items()
                 for key, value in state.items()}  # fmt: skip
        self.unfinished.save(part, sums_after(done), whole)

    def _keep(self, done: int) -> None:
        """All processes keep what they have, or none: a run goes on from where all have been."""
        late = time.monotonic() - self._kept_at > EVERY
        if not self.processes.largest(int(late or len(self.facts) > 1)):
            return
        for part in list(self._sums):
            self._save(part, done)
        self.processes.largest(0)  # once all have kept theirs
        for part in self.facts:
            self.unfinished.drop_before(part, done)
        self.runner.forget()
        self._kept_at = time.monotonic()


#: Bytes of rows that draws in a block may leave on the disk for each other, of one process.
ON_DISK = 2**33
