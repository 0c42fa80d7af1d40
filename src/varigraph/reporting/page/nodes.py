"""The table of nodes that a page lets its reader explore."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from varigraph.reporting.page.compact import rounded
from varigraph.reporting.page.subject import GROUPS, Subject


def nodes(subject: Subject) -> dict[str, Any]:
    """Columns with a number for each node; those of answers have one for each output, in a row.

    Args:
        subject: of the page.
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
        "group": _group(subject),
    }


def _whole(truth: Tensor | None) -> list[int] | None:  # [nodes]
    return None if truth is None else truth.clamp_min(-1).tolist()


def _values(truth: Tensor | None) -> list[float | None] | None:  # [nodes, outputs]
    if truth is None:
        return None
    known = truth.isfinite().flatten().tolist()
    shown = rounded(truth.nan_to_num(0, 0, 0))
    return [value if fine else None for value, fine in zip(shown, known, strict=True)]


def _group(subject: Subject) -> list[int] | None:
    """Place in :data:`GROUPS`, -1 for none of them; None where there are no masks."""
    if not subject.masks:
        return None
    place = torch.full((len(subject.mean),), -1)
    for number, name in enumerate(GROUPS):
        if name in subject.masks:
            place[subject.masks[name]] = number
    found: list[int] = place.tolist()
    return found
