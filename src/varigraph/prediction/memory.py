"""Memory: what the work on a question needs, what fits and what is refused before it starts."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from varigraph.errors import OptionError, TooLargeError
from varigraph.moments.cotangents import CPU, blocks_within
from varigraph.moments.gaussian import ByRows, Gaussian
from varigraph.moments.tape import Tape

if TYPE_CHECKING:
    from varigraph.prediction.question import Question

#: What sums over neighbours keep of every link, and what they take while they are prepared.
BYTES_PER_LINK, WHILE_PREPARED = 28, 80
#: Below this torch's own buffers would decide.
LEAST_ROOM = 2**24
#: Tensors of a layer's size that a rule holds at once: inputs, results and what is in between.
TENSORS_AT_ONCE = 12
#: Tensors of the answer's size that are held while masks are averaged: of logits and of answers
#: three each, those without masks, those under the last, and what is on its way between them.
TENSORS_OF_ANSWER = 18
#: Values that sums read whole must fit so many times: what is made of them and kept for all masks,
#: and the answers, are held with them.
WHOLE_VALUES = 4
#: Numbers per node in a layer, as long as no layer has been seen.
USUAL_WIDTH = 256
#: Numbers in the widest tensor of a batch of masks: a few megabytes on a processor, and on a GPU
#: as many as keep it busy.
NUMBERS_AT_ONCE = {"cpu": 2**20, "cuda": 2**26}
#: What a bound is called that is half of what there is: on a GPU of what is free, on a processor of
#: the machine's RAM, so that the same machine does the same work whatever else it does.
HALF = "half"
#: RAM of a machine that does not tell.
USUAL_RAM = 2**32
#: Where Linux says how much of it the processes of a container may have.
CONTAINER = Path("/sys/fs/cgroup/memory.max")
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def as_bytes(amount: int | str, device: torch.device = CPU) -> int:
    """Number of bytes in an amount such as ``"2GiB"``.

    Args:
        amount: a number, with a unit or of bytes, or ``"half"`` of what there is.
        device: where.

    Example:
        >>> as_bytes("2GiB"), as_bytes("500 MB"), as_bytes(4096)
        (2147483648, 500000000, 4096)
    """
    if amount == HALF:
        return (_free(device) if device.type == "cuda" else _ram()) // 2
    match = re.fullmatch(r"\s*(\d{1,30}(?:\.\d+)?)\s*([KMG]i?B|)\s*", str(amount), re.ASCII)
    if match is None or float(match[1]) <= 0:
        raise OptionError(
            f"memory={shortened(amount)} is not an amount of memory", 'write memory="2GiB"'
        )
    return int(float(match[1]) * UNITS[match[2]])


def _free(device: torch.device) -> int:
    """Bytes that can be had on a GPU; what torch keeps for later is among them."""
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + kept


def _ram() -> int:
    """Bytes of the machine or of its container, divided by the processes that torchrun started."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        whole = USUAL_RAM
    with suppress(OSError, ValueError):  # there is no container, or it has no bound
        whole = min(whole, int(CONTAINER.read_text()))
    return whole // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def too_large(what: str, need: float, memory: int, *, otherwise: str = "") -> TooLargeError:
    """A refusal that names the amount that would do.

    Args:
        what: needs too much, with its verb.
        need: bytes.
        memory: the bound.
        otherwise: what else would do.
    """
    total = math.ceil(need / 2**20)
    return TooLargeError(
        f"{what} {total:,} MiB, more than the memory of {memory / 2**20:,.0f} MiB",
        f'memory="{total}MiB" or more{otherwise}',
    )


#: Bytes of the responses of a block of nodes: larger blocks are no faster.
AT_ONCE = {"cpu": 2**26, "cuda": 2**32}
#: Tensors of a layer's size that are held on the way through it.
AT_A_BEND, AT_A_STEP = 8, 4
#: Bytes for what is computed some rows at a time: points of a softmax, tangents, gains.
SMALL_WORK = {"cpu": 3 * 2**23, "cuda": 3 * 2**27}


def room_beside(edges: int, memory: int) -> int:
    """Bytes that are left for the work beside what is kept of so many links.

    Raises:
        OptionError: the links alone need more.
    """
    need = WHILE_PREPARED * edges + LEAST_ROOM
    if memory < need:
        raise OptionError(
            f"{edges:,} links need more than the memory of {memory / 2**20:,.0f} MiB",
            f'memory="{math.ceil(need / 2**20)}MiB", or more',
        )
    return memory - BYTES_PER_LINK * edges


