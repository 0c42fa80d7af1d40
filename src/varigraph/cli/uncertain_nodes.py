"""The most uncertain nodes of an answer, for a terminal."""

from __future__ import annotations

import numpy as np

from varigraph.cli.terminal import cell
from varigraph.prediction.prediction import PARTS
from varigraph.reporting.text_table import TextTable
from varigraph.studies.own_model.answer import Answer
from varigraph.studies.own_model.prediction_table import Column, table_columns

#: Columns of words and numbers that are shown where the table has them, and how.
SHOWN = {
    "node": "{}",
    "name": "{}",
    "predicted": "{}",
    "predicted_name": "{}",
    "confidence": "{:.3f}",
    "confidence_std": "± {:.3f}",
    "mean": "{:.4g}",
    "std": "± {:.3g}",
    "total": "{:.3g}",
}
HEADS = {"confidence_std": "", "std": "", "predicted_name": "", "total": "variance"}


def headline(found: Answer) -> list[str]:
    """What was done, and where the variance comes from.

    Args:
        found: an answer.
    """
    (method, why), shares = found.method, found.shares
    record = found.record()
    what = "classes" if found.prediction.task == "classification" else "outputs"
    size = f"{record['nodes']:,} nodes, {record['outputs']} {what}"
    done = f"{found.subject.title}: {size}; {method}{f' ({why})' if why else ''}, "
    parts = "none of it" if shares is None else ", ".join(f"{p} {shares[p]:.0%}" for p in PARTS)
    return [
        f"{done}{found.seconds:.1f} s",
        f"mean variance {found.variance['total']:.3g}: {parts}",
    ]


def uncertain_nodes(found: Answer, top: int) -> TextTable:
    """The nodes with the largest variance, the largest first.

    Args:
        found: an answer.
        top: how many of them.
    """
    assert found.subject.graph is not None
    columns = table_columns(found.prediction, found.subject.graph, found.nodes)
    total = np.asarray(columns["total"])
    rows = np.argsort(-total, kind="stable")[:top]
    shown = [name for name in SHOWN if name in columns]
    body = tuple(
        (
            *(_text(columns[name], row, SHOWN[name]) for name in shown),
            *(_share(np.asarray(columns[part])[row], total[row]) for part in PARTS),
        )
        for row in rows
    )
    header = (*(HEADS.get(name, name) for name in shown), *PARTS[:3], "inter-\nactions")
    title = f"{len(rows)} most uncertain of {len(total):,} nodes"
    return TextTable(title, header, body, words=1)


def _text(column: Column, row: int, how: str) -> str:
    value = column[row]
    return cell(value) if isinstance(value, str) else how.format(value)


def _share(part: float, total: float) -> str:
    return f"{part / total:.0%}" if total > 0 else "–"
