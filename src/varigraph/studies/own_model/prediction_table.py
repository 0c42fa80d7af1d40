"""A prediction as a table with one row for each node, as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch_geometric.data import Data

from varigraph.errors import OptionError
from varigraph.files import check_target, replacing, write_csv
from varigraph.prediction import Prediction

Column = npt.NDArray[Any] | list[str]
SUFFIXES = (".csv", ".parquet")


def table_columns(prediction: Prediction, graph: Data, nodes: Sequence[int]) -> dict[str, Column]:
    """Columns by name, in their order.

    ``node``; ``name`` where the graph has ``node_names``; then in classification ``predicted``
    (``predicted_name`` where it has ``class_names``), ``confidence`` and its standard deviation
    ``confidence_std``, in a binary task with ``predicted`` 0 or 1 and ``confidence`` that of the
    predicted one; in regression with one output ``mean`` and ``std``. Next the variance summed
    over classes or outputs: ``total`` and its parts ``features``, ``links``, ``weights`` and
    ``interactions``. Last, where there are several, all of it by class: ``mean_0``, ``total_0``,
    ``features_0``, ...; of sampled answers also the standard errors ``mean_se_0``, ``total_se_0``.

    Args:
        prediction: for the nodes.
        graph: that it is about.
        nodes: their numbers, in the order of the prediction.
    """
    mean, total = _flat(prediction.mean), _flat(prediction.total)
    variances = {
        "total": total,
        **{part: _flat(var) for part, var in prediction.by_source.items()},
    }
    columns: dict[str, Column] = {"node": np.asarray(nodes, dtype=np.int64)}
    if graph.get("node_names") is not None:
        columns["name"] = [graph.node_names[node] for node in nodes]
    columns |= _answers(prediction, graph, mean, total)
    columns |= {name: values.sum(axis=1) for name, values in variances.items()}
    by_class = {"mean": mean, **variances}
    if prediction.std_error is not None:
        error = prediction.std_error
        by_class |= {"mean_se": _flat(error.mean), "total_se": _flat(error.total)}
    if mean.shape[1] > 1:
        columns |= {
            f"{name}_{output}": values[:, output]
            for name, values in by_class.items()
            for output in range(values.shape[1])
        }
    elif prediction.std_error is not None:
        columns |= {name: by_class[name][:, 0] for name in ("mean_se", "total_se")}
    return columns


def check_table_file(path: Path) -> None:
    """Raises where no table could be written, before the work that it would hold.

    Args:
        path: ``.csv`` or ``.parquet``.

    Raises:
        OptionError: if it cannot be a table.
        FileError: if it cannot be written.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"{path} ends in neither {' nor '.join(SUFFIXES)}", "--out nodes.csv")
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise OptionError(
            f"{path} needs pyarrow, which is not installed",
            "pip install pyarrow, or --out nodes.csv",
        )
    check_target(path)


def write_table(path: Path, columns: dict[str, Column]) -> None:
    """Write the columns, whole or not at all.

    Args:
        path: ``.csv``, in which names that begin like a formula get an apostrophe in front, or
            ``.parquet``.
        columns: of :func:`table_columns`.

    Raises:
        FileError: if it cannot be written, saying why.
    """
    if path.suffix.lower() == ".csv":
        # Single precision is written with as many digits as it has: 0.83, not 0.82999998.
        write_csv(path, columns, zip(*columns.values(), strict=True))
        return
    import pyarrow  # noqa: PLC0415 - optional dependency
    from pyarrow import parquet  # noqa: PLC0415

    with replacing(path) as stream:
        parquet.write_table(pyarrow.table(columns), stream)


def _answers(
    prediction: Prediction, graph: Data, mean: npt.NDArray[Any], total: npt.NDArray[Any]
) -> dict[str, Column]:
    if prediction.task in ("regression", "multilabel"):
        if mean.shape[1] > 1:
            return {}
        return {"mean": mean[:, 0], "std": _std(total[:, 0])}
    if prediction.task == "binary":  # no and yes, which move together
        mean, total = np.hstack([1 - mean, mean]), np.hstack([total, total])
    predicted, rows = mean.argmax(axis=1), np.arange(len(mean))
    found: dict[str, Column] = {"predicted": predicted}
    names = graph.get("class_names")
    if names is not None and len(names) == mean.shape[1]:
        found["predicted_name"] = [str(names[label]) for label in predicted]
    found["confidence"] = mean[rows, predicted]
    found["confidence_std"] = _std(total[rows, predicted])
    return found


def _std(var: npt.NDArray[Any]) -> npt.NDArray[Any]:
    std: npt.NDArray[Any] = np.sqrt(np.maximum(var, 0))
    return std


def _flat(values: Tensor) -> npt.NDArray[Any]:  # [nodes, ...] -> [nodes, classes]
    array: npt.NDArray[Any] = values.detach().cpu().reshape(len(values), -1).numpy()
    return array