@dataclass(frozen=True, eq=False)
class RoomForPasses:
    """What of a graph and of its masks fits in the memory at once."""

    question: Question

    @property
    def tall(self) -> bool:
        """Whether the graph is to be worked on in blocks of nodes."""
        return len(self._x) > self._rows(self.question.room)

    def in_blocks(self, x: Gaussian) -> ByRows:
        """The features, some rows at a time."""
        room = self.question.room
        # A third of the memory for values that are needed twice; blocks may turn out to be wide.
        return ByRows.of(x, self._rows(room // 16), room=room // 3, limit=room / WHOLE_VALUES)

    def masks_at_once(self, masks: int, widest: int) -> tuple[int, int]:
        """How many batches to run side by side, and how many masks in each.

        Within the memory, and no more than is quick: together masks cost fewer calls, but beyond
        the processor's cache they cost more than that.

        Args:
            masks: numbers in the masks of one pass.
            widest: numbers in the largest tensor behind them.
        """
        if self.tall:
            return 1, 1
        device = self._x.device.type
        numbers = masks + TENSORS_AT_ONCE * widest
        fitting = max(1, self.question.room // (numbers * self._x.element_size()))
        workers = min(torch.get_num_threads(), fitting) if device == "cpu" else 1
        quick = NUMBERS_AT_ONCE.get(device, 2**20) // max(widest, 1)
        return workers, max(1, min(fitting // workers, quick))

    def known(self, out: ByRows) -> Gaussian:
        """An answer as a whole.

        Raises:
            TooLargeError: it does not fit.
        """
        need, question = TENSORS_OF_ANSWER * out.numel() * self._x.element_size(), self.question
        if need > question.room:
            what = f"the answer for {len(self._x):,} nodes needs"
            raise too_large(what, need + question.memory - question.room, question.memory)
        return out.known

    def _rows(self, memory: int) -> int:
        numbers = TENSORS_AT_ONCE * max(self._x.shape[1], USUAL_WIDTH)
        return memory // (numbers * self._x.element_size())

    @property
    def _x(self) -> Tensor:  # [nodes, features]
        return self.question.x.mean


def held_by(tape: Tape) -> int:
    """Bytes of all numbers that a pass has left behind but for the features themselves."""
    given = tape.entries[0].value.mean.untyped_storage().data_ptr()
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in _all(tape)}
    storages.pop(given, None)
    return sum(storages.values())


def _all(tape: Tape) -> Iterator[Tensor]:
    for entry in tape.entries:
        yield from _numbers(entry.value)
        for _, operator in entry.parents:
            yield from operator.numbers
    yield from (noise.added for noise in tape.noises)
    yield from (bend.curvature for bend in tape.bends)
    for product in tape.products:
        yield from product.numbers


def _numbers(value: Gaussian) -> Iterator[Tensor]:
    return (part for part in vars(value).values() if isinstance(part, Tensor))


def of_activations(tape: Tape) -> int:
    """Bytes for what a rule computes on the way, slopes and bends included."""
    widest = max(entry.value.mean.nbytes for entry in tape.entries[1:])
    return widest * (AT_A_BEND if tape.bends else AT_A_STEP)


def of_small_work(question: Question) -> int:
    """Bytes for what is computed some rows at a time."""
    return SMALL_WORK.get(question.x.mean.device.type, SMALL_WORK["cpu"])


def of_answer(nodes: int, output: Gaussian, question: Question) -> int:
    """Bytes of the prediction for so many nodes: mean, its parts, logits."""
    return (3 + len(question.parts)) * nodes * output.mean.shape[1] * output.mean.element_size()


def of_sampled_masks(nodes: int, output: Gaussian, question: Question) -> int:
    """Bytes of the outputs under all masks and of their covariance, where that is asked for."""
    if question.weights != "sampled":
        return 0
    classes = output.mean.shape[1]
    numbers = 4 * question.samples * len(output) + 2 * classes * nodes
    return numbers * classes * output.mean.element_size()


@dataclass(frozen=True)
class Budget:
    """What there is room for beside what is held throughout.

    Args:
        question: what is asked, in how much memory.
        held: bytes that are held throughout, what is made of the links not counted.
    """

    question: Question
    held: float

    def refuse_beyond(
        self, need: float, what: str, *, enough: Callable[[], float] | None = None
    ) -> None:
        """Raises if something needs more than is left.

        Args:
            need: bytes beside those that are held throughout.
            what: what needs them.
            enough: how many would do for all that comes later, asked for where there are too few.
        """
        memory, room = self.question.memory, self.question.room
        if self.held + need > room:
            need = max(need, enough() if enough else 0)
            total = self.held + need + memory - room
            raise too_large(f"{what} need", total, memory, otherwise=', or method="sampled"')

    def blocks(
        self, rows: Tensor, cost: Tensor, *, times: int = 1
    ) -> Iterator[Tensor]:  # [rows], [rows]
        """Blocks of output nodes whose responses fit in what is left.

        Args:
            rows: the nodes.
            cost: bytes for each of them.
            times: by how much blocks may be larger than is quick as a rule.

        Raises:
            TooLargeError: the responses of one node alone do not fit.
        """
        worst = int(cost.argmax())
        self.refuse_beyond(float(cost[worst]), f"the walks that reach node {int(rows[worst])}")
        most = times * AT_ONCE.get(rows.device.type, AT_ONCE["cpu"])
        return blocks_within(rows, cost, min(self.question.room - self.held, most))
