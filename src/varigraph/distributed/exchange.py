"""Processes that work on one graph: how they start, agree, and hand rows to each other."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import count

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from varigraph.distributed.share import Share
from varigraph.errors import ProcessError
from varigraph.files.fingerprint import fingerprint

#: How long one process waits for another; one that has ended is noticed at once.
PATIENCE = timedelta(minutes=10)
#: Seconds for the others to say that they are alive, once one of them is not.
GRACE = 5.0
SEE = "see what it says itself; then start all processes again: what is done is not done twice"
NOTICED, FAILED = "noticed", "failed"


@dataclass
class Sent:
    """What a process has sent to others.

    Attributes:
        times: how often rows were exchanged.
        rows: how many were sent in all.
        bytes: how much that was.
    """

    times: int = 0
    rows: int = 0
    bytes: int = 0

    def count(self, packed: Tensor) -> None:  # [rows, columns]
        """One more exchange, of these rows."""
        self.times, self.rows, self.bytes = (
            self.times + 1,
            self.rows + len(packed),
            self.bytes + packed.nbytes,
        )


@dataclass(frozen=True)
class Processes:
    """The processes of one run.

    Args:
        rank: number of this one.
        count: how many there are.
        board: where each can write what all others read, whatever state it is in; None where
            nothing is known but the group.
    """

    rank: int
    count: int
    board: Store | None = None

    def agree(self, what: object, error: Exception | None = None) -> None:
        """Wait for all, and go on only if none has failed and all mean the same.

        Args:
            what: this process is about to do, as JSON can hold it.
            error: what went wrong here, which is raised; others name this process.

        Raises:
            ProcessError: another process has failed, or is about to do something else.
        """
        failed = self.largest(0 if error is None else self.count - self.rank)
        if error is not None:
            raise error
        if failed > 0:
            raise ProcessError(f"{self._called(self.count - failed)} cannot go on", SEE)
        meant = int(fingerprint(what)[:15], 16)
        if self.largest(meant) != -self.largest(-meant):
            raise ProcessError(
                "the processes were not started alike: graphs, options or weights differ",
                "give all of them the same folder, options and weights; a network that starts "
                "from random weights needs a seed",
            )

    def largest(self, value: int) -> int:
        """The largest of the values that the processes have."""
        found = torch.tensor([value], dtype=torch.int64)
        if self.count > 1:
            with self.answering():
                dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return int(found)

    def exchanged(
        self, packed: Tensor, incoming: list[int], outgoing: list[int], sent: Sent
    ) -> Tensor:  # [sent, columns] -> [arrived, columns]
        """Rows for each process in turn, for those that each has for this one.

        Args:
            packed: rows for the first process first.
            incoming: how many come from each.
            outgoing: how many go to each.
            sent: counts them.
        """
        arrived = packed.new_empty(sum(incoming), packed.shape[1])
        with self.answering():
            dist.all_to_all_single(arrived, packed.contiguous(), incoming, outgoing)
        sent.count(packed)
        return arrived

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Within it, an error of torch means that another process does not answer."""
        try:
            yield
        except RuntimeError as error:
            raise ProcessError(self._who_is_gone(), SEE) from error

    def told(self, error: Exception) -> None:
        """Have all others know that this process has failed, if they can still be told."""
        if self.board is not None and not isinstance(error, ProcessError):
            with suppress(RuntimeError):
                self.board.set(str(self.rank), FAILED)

    def _called(self, rank: int) -> str:
        return f"process {rank} of {self.count}"

    def _who_is_gone(self) -> str:
        """A process that has not noticed what all others have is the one that has ended."""
        late = f"or has not answered for {PATIENCE.total_seconds() / 60:.0f} minutes"
        if self.board is None:
            return f"another process has ended, {late}"
        others = [rank for rank in range(self.count) if rank != self.rank]
        silent, end = [0], time.monotonic() + GRACE
        with suppress(RuntimeError):  # the board goes with the process that keeps it, the first
            self.board.set(str(self.rank), NOTICED)
            while True:
                said = [rank for rank in others if self.board.check([str(rank)])]
                silent = [rank for rank in others if rank not in said]
                failed = [rank for rank in said if self.board.get(str(rank)).decode() == FAILED]
                if failed:
                    return f"{self._called(failed[0])} cannot go on"
                if not silent or time.monotonic() > end:
                    break
                time.sleep(GRACE / 50)
        names = ", ".join(map(self._called, silent)) or "another process"
        return f"{names} has ended, {late}"


