"""Predictions as files: every number comes back bit by bit, and no code is ever run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from varigraph.data.opened_files import regular
from varigraph.errors import FileError, OptionError
from varigraph.files import check_target, replacing
from varigraph.files.fingerprint import fingerprint, weights_fingerprint
from varigraph.moments import Gaussian
from varigraph.options import path_of
from varigraph.prediction.prediction import Prediction, StandardErrors
from varigraph.prediction.rows import Rows
from varigraph.prediction.saved_calibrator import calibrator_of, record_of
from varigraph.prediction.sources.source import about_network

WHAT, FORMAT = "varigraph prediction", 1
REMEDY = "save it anew: vg.predict(model, data).save(path)"
EXAMPLE = 'path="prediction.safetensors"'
#: Tensors that a prediction may have or not, and of its rows.
OPTIONAL, OF_ROWS = ("plain", "chance", "by_half"), ("nodes", "edge_index", "trained_on")
#: Where variances by source, standard errors and the rows' own tensors are in a file.
SOURCE, ERROR, ERROR_SOURCE, ROWS = "by_source.", "std_error.", "std_error.by_source.", "rows."
#: What names and texts are called in a file.
TEXTS = ("method", "samples", "task", "approximate", "as_written")


def write_prediction(prediction: Prediction, path: str | os.PathLike[str]) -> Path:
    """See :meth:`varigraph.Prediction.save`."""
    target = path_of("path", path, remedy=EXAMPLE)
    safetensors = _safetensors(target)
    check_target(target)
    tensors = {name: _alone(values) for name, values in _tensors(prediction).items()}
    about = _about(prediction)
    marks = {"what": WHAT, "format": str(FORMAT), "digest": _digest(tensors, about)}
    content = safetensors.save(tensors, {**marks, "about": json.dumps(about)})
    with replacing(target) as stream:
        stream.write(content)
    return target


def load_prediction(path: str | os.PathLike[str]) -> Prediction:
    """A prediction that was saved by :meth:`~varigraph.Prediction.save`: the same, bit by bit.

    It is on the processor, whatever it was on, and needs neither the network nor the graph. The
    file holds numbers and texts; reading it runs no code.

    Args:
        path: the file.

    Raises:
        FileError: there is no prediction in it, it is damaged, or of another version.

    Example:
        >>> import tempfile, torch, varigraph as vg
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.nn import GCN
        >>> links = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> data = Data(x=torch.rand(3, 4), edge_index=links, x_var=0.01)
        >>> pred = vg.predict(GCN(4, 8, 2, 3, dropout=0.5), data)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = vg.load_prediction(pred.save(f"{folder}/prediction.safetensors"))
        >>> torch.equal(again.mean, pred.mean) and torch.equal(again.std, pred.std)
        True
    """
    source = path_of("path", path, remedy=EXAMPLE)
    safetensors = _safetensors(source)
    with regular(source) as stream:
        content = stream.read()
    marks = _marks(source, content)
    if marks.get("format") != str(FORMAT):
        raise FileError(
            source,
            f"has format {marks.get('format')}, and this version reads {FORMAT}",
            "use the version that wrote it, or save it anew",
        )
    try:
        tensors, about = safetensors.load(content), json.loads(marks["about"])
        if _digest(tensors, about) != marks["digest"]:
            raise ValueError("the numbers are not those that were saved")
        found = _prediction(tensors, about)
    except Exception as error:  # damaged bytes fail in any way that they happen to suggest
        raise FileError(source, f"is damaged: {error}", REMEDY) from error
    _check_sources(source, found, about)
    return found


def _safetensors(path: Path) -> ModuleType:
    try:
        import safetensors.torch  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise OptionError(
            f"{path} needs safetensors, which is not installed", "pip install safetensors"
        ) from error
    return safetensors.torch


def _alone(values: Tensor) -> Tensor:
    """On the processor, and sharing its memory with nothing: the format knows no views."""
    return values.detach().cpu().clone(memory_format=torch.contiguous_format)


def _tensors(prediction: Prediction) -> dict[str, Tensor]:
    errors = prediction.std_error
    found: dict[str, Tensor | None] = {
        "mean": prediction.mean,
        "logits.mean": prediction.logits.mean,
        "logits.var": prediction.logits.var,
        **{f"{SOURCE}{part}": var for part, var in prediction.by_source.items()},
        **{name: getattr(prediction, name) for name in OPTIONAL},
        **{f"{ROWS}{name}": getattr(prediction.rows, name) for name in OF_ROWS},
    }
    if errors is not None:
        found |= {f"{ERROR}mean": errors.mean, f"{ERROR}total": errors.total}
        found |= {f"{ERROR_SOURCE}{part}": each for part, each in errors.by_source.items()}
    return {name: values for name, values in found.items() if values is not None}


def _about(prediction: Prediction) -> dict[str, Any]:
    """What is not a tensor, as JSON has it."""
    rows, calibrator = prediction.rows, prediction.calibrator
    return {
        **{name: getattr(prediction, name) for name in TEXTS},
        "parts": list(prediction.by_source),
        "about_network": [part for part in prediction.by_source if part in about_network()],
        "names": None if rows.names is None else list(map(str, rows.names)),
        "outputs": None if rows.outputs is None else list(map(str, rows.outputs)),
        "calibrator": None if calibrator is None else record_of(calibrator),
    }


def _digest(tensors: Mapping[str, Tensor], about: Any) -> str:
    return fingerprint([weights_fingerprint(tensors), json.loads(json.dumps(about))])


def _marks(path: Path, content: bytes) -> dict[str, str]:
    """What stands at the head of the file besides the places of its tensors."""
    head = content[8 : 8 + int.from_bytes(content[:8], "little")]
    try:
        marks = json.loads(head)["__metadata__"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileError(path, "does not hold a prediction, or is cut off", REMEDY) from error
    if not isinstance(marks, dict) or marks.get("what") != WHAT:
        raise FileError(path, "does not hold a prediction", REMEDY)
    return marks


def _prediction(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> Prediction:
    record = about["calibrator"]
    plain, chance, by_half = (tensors.get(name) for name in OPTIONAL)
    return Prediction(
        mean=tensors["mean"],
        by_source={part: tensors[f"{SOURCE}{part}"] for part in about["parts"]},
        logits=Gaussian(tensors["logits.mean"], tensors["logits.var"]),
        method=about["method"],
        samples=about["samples"],
        task=about["task"],
        std_error=_errors(tensors, about["parts"]),
        approximate=tuple(about["approximate"]),
        as_written=tuple(about["as_written"]),
        rows=Rows(
            names=_tuple(about["names"]),
            outputs=_tuple(about["outputs"]),
            **{name: tensors.get(f"{ROWS}{name}") for name in OF_ROWS},
        ),
        calibrator=None if record is None else calibrator_of(record),
        plain=plain,
        chance=chance,
        by_half=by_half,
    )


def _tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _errors(tensors: Mapping[str, Tensor], parts: list[str]) -> StandardErrors | None:
    if f"{ERROR}mean" not in tensors:
        return None
    named = {part: f"{ERROR_SOURCE}{part}" for part in parts}
    by_source = {part: tensors[name] for part, name in named.items() if name in tensors}
    return StandardErrors(tensors[f"{ERROR}mean"], tensors[f"{ERROR}total"], by_source)


def _check_sources(path: Path, prediction: Prediction, about: Mapping[str, Any]) -> None:
    """A source of the user's own has to be there, or its share would count as the data's."""
    missing = [part for part in about["about_network"] if part not in about_network()]
    if missing:
        raise FileError(
            path,
            f"has variance due to {missing[0]!r}, a source that is not registered here",
            "register it first: varigraph.sources.register",
        )
