"""What decides the numbers of a fold, so that finished work is taken up only where it fits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version

import torch
from torch import Tensor

from varigraph.links.link_pairs import LinkPairs, pair_numbers

#: Equal settings give equal numbers.
Settings = Mapping[str, str | int]


def fold_settings(
    links: LinkPairs,
    x: Tensor | None,  # [nodes, features]
    *,
    method: str,
    folds: int,
    seed: int,
) -> Settings:
    """The options, the versions of what computes, and fingerprints of links and features."""
    return {
        "method": method,
        "folds": folds,
        "seed": seed,
        "nodes": links.nodes,
        "links": _fingerprint(pair_numbers(links.pairs)),
        "features": "none" if x is None else _fingerprint(x),
        "varigraph": version("varigraph"),
        "torch": str(torch.__version__),
    }


def _fingerprint(values: Tensor) -> str:
    shape = "x".join(map(str, values.shape))
    content = values.cpu().contiguous().view(torch.uint8).numpy().tobytes()
    return f"{shape} {values.dtype} {hashlib.sha256(content).hexdigest()[:16]}"
