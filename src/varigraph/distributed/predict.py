"""Error bars for a graph in parts, by several processes, as one process would give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
from torch import nn

from varigraph.choices import Method, Reading, Task
from varigraph.distributed.answer import PartedAnswer, is_answer_of, write_about, write_part
from varigraph.distributed.asked import Asked, Asking, guarded, little_to_sweep, make_room
from varigraph.distributed.exchange import Exchange, Nobody, Processes, Sent, joined
from varigraph.distributed.in_turn import InTurn
from varigraph.distributed.network import Reach, check_neighbours_suffice
from varigraph.distributed.parts import Numbers, Partition
from varigraph.distributed.sampling import Facts, OnePart, Runner, Sampling, design_of
from varigraph.distributed.share import Share, check_enough, parts_of
from varigraph.distributed.unfinished import Unfinished, named
from varigraph.distributed.walks import Walks, answer_of
from varigraph.errors import VarigraphError
from varigraph.files.fingerprint import weights_fingerprint
from varigraph.options import one_of
from varigraph.prediction.calling import Forward
from varigraph.prediction.diagonal import diagonal
from varigraph.prediction.memory import RoomForPasses, too_large
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.processor import without_gaps
from varigraph.prediction.question import Progress, check_answer, silent
from varigraph.prediction.tasks import probabilities

PartedMethod = Literal["sampled", "diagonal", "first-order", "covariance"]
#: Options that do not change the answer, and may differ from process to process.
LOCAL = ("memory", "progress")


def predict(
    model: nn.Module,
    folder: Path | str,
    out: Path | str,
    *,
    method: PartedMethod = "sampled",
    links: Reading = "removed",
    sources: Sequence[str] | None = None,
    samples: int = 100,
    seed: int = 0,
    task: Task | None = None,
    forward: Forward | None = None,
    dropout: float | None = None,
    memory: int | str = "1GiB",
    progress: Progress | None = None,
) -> PartedAnswer:
    """Mean and variance of a trained network's answer for every node of a graph in parts.

    Every process that torchrun has started calls this with the same arguments, and works on as
    many parts as the others. Before each message-passing layer, they hand each other the rows that
    neighbours need, and nothing else. Draws go through several parts of a process in turn: one of
    them is in memory. Without torchrun, one process works on all parts.

    A run that was killed is started again by the same call, and goes on where it was.

    Noise, coins and masks are drawn by the numbers of nodes and links in the whole graph: the
    answer depends neither on the parts nor on the processes, and is that of
    :func:`varigraph.predict`. Where that draws noise in fewer dimensions than there are features,
    the draws are others, of the same distribution.

    Args:
        model: the network, with the same weights in every process.
        folder: of the parts, see :func:`~varigraph.distributed.partition`.
        out: folder of the answer, new, empty or begun by a run like this; all processes see it.
        method: ``"sampled"``, for any network of layers that look at their neighbours once;
            ``"diagonal"``, for those that have rules; ``"first-order"`` or ``"covariance"``, for
            these too, on all that walks from the nodes of a part reach.
        links: see :func:`varigraph.predict`, as all that follow.
        sources: what to consider: features, links, weights.
        samples: number of draws, or of dropout masks.
        seed: of all draws.
        task: what the output means.
        forward: how to call the model.
        dropout: rate to inject into a network that has none.
        memory: bound on what this adds to each process.
        progress: called with the draws done and their number.

    Returns:
        Where the answer is, and what was sent; :func:`~varigraph.distributed.read_answer` reads it.

    Raises:
        FileError: a part is missing, damaged, or of another graph.
        ModelError: the network cannot be followed in parts, saying what stands in the way.
        OptionError: an option makes no sense, or there are more processes than parts.
        ProcessError: another process has failed; which says why.
        TooLargeError: the work does not fit in the memory.
    """
    options = {
        "links": links,
        "sources": sources,
        "samples": samples,
        "seed": seed,
        "task": task,
        "dropout": dropout,
        "memory": memory,
        "progress": progress,
    }
    with joined() as processes, little_to_sweep():
        run, error = None, None
        try:
            method = one_of("method", method, get_args(PartedMethod))
            asking = Asking(Partition.read(folder), model, method, forward, options)
            run = _Run(asking, Path(out), processes)
            work = None if run.finished else WORK[method](run)
        except Exception as raised:  # all others are told before this is raised
            error = raised
        processes.agree(None if run is None else run.meant, error)
        assert run is not None  # or there was an error
        if work is not None:
            with guarded(model):
                run.write(work)
        return run.made(method)


#: The answers for the own nodes of some parts, each with their places, once all is computed.
Answers = Iterator[tuple[int, Prediction, Numbers | slice]]
#: Begins when all processes have agreed.
Work = Callable[[], Answers]


class _Run:
    """A run of this process.

    Args:
        asking: what is asked.
        out: folder of the answer.
        processes: all of them.
    """

    def __init__(self, asking: Asking, out: Path, processes: Processes) -> None:
        self.asking, self.out, self.processes = asking, out, processes
        self.whole, self.sent, self.unfinished = asking.whole, Sent(), Unfinished(out)
        check_enough(self.whole, processes.count)
        network = asking.part(self.numbers[0]).question.model  # which is checked with that
        state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
        told = {name: str(value) for name, value in asking.options.items() if name not in LOCAL}
        self.meant = {
            **told,
            "method": asking.method,
            "graph": self.whole.fingerprint,
            "weights": weights_fingerprint(state),
            "network": str(asking.model),
        }
        self.finished = is_answer_of(out, named(self.meant))
        if not self.finished:
            self.unfinished.check(self.meant)

    @property
    def numbers(self) -> range:
        """The parts of this process."""
        return parts_of(self.processes.rank, self.processes.count, self.whole.parts)

    def write(self, work: Work) -> None:
        """Do the work; each process writes its parts, and the first one says that all are there."""
        if self.processes.rank == 0:
            self.unfinished.begin(self.meant)
        self.processes.agree("begun")
        answer = None
        try:
            for number, answer, rows in work():
                check_answer(answer)
                nodes = np.asarray(self.whole.open(number).own)
                write_part(self.out, number, nodes, answer, rows)
        except VarigraphError:
            self.unfinished.drop_if_empty()
            raise
        assert answer is not None  # there is a part for every process
        self.processes.agree("written")
        if self.processes.rank == 0:
            write_about(self.out, self.whole, answer, named(self.meant))
            self.unfinished.end()
        self.processes.agree("whole")

    def made(self, method: str) -> PartedAnswer:
        """What there is now."""
        return PartedAnswer(self.out, self.whole.nodes, self.whole.parts, method,
                            self.sent.times, self.sent.rows, self.sent.bytes)  # fmt: skip


def _sampled(run: _Run) -> Work:
    """Draws, part by part: of one part in memory, of several in turn."""
    asking, one = run.asking, run.processes.count == run.whole.parts
    facts, opened = dict[int, Facts](), dict[int, Asked]()
    with guarded(asking.model), without_gaps():
        for number in run.numbers:
            asked = asking.part(number)
            facts[number] = Facts.of(asked)
            if one:
                opened[number] = asked
            del asked
            make_room()

    def work() -> Answers:
        first = facts[run.numbers[0]]
        draws = asking.options["samples"]
        design = design_of(first.sources, draws)
        run.processes.agree([first.sources, [site.rate for site in first.sites]])
        together = -run.processes.largest(-min(each.plan.together for each in facts.values()))
        runner: Runner = InTurn(asking, facts, design, run.processes, run.unfinished, run.sent)
        if one:
            (number,) = run.numbers
            runner = OnePart(number, opened[number], facts[number], design, run.processes, run.sent)
        sampling = Sampling(facts, runner, design, together, run.processes, run.unfinished,
                            asking.options["progress"] or silent)  # fmt: skip
        with without_gaps():
            sampling.run()
        for number, answer in sampling.answers():
            yield number, answer, slice(None)

    return work


def _diagonal(run: _Run) -> Work:
    """By rules, the parts of a process put together to one."""
    share = Share(run.whole, run.processes.rank, run.processes.count)
    asked = run.asking.of(share)
    question = asked.question
    if RoomForPasses(question).tall:
        raise too_large(
            f"{share.rows:,} nodes of one process need more than", 2 * question.memory,
            question.memory, otherwise="; or more parts and processes",
        )  # fmt: skip
    assert question.graph is not None  # it was asked about
    with guarded(run.asking.model), asked.asking(Nobody(share)):
        check_neighbours_suffice(question.model, question.run, question.graph, Reach.of(share))

    def work() -> Answers:
        with asked.asking(Exchange(share, run.processes, run.sent)):
            with asked.opened((), plain=True) as network:
                plain = probabilities(network.once({}), question.task)
            answer = replace(diagonal(question), plain=plain[: len(share.own)])
        for number, part in zip(share.numbers, share.parts, strict=True):
            yield number, answer, np.searchsorted(share.own, np.asarray(part.own))

    return work


def _by_walks(run: _Run) -> Work:
    """In closed form, for some nodes after the other, on all that walks from them reach."""
    method = cast(Method, run.asking.method)
    walks = Walks(run.asking.whole, run.asking.model, method, run.asking.forward,
                  run.asking.options)  # fmt: skip

    def work() -> Answers:
        for number in run.numbers:
            yield number, answer_of(walks, number, run.unfinished), slice(None)

    return work


WORK: dict[str, Callable[[_Run], Work]] = {
    "sampled": _sampled,
    "diagonal": _diagonal,
    "first-order": _by_walks,
    "covariance": _by_walks,
}
