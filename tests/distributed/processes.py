"""Several processes on this machine that speak to each other, as torchrun would start them."""

import itertools
import multiprocessing
import os
import socket
import traceback
from contextlib import suppress

import torch

CONTEXT = multiprocessing.get_context("forkserver")
#: Imported once, and shared by all processes that are started after.
CONTEXT.set_forkserver_preload(["varigraph.distributed", "torch_geometric.nn"])
#: Seconds until a process that has not ended is taken to hang.
PATIENCE = 300
#: Ports below those that a system gives to connections of its own.
LOWEST, PORTS = 20_000, 10_000
_asked = itertools.count()


def free_port():
    """A port that no test beside this one takes: each process begins elsewhere, and goes on."""
    while True:
        port = LOWEST + (37 * os.getpid() + next(_asked)) % PORTS
        with socket.socket() as listening, suppress(OSError):
            listening.bind(("127.0.0.1", port))
            return port


def _work(rank, count, port, function, args, pipe):
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(count),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        GLOO_SOCKET_IFNAME="lo",
    )
    torch.set_num_threads(1)
    try:
        pipe.send(function(*args))
    except Exception as error:
        pipe.send((type(error).__name__, str(error), traceback.format_exc()))


def in_processes(count, function, *args):
    """What a function returns in each of so many processes, or its error; None if it died."""
    port, started = free_port(), []
    for rank in range(count):
        ours, theirs = CONTEXT.Pipe(duplex=False)
        given = (rank, count, port, function, args, theirs)
        process = CONTEXT.Process(target=_work, args=given, daemon=True)
        process.start()
        theirs.close()
        started.append((process, ours))
    found = []
    for process, pipe in started:
        try:
            found.append(pipe.recv() if pipe.poll(PATIENCE) else "hangs")
        except EOFError:
            found.append(None)
        process.join(5)
        if process.is_alive():
            process.kill()
    return found
