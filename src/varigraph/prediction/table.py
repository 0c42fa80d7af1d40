"""A prediction as a table of one row a node: columns by name, a frame of pandas, a file."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from varigraph.errors import OptionError
from varigraph.files import check_target, replacing, write_csv
from varigraph.prediction.intervals import can_hold_truth, class_probabilities
from varigraph.prediction.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

    from varigraph.prediction.prediction import Prediction

Array = npt.NDArray[Any]
Column = Array | list[str]
#: Of files that a table can be written to.
SUFFIXES = (".csv", ".parquet")


def frame(prediction: Prediction, interval: float | None) -> pd.DataFrame:
    """See :meth:`varigraph.Prediction.to_pandas`."""
    try:
        import pandas as pd  # noqa: PLC0415 - optional dependency
    except ModuleNotFoundError as error:
        raise OptionError("pandas is not installed", "pip install pandas") from error
    columns = table_columns(prediction, interval)
    return pd.DataFrame(columns).set_index("name" if "name" in columns else "node")


def table_columns(prediction: Prediction, interval: float | None = None) -> dict[str, Column]:
    """Columns by name, in their order.

    ``node``; ``name`` where nodes have names; then in classification ``predicted``
    (``predicted_name`` where classes have names), ``confidence`` and its standard deviation
    ``confidence_std``, in a binary task with ``predicted`` 0 or 1 and ``confidence`` that of the
    predicted one; in regression with one output ``mean`` and ``std``. ``plain`` is what the
    network by itself says about the same class or value, ``trust`` ranks the answers. Next the
    variance summed over classes or outputs: ``total`` and its parts ``features``, ``links``,
    ``weights`` and ``interactions``. Last, where there are several, all of it by class:
    ``mean_0``, ``total_0``, ``features_0``, ...; of sampled answers also the standard errors
    ``mean_se_0``, ``total_se_0``.

    Args:
        prediction: for any nodes.
        interval: share that intervals are to hold: ``low`` and ``high``, by class ``low_0``,
            ``high_0``, ..., and where a calibrated prediction has sets of classes, ``classes``.
    """
    mean, total = _flat(prediction.mean), _flat(prediction.total)
    variances = {
        "total": total,
        **{part: _flat(var) for part, var in prediction.by_source.items()},
    }
    rows = prediction.rows
    nodes = np.arange(len(mean)) if rows.nodes is None else rows.nodes.cpu().numpy()
    columns: dict[str, Column] = {"node": nodes.astype(np.int64)}
    if rows.names is not None:
        columns["name"] = [rows.names[node] for node in nodes.tolist()]
    columns |= _answers(prediction, mean, total)
    columns["trust"] = prediction.trust.detach().cpu().numpy()
    columns |= _sets(prediction, interval)
    columns |= {name: values.sum(axis=1) for name, values in variances.items()}
    single, by_class = _by_class(prediction, interval)
    if mean.shape[1] == 1:
        return columns | {name: values[:, 0] for name, values in single.items()}
    return columns | {
        f"{name}_{output}": values[:, output]
        for name, values in ({"mean": mean, **variances} | by_class | single).items()
        for output in range(values.shape[1])
    }


def _by_class(
    prediction: Prediction, level: float | None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """What is told of every output, also of a single one; and only where there are several."""
    told: dict[str, Array] = {}
    if level is not None:
        found = prediction.interval(level)
        told |= {"low": _flat(found.low), "high": _flat(found.high)}
    if prediction.std_error is not None:
        error = prediction.std_error
        told |= {"mean_se": _flat(error.mean), "total_se": _flat(error.total)}
    return told, {} if prediction.plain is None else {"plain": _flat(prediction.plain)}


def _answers(prediction: Prediction, mean: Array, total: Array) -> dict[str, Column]:
    plain = None if prediction.plain is None else _flat(prediction.plain)
    if prediction.task in ("regression", "multilabel"):
        if mean.shape[1] > 1:
            return {}
        found: dict[str, Column] = {"mean": mean[:, 0], "std": _std(total[:, 0])}
        return found if plain is None else found | {"plain": plain[:, 0]}
    if prediction.task == "binary":  # no and yes, which move together
        total = np.hstack([total, total])
    prob = _flat(class_probabilities(prediction.mean, prediction.task))
    predicted, rows = prob.argmax(axis=1), np.arange(len(prob))
    found = {"predicted": predicted}
    names = class_names(prediction.rows, prob.shape[1])
    if names is not None:
        found["predicted_name"] = [names[label] for label in predicted]
    found["confidence"] = prob[rows, predicted]
    found["confidence_std"] = _std(total[rows, predicted])
    if prediction.plain is not None:
        own = _flat(class_probabilities(prediction.plain, prediction.task))
        found["plain"] = own[rows, predicted]
    return found


def class_names(rows: Rows, classes: int) -> list[str] | None:
    """What the classes are called; None for their numbers."""
    if rows.outputs is None or len(rows.outputs) != classes:
        return None
    return list(map(str, rows.outputs))


def _sets(prediction: Prediction, level: float | None) -> dict[str, Column]:
    if level is None or not can_hold_truth(prediction) or prediction.task == "regression":
        return {}
    return {"classes": [", ".join(names) for names in prediction.class_sets(level)]}


def _std(var: Array) -> Array:
    std: Array = np.sqrt(np.maximum(var, 0))
    return std


def _flat(values: Tensor) -> Array:  # [nodes, ...] -> [nodes, classes]
    array: Array = values.detach().cpu().reshape(len(values), -1).numpy()
    return array


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
        columns: of :func:`~varigraph.prediction.table.table_columns`.

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
