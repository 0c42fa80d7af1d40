"""The nodes to answer for, in whatever form they are given."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as shortened
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.graph_parts import called
from varigraph.errors import OptionError

Nodes: TypeAlias = "Tensor | NDArray[Any] | Sequence[int] | Sequence[bool] | Sequence[str]"
REMEDY = "give indices from 0 (nodes=[0, 5, 7]) or a mask (nodes=data.test_mask)"


def chosen_nodes(nodes: Nodes | None, data: Data) -> Tensor | None:  # [nodes] int64 or bool
    """Indices or a mask on the graph's device; None for all.

    Whether there are such nodes is known once the model has answered: it may answer for whole
    graphs, or for links.

    Args:
        nodes: indices of any integer type, a mask, or names.
        data: the graph.

    Raises:
        OptionError: what was given is none of these, or names no node.
    """
    if nodes is None:
        return None
    index = _tensor(nodes, data)
    if index.numel() == 0 or (index.dtype == torch.bool and not bool(index.any())):
        raise OptionError("nodes names no node", "nodes=None answers for all of them")
    if index.dim() != 1:
        raise OptionError(f"nodes has {index.dim()} dimensions, not one", REMEDY)
    if index.dtype == torch.bool:
        return index.to(data.x.device)
    if index.is_floating_point() or index.is_complex():
        raise OptionError(f"nodes holds {index.dtype}, not whole numbers", REMEDY)
    index = index.long()
    if bool((index < 0).any()):
        raise OptionError(
            f"there is no node {int(index[index < 0][0])}: nodes are not counted from the end",
            REMEDY,
        )
    return index.to(data.x.device)


def _tensor(nodes: Nodes, data: Data) -> Tensor:
    if isinstance(nodes, Tensor):
        if nodes.is_meta or nodes.layout != torch.strided:
            raise OptionError(f"nodes is a {nodes.layout} tensor on {nodes.device}", REMEDY)
        return nodes.detach()
    if isinstance(nodes, (str, bytes)) or not isinstance(nodes, (Sequence, np.ndarray)):
        # Sets too: which row of the answer would be whose?
        raise OptionError(f"nodes={shortened(nodes)} is a {type(nodes).__name__}", REMEDY)
    try:
        array = np.asarray(nodes)
        if array.dtype.kind == "U":
            return torch.tensor(called(array.ravel().tolist(), data)).view(array.shape)
        return torch.as_tensor(array.astype(np.int64) if array.dtype.kind in "iu" else array)
    except OptionError:
        raise
    except (TypeError, ValueError) as error:
        raise OptionError(f"nodes={shortened(nodes)} makes no tensor of indices", REMEDY) from error
