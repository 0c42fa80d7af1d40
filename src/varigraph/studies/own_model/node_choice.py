"""The nodes to answer for, as the user names them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.graph_parts import called
from varigraph.errors import OptionError

REMEDY = "give numbers from 0 (--nodes 0,5,7), names, a mask (--nodes test) or a file of them"


def chosen_nodes(text: str | None, graph: Data) -> list[int]:
    """Numbers of nodes; all of them where nothing is said.

    Where the graph has ``node_names``, nodes go by these names and not by numbers: a name may be
    a number itself.

    Args:
        text: a file with one node a line; the name of a mask, with or without ``_mask``; or nodes
            with commas between them.
        graph: that has them.

    Raises:
        OptionError: naming the first node that is not there.
    """
    count = int(graph.num_nodes)
    if text is None:
        return list(range(count))
    masks = [text, f"{text}_mask"]
    mask = next((graph[name] for name in masks if _is_mask(graph.get(name), count)), None)
    if mask is not None:
        found = [int(node) for node in mask.nonzero().flatten()]
    else:
        found = _numbers(_listed(text), graph, count)
    if not found:
        raise OptionError(f"--nodes {text} names no node", REMEDY)
    return found


def _is_mask(value: object, count: int) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.bool and value.shape == (count,)


def _listed(text: str) -> list[str]:
    path = Path(text).expanduser()
    try:
        given = path.read_text(encoding="utf-8").splitlines() if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--nodes {text} cannot be read: {error}", REMEDY) from error
    words = text.split(",") if given is None else given
    return [word.strip() for word in words if word.strip()]


def _numbers(words: list[str], graph: Data, count: int) -> list[int]:
    if graph.get("node_names") is not None:
        return called(words, graph)
    try:
        numbers = [int(word) for word in words]
    except ValueError as error:
        raise OptionError(f"--nodes: {error}, and the graph has no node_names", REMEDY) from error
    outside = [number for number in numbers if not 0 <= number < count]
    if outside:
        raise OptionError(
            f"there is no node {outside[0]} among {count}", f"count from 0 to {count - 1}"
        )
    return numbers
