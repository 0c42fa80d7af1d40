"""Processes that work on one graph: how they start, agree, and hand rows to each other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from varigraph.distributed.share import Share
from varigraph.errors import ProcessError
from varigraph.files.fingerprint import fingerprint

#: How long one process waits for another; one that has ended is noticed at once.
PATIENCE = timedelta(minutes=10)
SEE = "see what it says itself; then start again with all processes: torchrun --nproc-per-node"


@dataclass(frozen=True)
class Processes:
    """The processes of one run.

    Args:
        rank: number of this one.
        count: how many there are.
    """

    rank: int
    count: int

    def agree(self, what: object, error: Exception | None = None) -> None:
        """Wait for all, and go on only if none has failed and all mean the same.

        Args:
            what: this process is about to do, as JSON can hold it.
            error: what went wrong here, which is raised; others name this process.

        Raises:
            ProcessError: another process has failed, or is about to do something else.
        """
        failed = self._largest(0 if error is None else self.count - self.rank)
        if error is not None:
            raise error
        if failed > 0:
            number = self.count - failed
            raise ProcessError(f"process {number} of {self.count} cannot go on", SEE)
        meant = int(fingerprint(what)[:15], 16)
        if self._largest(meant) != -self._largest(-meant):
            raise ProcessError(
                "the processes were not started alike: graphs, options or weights differ",
                "give all of them the same folder, options and weights; a network that starts "
                "from random weights needs a seed",
            )

    def _largest(self, value: int) -> int:
        found = torch.tensor([value], dtype=torch.int64)
        if self.count > 1:
            with _answered():
                dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return int(found)


@contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise ProcessError(
            "another process has ended, or has not answered for "
            f"{PATIENCE.total_seconds() / 60:.0f} minutes",
            SEE,
        ) from error


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
        with _answered():
            dist.init_process_group("gloo", timeout=PATIENCE)
        try:
            yield Processes(dist.get_rank(), dist.get_world_size())
        finally:
            dist.destroy_process_group()


class Exchange:
    """Hands the rows of own nodes to the processes that look at them, and takes theirs.

    Args:
        share: what this process works on.

    Attributes:
        times: how often rows were exchanged.
        rows: how many were sent in all.
        bytes: how much was sent in all.
    """

    def __init__(self, share: Share) -> None:
        self._own, self._known = len(share.own), share.known
        self._sent, self._counts = share.sent, (share.far_counts, share.sent_counts)
        self._alone = share.processes == 1
        self.times = self.rows = self.bytes = 0

    def refreshed(self, values: Sequence[Tensor]) -> list[Tensor]:  # [rows, ...] each
        """The same values, with the rows of other processes' nodes as these have them.

        All columns of all values travel together: one message to each process.
        """
        if self._alone:
            return list(values)
        packed = torch.cat([value[self._sent].flatten(1) for value in map(_matrix, values)], 1)
        arrived = packed.new_empty(self._known - self._own, packed.shape[1])
        incoming, outgoing = self._counts
        with _answered():
            dist.all_to_all_single(arrived, packed.contiguous(), incoming, outgoing)
        self.times, self.rows = self.times + 1, self.rows + len(packed)
        self.bytes += packed.nbytes
        columns = arrived.split([_matrix(value)[0].numel() for value in values], dim=1)
        return [self._with(value, far) for value, far in zip(values, columns, strict=True)]

    def _with(self, value: Tensor, far: Tensor) -> Tensor:
        found = value.clone(memory_format=torch.contiguous_format)
        found[self._own : self._known] = far.reshape(-1, *value.shape[1:])
        return found


def _matrix(value: Tensor) -> Tensor:
    return value[:, None] if value.dim() == 1 else value
