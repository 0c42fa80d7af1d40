"""Cells of a benchmark, measured in processes side by side; what is finished is kept in a file.

A cell is a tuple of texts and numbers, what is measured of it a dictionary that JSON has. A run
that was broken off goes on with the cells that its file lacks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

Cell = tuple[Any, ...]
Measured = dict[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1, help="with one thread each")
    parser.add_argument("--kept", type=Path, default=None, help="file of finished cells")


def measured(
    measure: Callable[[Cell, argparse.Namespace], Measured],
    cells: Iterable[Cell],
    options: argparse.Namespace,
) -> dict[Cell, Measured]:
    """What is measured of each cell, in the order of the cells.

    Args:
        measure: a function of a module, which processes can find by its name.
        cells: what to measure.
        options: of the command line, with those of :func:`add_options`.
    """
    cells = list(cells)
    found = _kept(options.kept)
    missing = [cell for cell in cells if cell not in found]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        options.processes, context, initializer=torch.set_num_threads, initargs=(1,)
    ) as processes:
        running = {processes.submit(measure, cell, options): cell for cell in missing}
        for future in as_completed(running):
            cell = running[future]
            if future.exception() is not None:
                print(*cell, "failed:", repr(future.exception()), file=sys.stderr, flush=True)
                continue
            found[cell] = future.result()
            if options.kept is not None:
                with options.kept.open("a") as file:
                    print(json.dumps([cell, found[cell]]), file=file)
    return {cell: found[cell] for cell in cells if cell in found}


def _kept(path: Path | None) -> dict[Cell, Measured]:
    if path is None or not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return {tuple(cell): each for cell, each in map(json.loads, lines)}


def mean_and_error(values: torch.Tensor, digits: int = 4) -> str:  # [runs]
    """``mean ± standard error``."""
    error = values.std() / len(values) ** 0.5
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"
