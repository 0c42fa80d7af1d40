"""Calibrators as JSON: numbers come back bit by bit, and no code is ever run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from varigraph.choices import Task
from varigraph.errors import FileError
from varigraph.files import write_json
from varigraph.options import path_of

if TYPE_CHECKING:
    from varigraph.prediction.calibrator import Calibrator

WHAT, FORMAT = "varigraph calibrator", 1
#: What each kind has learned, and how many dimensions that has.
LEARNED = {
    "temperature": {"scale": 0},
    "graph": {"scale": 0, "centre": 1, "width": 1, "slopes": 1, "shift": 1},
    "residual": {"variance": 2},
}
REMEDY = "save it anew: vg.calibrate(...).save(path)"


def write_calibrator(calibrator: Calibrator, path: str | os.PathLike[str]) -> Path:
    """Write a calibrator, whole or not at all.

    Raises:
        FileError: it cannot be written.
    """
    target = path_of("path", path, remedy='path="calibrator.json"')
    learned = {name: values.tolist() for name, values in calibrator.learned.items()}
    named = {"task": calibrator.task, "outputs": calibrator.outputs, "kind": calibrator.kind}
    write_json(target, {"what": WHAT, "format": FORMAT, **named, "learned": learned})
    return target


def read_calibrator(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a calibrator is made of.

    Raises:
        FileError: there is none in the file, it is damaged, or of another version.
    """
    source = path_of("path", path, remedy='path="calibrator.json"')
    try:
        held = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FileError(source, "there is no such file", REMEDY) from error
    except (OSError, ValueError, RecursionError) as error:
        raise FileError(source, f"cannot be read: {error}", REMEDY) from error
    if not isinstance(held, dict) or held.get("what") != WHAT:
        raise FileError(source, "does not hold a calibrator", REMEDY)
    if held.get("format") != FORMAT:
        raise FileError(
            source,
            f"has format {held.get('format')!r}, and this version reads {FORMAT}",
            "use the version that wrote it, or save it anew",
        )
    try:
        return _checked(held)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileError(source, f"is damaged: {error}", REMEDY) from error


def _checked(held: dict[str, Any]) -> dict[str, Any]:
    task, outputs, kind = held["task"], held["outputs"], held["kind"]
    if task not in get_args(Task) or kind not in LEARNED or not isinstance(outputs, int):
        raise ValueError(f"task {task!r}, kind {kind!r} and {outputs!r} outputs")
    wanted = LEARNED[kind]
    learned = {name: _tensor(held["learned"][name], name, wanted[name]) for name in wanted}
    if kind == "residual" and learned["variance"].shape != (outputs, 2):
        raise ValueError(f"variance has shape {tuple(learned['variance'].shape)}")
    return {"task": task, "outputs": outputs, "kind": kind, "learned": learned}


def _tensor(values: Any, name: str, dimensions: int) -> Tensor:
    found = torch.tensor(values, dtype=torch.float64)
    if found.dim() != dimensions or not bool(found.isfinite().all()):
        raise ValueError(f"{name} is not made of {dimensions} dimensions of numbers")
    return found
