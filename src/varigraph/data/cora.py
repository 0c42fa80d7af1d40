"""Cora, shipped with the package: 2,708 papers, 5,278 citation links, 1,433 words, 7 topics.

Built by ``scripts/build_cora.py``; origin and licence stand in ``docs/data.md``.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

ORIGIN = "PyPI package graphdatascience 2.2, graphdatascience/resources/cora"
LICENSE = "Apache-2.0"
SHA256 = "413890e3c2494f7cd97fde4ce409918efab3e77052ae2928259c3ef37a3f0b63"

CLASS_NAMES = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)


def cora() -> Data:
    """Papers with binary words, links in both directions, labels and the names of the classes."""
    with (
        (files(__package__) / "cora.npz").open("rb") as stream,
        np.load(stream, allow_pickle=False) as stored,
    ):
        content = {name: torch.from_numpy(stored[name].astype(np.int64)) for name in stored.files}
    nodes, start = content["labels"].numel(), content["word_start"]
    x = torch.zeros(nodes, int(content["word_count"]))
    x[torch.arange(nodes).repeat_interleave(start.diff()), content["words"]] = 1
    graph = Data(
        x=x, edge_index=to_undirected(content["links"], num_nodes=nodes), y=content["labels"]
    )
    graph.class_names = list(CLASS_NAMES)
    return graph
