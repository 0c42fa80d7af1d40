"""Error bars for a graph in parts, by several processes, as one process would give them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import nn

from varigraph.choices import Reading, Task
from varigraph.distributed.answer import PartedAnswer, check_new, write_about, write_part
from varigraph.distributed.exchange import Exchange, Processes, joined
from varigraph.distributed.network import FarInputs, check_neighbours_suffice
from varigraph.distributed.parts import Partition
from varigraph.distributed.share import Share
from varigraph.errors import ModelError, OptionError, VarigraphError
from varigraph.files.fingerprint import weights_fingerprint
from varigraph.options import one_of, place_of
from varigraph.prediction.calling import Forward
from varigraph.prediction.memory import RoomForPasses, too_large
from varigraph.prediction.numbering import numbered
from varigraph.prediction.predict import METHODS, ask, check_masks
from varigraph.prediction.prediction import Prediction
from varigraph.prediction.question import Progress, Question, check_answer, refuse_scripted
from varigraph.prediction.sampled.network import opened_network
from varigraph.prediction.sources.source import SOURCES
from varigraph.prediction.tasks import probabilities

PartedMethod = Literal["sampled", "diagonal"]
#: A row of the whole graph, rather than of a part, decides about these.
ALONE = "predict without parts: vg.predict(model, data)"


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

    Every process that torchrun has started calls this with the same arguments. Each works on as
    many parts as the others, put together to one; before each message-passing layer, processes
    hand each other the rows that their neighbours need, and nothing else. Without torchrun, one
    process works on all parts.

    Noise, coins and masks are drawn by the numbers of nodes and links in the whole graph: the
    answer depends neither on the parts nor on the processes, and is that of
    :func:`varigraph.predict`. Where that draws noise in fewer dimensions than there are features,
    the draws are others, of the same distribution.

    Args:
        model: the network, with the same weights in every process.
        folder: of the parts, see :func:`~varigraph.distributed.partition`.
        out: folder of the answer, new or empty; all processes see it.
        method: ``"sampled"``, for any network of layers that look at their neighbours once; or
            ``"diagonal"``, for those that have rules.
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
    }
    with joined() as processes:
        work, error = None, None
        try:
            method = one_of("method", method, get_args(PartedMethod))
            work = _prepared(model, Path(folder), Path(out), processes, method, forward, options,
                             progress)  # fmt: skip
        except Exception as raised:  # all others are told before this is raised
            error = raised
        processes.agree(None if work is None else _meant(work, options), error)
        assert work is not None  # or there was an error
        answer = _answered(work)
        return _written(work, answer, Path(out), processes)


@dataclass(frozen=True, eq=False)
class _Work:
    share: Share
    question: Question
    exchange: Exchange
    far: FarInputs
    method: PartedMethod


def _prepared(
    model: nn.Module,
    folder: Path,
    out: Path,
    processes: Processes,
    method: PartedMethod,
    forward: Forward | None,
    options: dict[str, Any],
    progress: Progress | None,
) -> _Work:
    """All that a process can do and check by itself."""
    check_new(out)
    share = Share(Partition.read(folder), processes.rank, processes.count)
    data = share.data()
    question = ask(model, data, forward=forward, progress=progress, **options)
    refuse_scripted(question.model)
    check_masks(method, question)
    others = [name for name, given in question.given.items()
              if given is not None and SOURCES[name].optional]  # fmt: skip
    if others:
        raise OptionError(f"noise in {others[0]} is not followed in parts of a graph", ALONE)
    if method == "diagonal" and RoomForPasses(question).tall:
        raise too_large(
            f"{share.rows:,} nodes of one process need more than", 2 * question.memory,
            question.memory, otherwise="; or more parts and processes",
        )  # fmt: skip
    exchange = Exchange(share, processes)
    far = FarInputs(exchange)
    question = replace(question, run=far.watching(question.run), nodes=torch.arange(len(share.own)))
    return _Work(share, question, exchange, far, method)


def _meant(work: _Work, options: dict[str, Any]) -> dict[str, Any]:
    """What all processes must mean alike."""
    state = {
        **dict(work.question.model.named_parameters()),
        **dict(work.question.model.named_buffers()),
    }
    told = {name: str(value) for name, value in options.items() if name != "memory"}
    return {
        **told,
        "method": work.method,
        "graph": work.share.whole.fingerprint,
        "weights": weights_fingerprint(state),
    }


def _answered(work: _Work) -> Prediction:
    """The answer for own nodes; all processes take the same steps."""
    question = work.question
    assert question.graph is not None  # it was asked about
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.autocast("cpu", enabled=False))
        stack.enter_context(numbered(work.share.numbering))
        stack.enter_context(work.far.of(question.model))
        try:
            check_neighbours_suffice(question.model, question.run, question.graph, work.share)
            with opened_network(question.only()) as network:
                plain = probabilities(network.once({}), question.task)
            answer = METHODS[work.method](question)
        except VarigraphError:
            raise
        except Exception as error:
            name = type(question.model).__name__
            raise ModelError(
                f"{name} fails on a part of the graph: {place_of(error)}",
                "run it on the features and links that it was trained on; or " + ALONE,
            ) from error
    check_answer(answer)
    return replace(answer, plain=plain[: len(work.share.own)])


def _written(work: _Work, answer: Prediction, out: Path, processes: Processes) -> PartedAnswer:
    """Each process writes the parts that it has answered for; the first one says that all are."""
    share, whole, error = work.share, work.share.whole, None
    try:
        for number, part in zip(share.numbers, share.parts, strict=True):
            nodes = np.asarray(part.own)
            write_part(out, number, nodes, answer, np.searchsorted(share.own, nodes))
    except Exception as raised:  # all others are told before this is raised
        error = raised
    processes.agree("written", error)
    try:
        if processes.rank == 0:
            write_about(out, whole, answer)
    except Exception as raised:
        error = raised
    processes.agree("whole", error)
    sent = work.exchange
    return PartedAnswer(out, whole.nodes, whole.parts, answer.method, sent.times, sent.rows,
                        sent.bytes)  # fmt: skip
