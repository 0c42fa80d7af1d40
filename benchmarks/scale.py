"""What a graph in parts costs: rows, bytes, memory and processor time, by parts and processes.

    python benchmarks/scale.py rows                       # rows exchanged, by parts
    python benchmarks/scale.py work --nodes 1000000 --links 10000000

rows   nodes whose rows travel before a layer, for links whose ends follow a power law, dealt by
       hash and by range; beside them what the degrees foretell for a hash,
       sum over nodes of (P - 1) (1 - (1 - 1/P)^d)
work   sampled draws of a GraphSAGE of two layers: the parts of a graph of such links by one process
       in turn, by two and by four processes at once, and one part by one process. Of each process
       the processor time, the memory at its peak above what an idle one has, and the bytes sent,
       beside those that the parts foretell
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.nn import GraphSAGE

from varigraph.distributed import partition, predict, sampling
from varigraph.distributed.parts import Partition

Numbers = npt.NDArray[np.int64]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["varigraph.distributed", "torch_geometric.nn"])
#: Chance that a link has an end in node k goes as k to the power of -1 / (EXPONENT - 1).
EXPONENT = 2.5
FEATURES, HIDDEN, CLASSES, BYTES = 32, 32, 8, 4


def power_law(nodes: int, links: int, seed: int = 0) -> Numbers:  # -> [2, links]
    """Links whose ends are nodes by a power law; numbers say nothing about degrees."""
    chosen = np.random.default_rng(seed)
    rank = (nodes * chosen.random((2, links)) ** ((EXPONENT - 1) / (EXPONENT - 2))).astype(np.int64)
    return chosen.permutation(nodes)[rank]


def rows(nodes: int, links: int) -> None:
    """Print rows that travel, by the number of parts."""
    source, target = power_law(nodes, links)
    leaving = np.bincount(source, minlength=nodes)
    print(f"{nodes:,} nodes, {links:,} links, the largest out-degree {leaving.max():,}")
    print(f"{'parts':>6} {'rows by hash':>14} {'foretold':>14} {'a node':>8} {'by range':>14}")
    for parts in (2, 4, 8, 16, 64, 512):
        owners = [np.random.default_rng(parts).integers(parts, size=nodes),
                  np.arange(nodes) * parts // nodes]  # fmt: skip
        found = []
        for owner in owners:
            apart = owner[source] != owner[target]
            pairs = source[apart] * parts + owner[target[apart]]
            pairs.sort()
            found.append(int((np.diff(pairs, prepend=-1) != 0).sum()))
        told = float(((parts - 1) * -np.expm1(leaving * np.log1p(-1 / parts))).sum())
        print(f"{parts:>6} {found[0]:>14,} {told:>14,.0f} {found[0] / nodes:>8.2f} {found[1]:>14,}")


def _peak() -> int:
    """Bytes of memory of this process at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def answer(
    rank: int, count: int, port: int, folder: Path, out: Path, draws: int, pipe: Connection
) -> None:
    """What one process does; it sends what that took."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")  # fmt: skip
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sampling.ON_DISK = 2**31
    model = GraphSAGE(FEATURES, HIDDEN, num_layers=2, out_channels=CLASSES, dropout=0.2)
    before, begun, clock = _peak(), time.process_time(), time.monotonic()
    made = predict(model, folder, out, samples=draws, memory="4GiB")
    pipe.send({"cpu": time.process_time() - begun, "wall": time.monotonic() - clock,
               "peak": _peak() - before, "bytes": made.bytes_sent})  # fmt: skip


def measured(count: int, folder: Path, out: Path, draws: int) -> list[dict[str, Any]]:
    """What each of so many processes took."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    pipes = []
    for rank in range(count):
        ours, theirs = CONTEXT.Pipe(duplex=False)
        given = (rank, count, port, folder, out, draws, theirs)
        CONTEXT.Process(target=answer, args=given, daemon=True).start()
        theirs.close()
        pipes.append(ours)
    return [pipe.recv() for pipe in pipes]


def foretold(whole: Partition, count: int, draws: int) -> int:
    """Bytes that all processes send: the hidden rows, once for each draw and the plain run."""
    process = [part * count // whole.parts for part in range(whole.parts)]
    far = {part: whole.open(part).far_counts for part in range(whole.parts)}
    rows = sum(far[to][part] for to in far for part in far if process[to] != process[part])
    runs = 1 + max(2, -(-draws // 4)) * 4  # draws in groups of four
    return rows * runs * HIDDEN * BYTES


def work(nodes: int, links: int, draws: int, processes: list[str]) -> None:
    """Print what parts take, by processes."""
    chosen = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "x.npy", chosen.standard_normal((nodes, FEATURES), dtype=np.float32))
        np.save(folder / "edge_index.npy", power_law(nodes, links))
        np.save(folder / "edge_prob.npy", np.full(links, 0.9, dtype=np.float32))
        np.save(folder / "x_var.npy", np.float32(0.1))
        fields = [folder / f"{field}.npy" for field in ("x", "edge_index", "edge_prob", "x_var")]
        for each in processes:
            count, parts = map(int, each.split("/"))
            cut = folder / f"{parts} parts"
            if not cut.exists():
                begun = time.process_time()
                partition(fields, cut, parts=parts, by="hash")
                size = sum(file.stat().st_size for file in cut.rglob("*.npy"))
                took = time.process_time() - begun
                print(f"{parts} parts: {took:.0f} s of processor time, {size / 2**20:,.0f} MiB")
            whole = Partition.read(cut)
            found = measured(count, cut, folder / each.replace("/", " of "), draws)
            sent = sum(one["bytes"] for one in found)
            cpu, peak = max(one["cpu"] for one in found), max(one["peak"] for one in found)
            print(
                f"{count} processes on {parts} parts: processor {cpu:7.1f} s, "
                f"clock {max(one['wall'] for one in found):7.1f} s, peak {peak / 2**20:7,.0f} MiB, "
                f"sent {sent:,} bytes, foretold {foretold(whole, count, draws):,}",
                flush=True,
            )


def main() -> None:
    """Measure one thing."""
    asked = argparse.ArgumentParser(description="What a graph in parts costs.")
    asked.add_argument("what", choices=["rows", "work"])
    asked.add_argument("--nodes", type=int, default=1_000_000)
    asked.add_argument("--links", type=int, default=10_000_000)
    asked.add_argument("--draws", type=int, default=8)
    asked.add_argument("--processes", nargs="+", default=["1/1", "2/2", "1/4", "2/4", "4/4"],
                       help="processes/parts")  # fmt: skip
    given = asked.parse_args()
    if given.what == "rows":
        rows(given.nodes, given.links)
    else:
        work(given.nodes, given.links, given.draws, given.processes)


if __name__ == "__main__":
    main()
