"""An answer in parts: a file for each part of the graph, read as one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from varigraph.choices import Task
from varigraph.distributed.large_graph import Array
from varigraph.distributed.parts import Numbers, Partition
from varigraph.errors import FileError
from varigraph.files import replacing, write_json
from varigraph.files.fingerprint import fingerprint
from varigraph.moments import Gaussian
from varigraph.prediction.prediction import Prediction

ANSWER, VERSION = "answer.json", 1
#: Variances stand under the names of their sources, behind this.
VARIANCE = "var."
WHOLE = slice(None)
AGAIN = "predict again: varigraph predict --partition"


@dataclass(frozen=True)
class PartedAnswer:
    """An answer on disk, and what it took.

    Attributes:
        folder: where it is.
        nodes: how many it is about.
        parts: number of its files.
        method: how it was computed.
        exchanges: how often this process asked others for rows.
        rows_sent: rows that this process has sent to others in all.
        bytes_sent: bytes of them.
    """

    folder: Path
    nodes: int
    parts: int
    method: str
    exchanges: int = 0
    rows_sent: int = 0
    bytes_sent: int = 0

    def load(self) -> Prediction:
        """The answer for all nodes, in memory."""
        return read_answer(self.folder)


def file_of(folder: Path, part: int) -> Path:
    """Where the answer for a part is."""
    return folder / f"answer-{part:05d}.npz"


def is_answer_of(folder: Path, run: str) -> bool:
    """Whether there is the whole answer of a run already."""
    try:
        return bool(_about(folder).get("run") == run)
    except FileError:
        return False


def write_part(
    folder: Path, part: int, nodes: Numbers, answer: Prediction, rows: Numbers | slice = WHOLE
) -> None:
    """Write the answer for the nodes of one part.

    Args:
        folder: of the whole answer.
        part: number of the part.
        nodes: numbers of its nodes in the whole graph, ``[nodes]``.
        answer: which holds theirs.
        rows: where, ``[nodes]``.
    """
    tensors = {
        "mean": answer.mean,
        "logits_mean": answer.logits.mean,
        "logits_var": answer.logits.var,
        **{VARIANCE + source: var for source, var in answer.by_source.items()},
    }
    if answer.plain is not None:
        tensors["plain"] = answer.plain
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(file_of(folder, part)) as stream:
        arrays: dict[str, Any] = {name: t.numpy()[rows] for name, t in tensors.items()}
        np.savez(stream, node=nodes, **arrays)


def write_about(folder: Path, whole: Partition, answer: Prediction, run: str) -> None:
    """Write down what the parts belong to, and which run they are of, once all are there."""
    about = {
        "version": VERSION,
        "graph": whole.fingerprint,
        "run": run,
        "nodes": whole.nodes,
        "parts": whole.parts,
        "method": answer.method,
        "samples": answer.samples,
        "task": answer.task,
        "sources": list(answer.by_source),
    }
    write_json(folder / ANSWER, {**about, "fingerprint": fingerprint(about)})


def read_answer(folder: Path | str) -> Prediction:
    """An answer that was written in parts, as one.

    Args:
        folder: that :func:`~varigraph.distributed.predict` has written.

    Raises:
        FileError: it is not whole.
    """
    about = _about(Path(folder))
    found: dict[str, Array] = {}
    seen = np.zeros(about["nodes"], dtype=bool)
    for part in range(about["parts"]):
        for name, values in _part(file_of(Path(folder), part), about, seen).items():
            if name not in found:
                found[name] = np.empty((about["nodes"], *values.shape[1:]), dtype=values.dtype)
    if not seen.all():
        raise FileError(folder, f"has no answer for node {int(seen.argmin())}", AGAIN)
    for part in range(about["parts"]):
        with np.load(file_of(Path(folder), part), allow_pickle=False) as held:
            for name, values in found.items():
                values[held["node"]] = held[name]
    tensors = {name: torch.from_numpy(values) for name, values in found.items()}
    return Prediction(
        mean=tensors["mean"],
        by_source={source: tensors[VARIANCE + source] for source in about["sources"]},
        logits=Gaussian(tensors["logits_mean"], tensors["logits_var"]),
        method=about["method"],
        samples=about["samples"],
        task=cast(Task, about["task"]),
        plain=tensors.get("plain"),
    )


def _about(folder: Path) -> dict[str, Any]:
    path = folder / ANSWER
    try:
        about: dict[str, Any] = json.loads(path.read_text())
        said = about.pop("fingerprint")
    except (OSError, ValueError, KeyError, AttributeError):
        raise FileError(path, "is missing or damaged: there is no whole answer", AGAIN) from None
    if said != fingerprint(about) or about["version"] != VERSION:
        raise FileError(path, "is damaged, or of another version", AGAIN)
    return about


def _part(file: Path, about: Mapping[str, Any], seen: Array) -> dict[str, Array]:
    """What is in a file, and that its nodes have not been seen before."""
    try:
        with np.load(file, allow_pickle=False) as held:
            found = {name: held[name] for name in held.files}
        nodes = found.pop("node")
    except (OSError, ValueError, KeyError):
        raise FileError(file, "is missing or damaged", AGAIN) from None
    if (nodes >= about["nodes"]).any() or seen[nodes].any():
        raise FileError(file, "is of another answer", AGAIN)
    seen[nodes] = True
    return found