_groups = count()


@cache
def _meeting_place() -> tuple[Store, int, int]:
    """Where the processes of torchrun find each other, the number of this one, and how many.

    It stays open as long as the process lives. Were it closed with a group and opened again for
    the next, a process that is quick would meet the others of the last group there, and wait.
    """
    store, rank, processes = next(iter(rendezvous("env://", timeout=PATIENCE)))
    return store, rank, processes


@contextmanager
def joined() -> Iterator[Processes]:
    """The processes that torchrun has started, or that share a group already; else this one alone.

    A group that is made here ends with the block, however it ends: others notice at once.
    """
    if dist.is_initialized():
        yield Processes(dist.get_rank(), dist.get_world_size())
    elif "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield Processes(0, 1)
    else:
        with Processes(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])).answering():
            store, rank, processes = _meeting_place()
            own = PrefixStore(f"varigraph/{next(_groups)}", store)
            dist.init_process_group(
                "gloo", store=own, rank=rank, world_size=processes, timeout=PATIENCE
            )
        found = Processes(rank, processes, PrefixStore("board", own))
        try:
            yield found
        except Exception as error:
            found.told(error)
            raise
        finally:
            dist.destroy_process_group()


class OthersRows(ABC):
    """Rows of other processes' nodes in the place of what was made of the copies here.

    All columns of all values travel together.

    Args:
        share: what is worked on.
    """

    def __init__(self, share: Share) -> None:
        self._own, self._known, self._sent = len(share.own), share.known, share.sent

    def refreshed(self, values: Sequence[Tensor]) -> list[Tensor]:  # [rows, ...] each
        """The same values, with the rows of others' nodes as their owners have them."""
        packed = torch.cat([value[self._sent].flatten(1) for value in map(_matrix, values)], 1)
        arrived = self.arrived(packed)
        columns = arrived.split([_matrix(value)[0].numel() for value in values], dim=1)
        return [self._with(value, far) for value, far in zip(values, columns, strict=True)]

    @abstractmethod
    def arrived(self, packed: Tensor) -> Tensor:  # [sent, columns] -> [far, columns]
        """What others hand over for own rows that they ask for."""

    def begins_layer(self) -> bool:
        """A message-passing layer is about to run; whether its result is known without that."""
        return False

    @property
    def _far(self) -> int:
        return self._known - self._own

    def _with(self, value: Tensor, far: Tensor) -> Tensor:
        found = value.clone(memory_format=torch.contiguous_format)
        found[self._own : self._known] = far.reshape(-1, *value.shape[1:])
        return found


class Exchange(OthersRows):
    """Hands the rows of own nodes to the processes that look at them, and takes theirs.

    Args:
        share: what this process works on.
        processes: all of them.
        sent: counts what is sent.
    """

    def __init__(self, share: Share, processes: Processes, sent: Sent) -> None:
        super().__init__(share)
        self._processes, self._counter = processes, sent
        self._counts = share.far_counts, share.sent_counts
        self._alone = share.processes == 1

    def refreshed(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The same values, with the rows of others' nodes as their owners have them."""
        return list(values) if self._alone else super().refreshed(values)

    def arrived(self, packed: Tensor) -> Tensor:  # [sent, columns] -> [far, columns]
        """One message to each process, one from each."""
        incoming, outgoing = self._counts
        return self._processes.exchanged(packed, incoming, outgoing, self._counter)


class Nobody(OthersRows):
    """Stands in where only the steps of a network matter: all rows of others hold the same."""

    def arrived(self, packed: Tensor) -> Tensor:  # [sent, columns] -> [far, columns]
        """Ones: no degree and no variance is 0."""
        return packed.new_ones(self._far, packed.shape[1])


def _matrix(value: Tensor) -> Tensor:
    return value[:, None] if value.dim() == 1 else value
