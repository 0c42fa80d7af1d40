"""Networks in the styles that people use, and how the library does on them."""

from corpus import (
    attention,
    depth,
    edges,
    habits,
    kinds,
    neighbours,
    own_layers,
    pooling,
    tasks,
    tutorials,
)
from corpus.registry import NETWORKS, Network

__all__ = ["NETWORKS", "Network"]
#: The files that networks stand in, in the order of reading.
CHAPTERS = (
    tutorials, neighbours, attention, edges, own_layers, depth, pooling, tasks, habits, kinds,
)  # fmt: skip
