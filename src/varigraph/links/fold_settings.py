"""What decides the numbers of a fold, so that finished work is taken up only where it fits."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

import torch
from torch import Tensor

from varigraph.files.fingerprint import tensor_fingerprint
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
        "links": tensor_fingerprint(pair_numbers(links.pairs)),
        "features": "none" if x is None else tensor_fingerprint(x),
        "varigraph": version("varigraph"),
        "torch": str(torch.__version__),
    }
