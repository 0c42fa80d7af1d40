"""The table of a prediction as a file, CSV or Parquet."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from varigraph.errors import OptionError
from varigraph.files import check_target, replacing, write_csv
from varigraph.prediction.table import Column

SUFFIXES = (".csv", ".parquet")


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
