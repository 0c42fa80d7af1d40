"""How much memory the work on a question needs, known before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from varigraph.moments.chunks import blocks_within
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.tape import Tape
from varigraph.prediction.memory import too_large
from varigraph.prediction.question import Question
from varigraph.prediction.sources.source import all_parts

#: Bytes of the responses of a block of nodes: larger blocks are no faster.
AT_ONCE = 2**26
#: Tensors of a layer's size that are held on the way through it.
AT_A_BEND, AT_A_STEP = 8, 4
#: Bytes for what is computed some rows at a time: points of a softmax, tangents, gains.
SMALL_WORK = 3 * 2**23


def held_by(tape: Tape) -> int:
    """Bytes of all numbers that a pass has left behind, the features themselves not counted."""
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


def _numbers(value: Gaussian) -> Iterator[Tensor]:
    return (part for part in vars(value).values() if isinstance(part, Tensor))


def of_activations(tape: Tape) -> int:
    """Bytes for what a rule computes on the way, slopes and bends included."""
    widest = max(entry.value.mean.nbytes for entry in tape.entries[1:])
    return widest * (AT_A_BEND if tape.bends else AT_A_STEP)


def of_answer(nodes: int, output: Gaussian) -> int:
    """Bytes of the prediction for so many nodes: mean, its parts, logits."""
    return (3 + len(all_parts())) * nodes * output.mean.shape[1] * output.mean.element_size()


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

    def blocks(self, rows: Tensor, cost: Tensor) -> Iterator[Tensor]:  # [rows], [rows]
        """Blocks of output nodes whose responses fit in what is left.

        Raises:
            TooLargeError: the responses of one node alone do not fit.
        """
        worst = int(cost.argmax())
        self.refuse_beyond(float(cost[worst]), f"the walks that reach node {int(rows[worst])}")
        return blocks_within(rows, cost, min(self.question.room - self.held, AT_ONCE))
