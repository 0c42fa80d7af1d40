"""How long do error bars take? Every contender on real graphs, growth, threads, bounds of memory.

    python benchmarks/speed.py [--device cuda] [--out speed.json] [--parts tables growth ...]
    python benchmarks/speed.py --page docs/speed.md --out speed.json ...   # from stored figures

Figures go to a JSON file, part by part, so that a part can be measured again by itself; the page
is written from them. Needs torch, torch_geometric, numpy and scipy, and the data sets in
$VARIGRAPH_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from speed_page import page

from varigraph.studies.speed.bench import bench, trained_workload
from varigraph.studies.speed.contenders import (
    CSR,
    DIAGONAL,
    FIRST_ORDER_SOME,
    ONE_PASS,
    PLAIN,
    present,
)
from varigraph.studies.speed.results import Machine
from varigraph.studies.speed.trial import Terms, Trial, tried
from varigraph.studies.speed.workload import MILLION, PRODUCTS, Saved, Synthetic

LINKS = (10**4, 10**5, 10**6, 10**7)
GROWING = (PLAIN, CSR, ONE_PASS, DIAGONAL)
BOUNDS = ("256MiB", "1GiB", "4GiB")
SAMPLED = "vg: sampled, T draws"
#: On large graphs; a message for each link does not fit beside them on a processor.
LARGE = {
    "cuda": (PLAIN, CSR, ONE_PASS, DIAGONAL, SAMPLED, FIRST_ORDER_SOME.name),
    "cpu": (CSR, ONE_PASS, DIAGONAL, SAMPLED),
}
LARGE_MEMORY = {"cuda": "40GiB", "cpu": "12GiB"}
LARGE_MASKS = {"cuda": 100, "cpu": 10}
#: Those whose memory is bounded: all that are ours.
BOUNDED = tuple(each.name for each in present() if each.name.startswith("vg"))
Record = dict[str, Any]


def told(*step: object) -> None:
    print(*step, flush=True)


def tables(chosen: argparse.Namespace) -> list[Record]:
    """Time, memory and fidelity of all contenders on each data set."""
    return [
        bench(
            name,
            masks=chosen.masks,
            repeats=chosen.repeats,
            threads=chosen.threads,
            epochs=chosen.epochs,
            device=chosen.device,
            progress=told,
        ).to_dict()
        for name in chosen.data
    ]


def growth(chosen: argparse.Namespace) -> list[Record]:
    """Time and memory on graphs of growing size."""
    terms, found = Terms(3, chosen.threads), []
    for links in LINKS:
        graph = Synthetic(links, device=chosen.device)
        for name in GROWING:
            trial = tried(name, graph, terms)
            row = {"links": links, "name": name, "seconds": trial.seconds, "memory": trial.peak}
            found.append({**row, "problem": trial.problem})
            told(found[-1])
    return found


def threads(chosen: argparse.Namespace) -> list[Record]:
    """The same answer on one thread and on two; largest difference relative to the mean size."""
    found = []
    with TemporaryDirectory() as folder:
        saved = _saved(chosen.data[0], chosen, Path(folder))
        for name in BOUNDED:
            one, two = (tried(name, saved, Terms(0, count)) for count in (1, 2))
            found.append(_differences({"data": chosen.data[0], "name": name}, one, two))
            told(found[-1])
    return found


def bounds(chosen: argparse.Namespace) -> list[Record]:
    """The largest size of a fresh process for each bound, above that before the call."""
    found = []
    for data in [name for name in chosen.data if name != "cora"] or chosen.data:
        with TemporaryDirectory() as folder:
            saved = _saved(data, chosen, Path(folder))
            for memory in BOUNDS:
                for name in BOUNDED:
                    bounded = replace(saved, memory=memory)
                    trial = tried(name, bounded, Terms(0, chosen.threads))
                    row = {"data": data, "name": name, "bound": memory, "memory": trial.peak}
                    found.append({**row, "problem": trial.problem})
                    told(found[-1])
    return found


def large(chosen: argparse.Namespace) -> list[Record]:
    """Time and memory on graphs of a million nodes and of the size of ogbn-products."""
    kind, found = torch.device(chosen.device).type, []
    options = {"device": chosen.device, "masks": LARGE_MASKS[kind], "memory": LARGE_MEMORY[kind]}
    for graph in (MILLION, PRODUCTS):
        for name in LARGE[kind]:
            trial = tried(
                name, replace(graph, **options), Terms(1 if kind == "cpu" else 5, chosen.threads)
            )
            row = {"nodes": graph.nodes, "links": graph.links, "name": name, "masks": trial.masks}
            row |= {"seconds": trial.seconds, "memory": trial.peak, "problem": trial.problem}
            found.append({**row, "bound": LARGE_MEMORY[kind]})
            told(found[-1])
    return found


def agreement(chosen: argparse.Namespace) -> list[Record]:
    """The same answer on the processor and on the GPU."""
    found = []
    with TemporaryDirectory() as folder:
        saved = _saved("computers", chosen, Path(folder))
        cases = [("computers", saved, BOUNDED)]
        cases.append(("a million nodes", replace(MILLION, memory="16GiB"), (ONE_PASS, DIAGONAL)))
        for data, builder, names in cases:
            for name in names:
                pair = [replace(builder, device=device) for device in ("cpu", chosen.device)]
                here, there = (tried(name, one, Terms(0, chosen.threads)) for one in pair)
                found.append(_differences({"data": data, "name": name}, here, there))
                told(found[-1])
    return found


def kernels(chosen: argparse.Namespace) -> list[Record]:
    """Every kernel next to what torch does by itself."""
    from speed_kernels import kernels as measured  # noqa: PLC0415 - needs Triton and a GPU

    return measured()


def _differences(row: Record, here: Trial, there: Trial) -> Record:
    """Largest differences of the logits' moments, relative to the mean size."""
    row["problem"] = here.problem or there.problem
    for value in ("logits", "logits_var"):
        one, two = getattr(here, value), getattr(there, value)
        if one is not None and two is not None:
            row[value] = float(np.abs(one - two).max() / np.abs(one).mean())
    return row


def _saved(data: str, chosen: argparse.Namespace, folder: Path) -> Saved:
    workload = trained_workload(data, masks=chosen.masks, memory="4GiB", epochs=chosen.epochs)
    return Saved.of(workload, folder / f"{data}.pt", device=chosen.device)


PARTS: dict[str, Callable[[argparse.Namespace], list[Record]]] = {
    "tables": tables,
    "growth": growth,
    "threads": threads,
    "bounds": bounds,
    "large": large,
    "agreement": agreement,
    "kernels": kernels,
}
#: The last two compare with a GPU.
ON_CPU = [part for part in PARTS if part not in {"agreement", "kernels"}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, nargs="+", default=[Path("speed.json")])
    parser.add_argument("--page", type=Path, help="write this page from stored figures")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=ON_CPU)
    parser.add_argument("--data", nargs="+", default=["cora", "pubmed", "computers"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--masks", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    chosen = parser.parse_args()
    # Blocks of several sizes would not leave one piece that holds a message for each link.
    os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    if chosen.page:
        chosen.page.write_text(page([json.loads(path.read_text()) for path in chosen.out]))
        return
    (out,) = chosen.out
    for part in chosen.parts:
        known = json.loads(out.read_text()) if out.exists() else {}
        machine = {"machine": str(Machine.here(chosen.device)), "torch_threads": chosen.threads}
        known |= {part: PARTS[part](chosen), **machine}
        out.write_text(json.dumps(known, indent=1))


if __name__ == "__main__":
    main()
