"""Runs on a graph in parts that are killed at random and started again: do they say the same?

    python benchmarks/killed.py                  # 20 times, two processes
    python benchmarks/killed.py --times 5 --seed 3

Each time one of two processes is ended by SIGKILL, after a time drawn evenly from how long a run
takes that nobody disturbs. The other has a minute to end by itself; what it says is to name the one
that has died. Both are then started again on what is left, and the answer is compared bit by bit.

own part      two parts, sampled: rows travel while the network runs
in turn       four parts, sampled: each process has two, and rows wait on the disk
walks         four parts, first-order
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import socket
import tempfile
import time
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from varigraph.distributed import exchange, partition, predict, read_answer, sampling
from varigraph.errors import VarigraphError

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["varigraph.distributed", "torch_geometric.nn"])
NODES, LINKS, SAMPLES, MINUTE, PROCESSES = 1_000, 5_000, 48, 60.0, 2
#: The quickest of so many runs tells how long a run takes.
TRIALS = 3
#: Parts and method, by name.
WAYS = {"own part": (2, "sampled"), "in turn": (4, "sampled"), "walks": (4, "first-order")}


def graph() -> Data:
    """Links at random, with noise in the features and chances."""
    generator = torch.Generator().manual_seed(0)
    links = torch.randint(NODES, (2, LINKS), generator=generator)
    links = links[:, links[0] != links[1]].unique(dim=1)
    chance = torch.full((links.shape[1],), 0.9)
    return Data(torch.randn(NODES, 16, generator=generator), links, x_var=0.1, edge_prob=chance)


def answer(rank: int, port: int, folder: Path, out: Path, method: str, pipe: Connection) -> None:
    """What one process does; it sends what it was told."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(PROCESSES), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")  # fmt: skip
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sampling.EVERY, sampling.ON_DISK, exchange.GRACE = 0, 1, 2
    model = GraphSAGE(16, 16, num_layers=3, out_channels=4, dropout=0.2)
    try:
        predict(model, folder, out, method=method, samples=SAMPLES)  # type: ignore[arg-type]
        pipe.send("done")
    except VarigraphError as error:
        pipe.send(str(error).splitlines()[0])


class Started(NamedTuple):
    """A process and what it says."""

    process: ForkServerProcess
    pipe: Connection

    def said(self, patience: float = 10 * MINUTE) -> str:
        """That, once it has ended; nothing if it was killed."""
        try:
            return str(self.pipe.recv()) if self.pipe.poll(patience) else "HANGS"
        except EOFError:
            return "killed"


def started(folder: Path, out: Path, method: str) -> list[Started]:
    """All processes of a run."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    found = []
    for rank in range(PROCESSES):
        ours, theirs = CONTEXT.Pipe(duplex=False)
        given = (rank, port, folder, out, method, theirs)
        process = CONTEXT.Process(target=answer, args=given, daemon=True)
        process.start()
        theirs.close()
        found.append(Started(process, ours))
    return found


def undisturbed(folder: Path, way: str, method: str, number: int) -> float:
    """Seconds that a run takes which nobody kills."""
    begun = time.monotonic()
    run = started(folder / way, folder / f"{way} right {number}", method)
    said = [each.said() for each in run]
    assert said == ["done"] * PROCESSES, said
    return time.monotonic() - begun


def figures(out: Path) -> list[Tensor]:
    """All numbers of an answer."""
    found = read_answer(out)
    return [found.mean, found.logits.mean, found.logits.var, *found.by_source.values()]


def main() -> None:
    """Kill, start again and compare."""
    asked = argparse.ArgumentParser(description="Runs that are killed and started again.")
    asked.add_argument("--times", type=int, default=20)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    chosen, failed = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder, right, takes = Path(name), dict[str, list[Tensor]](), dict[str, float]()
        for way, (parts, method) in WAYS.items():
            partition(graph(), folder / way, parts=parts, by="hash")
            takes[way] = min(undisturbed(folder, way, method, number) for number in range(TRIALS))
            right[way] = figures(folder / f"{way} right 0")
        for number in range(given.times):
            way = list(WAYS)[number % len(WAYS)]
            out, method = folder / f"{number}", WAYS[way][1]
            run, killed = started(folder / way, out, method), chosen.randrange(PROCESSES)
            late = chosen.random() * takes[way]
            time.sleep(late)
            run[killed].process.kill()
            at = time.monotonic()
            told = run[1 - killed].said(MINUTE)
            took, was = time.monotonic() - at, run[killed].said()
            again = [each.said() for each in started(folder / way, out, method)]
            same = again == ["done"] * PROCESSES and all(map(torch.equal, figures(out), right[way]))
            named = told == "done" or f"process {killed} of {PROCESSES} has ended" in told
            failed += not (same and named)
            print(
                f"{number:2} {way:8} process {killed} after {late:5.1f} of {takes[way]:5.1f} s: "
                f"{was}; the other within {took:4.1f} s: {told[:60]}; "
                f"again: {'same' if same else f'NOT THE SAME {again}'}",
                flush=True,
            )
    print(f"{given.times - failed} of {given.times} went on to the same answer")


if __name__ == "__main__":
    main()
