"""Calibrators as JSON: numbers come back bit by bit, and no code is ever run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from varigraph.choices import Task
from varigraph.errors import FileError
from varigraph.files import write_json
from varigraph.options import path_of
from varigraph.prediction.intervals import HeldOut

if TYPE_CHECKING:
    from varigraph.prediction.calibrator import Calibrator

WHAT, FORMAT = "varigraph calibrator", 2
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
    write_json(target, {"what": WHAT, "format": FORMAT, **record_of(calibrator)})
    return target


def record_of(calibrator: Calibrator) -> dict[str, Any]:
    """A calibrator as a JSON object."""
    found: dict[str, Any] = {
        **{name: getattr(calibrator, name) for name in ("task", "outputs", "kind")},
        "learned": _lists(calibrator.learned),
    }
    held_out = calibrator.held_out
    if held_out is not None:
        found["held_out"] = {
            "learned": _lists(held_out.half.learned),
            "scores": _lists(held_out.scores),
            "neighbours": held_out.neighbours,
        }
    return found


def _lists(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: values.tolist() for name, values in tensors.items()}


def read_calibrator(path: str | os.PathLike[str]) -> Calibrator:
    """The calibrator in a file.

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
        return calibrator_of(held)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileError(source, f"is damaged: {error}", REMEDY) from error


def calibrator_of(held: Mapping[str, Any]) -> Calibrator:
    """What :func:`record_of` has written.

    Raises:
        KeyError: something is missing.
        TypeError: something is of another kind.
        ValueError: something cannot be right.
    """
    from varigraph.prediction.calibrator import Calibrator  # noqa: PLC0415 - it saves itself here

    task, outputs, kind = held["task"], held["outputs"], held["kind"]
    if task not in get_args(Task) or kind not in LEARNED or not isinstance(outputs, int):
        raise ValueError(f"task {task!r}, kind {kind!r} and {outputs!r} outputs")
    found = Calibrator(task, outputs, kind, _learned(held["learned"], kind, outputs))
    if "held_out" not in held:
        return found
    given = held["held_out"]
    half = replace(found, learned=_learned(given["learned"], kind, outputs))
    size = 2 if kind == "residual" else 1
    scores = {name: _tensor(values, name, size) for name, values in given["scores"].items()}
    for name, values in scores.items():
        if values.shape[1:] != (outputs,)[: size - 1] or not bool((values.diff(dim=0) >= 0).all()):
            raise ValueError(f"the scores of {name} are not sorted")
    return replace(found, held_out=HeldOut(half, scores, given["neighbours"] is True))


def _learned(given: Mapping[str, Any], kind: str, outputs: int) -> dict[str, Tensor]:
    learned = {name: _tensor(given[name], name, size) for name, size in LEARNED[kind].items()}
    if kind == "residual" and learned["variance"].shape != (outputs, 2):
        raise ValueError(f"variance has shape {tuple(learned['variance'].shape)}")
    return learned


def _tensor(values: Any, name: str, dimensions: int) -> Tensor:
    found = torch.tensor(values, dtype=torch.float64)
    if found.dim() != dimensions or not bool(found.isfinite().all()):
        raise ValueError(f"{name} is not made of {dimensions} dimensions of numbers")
    return found
