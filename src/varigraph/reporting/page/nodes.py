"""The table of nodes that a page lets its reader explore."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from varigraph.reporting.page.compact import rounded
from varigraph.reporting.page.subject import Subject

#: Which part of the data a node belongs to, as its mask is called and as it is shown.
GROUPS = {"train_mask": "training", "val_mask": "validation", "test_mask": "test"}


def nodes(subject: Subject, graph: Data) -> dict[str, Any]:
    """Columns with a number for each node; those of answers have one for each output, in a row.

    Args:
        subject: of the page.
        graph: with ``train_mask``, ``val_mask`` and ``test_mask``, where there are any.
    """
    truth = subject.truth
    return {
        "count": len(subject.mean),
        "names": subject.node_names,
        "mean": rounded(subject.mean),
        "answer": subject.mean.argmax(1).tolist() if subject.classification else None,
        "std": rounded(subject.total.sqrt(), digits=3),
        "variance": rounded(subject.variance),
        "sources": [rounded(part) for part in subject.by_source.sum(2)],
        "truth": _whole(truth) if subject.classification else _values(truth),
        "group": _group(graph, len(subject.mean)),
    }


def _whole(truth: Tensor | None) -> list[int] | None:  # [nodes]
    return None if truth is None else truth.clamp_min(-1).tolist()


def _values(truth: Tensor | None) -> list[float | None] | None:  # [nodes, outputs]
    if truth is None:
        return None
    known = truth.isfinite().flatten().tolist()
    shown = rounded(truth.nan_to_num(0, 0, 0))
    return [value if fine else None for value, fine in zip(shown, known, strict=True)]


def _group(graph: Data, count: int) -> list[int] | None:
    """Place in :data:`GROUPS`, -1 for none of them; None where there are no masks."""
    masks = [graph.get(name) for name in GROUPS]
    fitting = [mask is not None and mask.shape == (count,) for mask in masks]
    if not any(fitting):
        return None
    place = graph.x.new_full((count,), -1).long()
    for number, (mask, fits) in enumerate(zip(masks, fitting, strict=True)):
        if fits:
            place[mask] = number
    found: list[int] = place.tolist()
    return found
