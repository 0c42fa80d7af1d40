"""Two ways to run the same experiment: on held-out nodes, and as the paper's authors did."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data import load
from varigraph.data.graphs import Split

Protocol = Literal["held-out", "paper"]
#: Nodes of a class for training, validation and testing in the paper's code.
PER_CLASS = (300, 30, 100)


def graph_of(
    protocol: Protocol, dataset: str, *, seed: int = 0, root: str | Path | None = None
) -> Data:
    """A data set with the split of a protocol.

    ``held-out``: 70 % of the nodes for training, 10 % for validation, 20 % for testing. ``paper``:
    300, 30 and 100 nodes of each class, and on Cora the class itself among the features.

    Args:
        protocol: one of the two.
        dataset: its name.
        seed: of the split.
        root: folder that holds the data sets.
    """
    graph = load(dataset, root=root, seed=seed)
    if protocol == "held-out":
        return graph
    split = class_split(graph.y, seed=seed)
    graph.train_mask, graph.val_mask, graph.test_mask = split.train, split.val, split.test
    return with_leaked_labels(graph) if dataset == "cora" else graph


def class_split(labels: Tensor, *, seed: int = 0) -> Split:  # [nodes]
    """300, 30 and 100 random nodes of each class; the other nodes are in no mask.

    Of a class with fewer nodes 80 % are for training, half of the rest for validation, and what is
    left for testing.

    Args:
        labels: classes of the nodes, integers from 0.
        seed: the same seed gives the same split.
    """
    draw = torch.Generator().manual_seed(seed)
    masks = torch.zeros(3, len(labels), dtype=torch.bool)
    for label in labels.unique():
        nodes = (labels == label).nonzero().flatten()
        shuffled = nodes[torch.randperm(len(nodes), generator=draw)]
        for mask, chosen in zip(masks, shuffled.split(_sizes(len(nodes))), strict=False):
            mask[chosen] = True
    return Split(*masks)


def _sizes(nodes: int) -> list[int]:
    if nodes >= sum(PER_CLASS):
        return [*PER_CLASS, nodes - sum(PER_CLASS)]
    train = nodes * 8 // 10
    val = (nodes - train) // 2
    return [train, val, nodes - train - val]


def with_leaked_labels(graph: Data) -> Data:
    """A copy in which the class of each node is one more word of its text.

    This is the leak in the paper's Cora: with it a network has little left to learn. Rows sum to 1
    again afterwards.

    Args:
        graph: with words as features, each present or not, and labels.
    """
    words = torch.cat([(graph.x > 0).to(graph.x), F.one_hot(graph.y).to(graph.x)], dim=1)
    leaked = copy.copy(graph)
    leaked.x = words / words.sum(dim=1, keepdim=True)
    return leaked
