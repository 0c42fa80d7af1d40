"""Nodes by the names that a graph has for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from reprlib import repr as shortened

from torch_geometric.data import Data

from varigraph.errors import OptionError


def called(names: Sequence[str], graph: Data) -> list[int]:
    """Numbers of the nodes that have these names.

    Args:
        names: as in ``graph.node_names``.
        graph: that has them.

    Raises:
        OptionError: naming the first that is no node's name, or that of more than one.
    """
    known = graph.get("node_names")
    if known is None:
        raise OptionError(
            f"the graph has no node_names to find {shortened(names[0])} in",
            "give numbers from 0, or graph.node_names = [...]",
        )
    known = list(known)
    place, times = {name: number for number, name in enumerate(known)}, Counter(known)
    for name in names:
        if times[name] != 1:
            nodes = "no node" if name not in place else "more than one node"
            raise OptionError(
                f"{nodes} is called {shortened(name)}",
                f"node_names has names such as {', '.join(map(shortened, known[:3]))}",
            )
    return [place[name] for name in names]
