"""Double-radius node labels: where a node stands, seen from the two ends of a pair."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

#: Distance of a node that no path leads to.
UNREACHABLE = -1


def drnl(edge_index: Tensor, ends: Tensor, *, nodes: int) -> Tensor:  # [2, e], [2, s] -> [nodes]
    r"""Label of every node of many subgraphs at once.

    With the distances :math:`d_x` (end :math:`y` taken away), :math:`d_y` (end :math:`x` taken
    away) and :math:`d = d_x + d_y`,

    .. math::
        f = 1 + \min(d_x, d_y) + \lfloor d/2 \rfloor \,(\lfloor d/2 \rfloor + d \bmod 2 - 1)

    The two ends get 1, a node that one of them cannot reach gets 0. Different unordered pairs
    of distances get different labels. See https://arxiv.org/abs/1802.09691.

    Args:
        edge_index: links within the subgraphs, each in both directions; none may join the two
            ends of one subgraph.
        ends: the two ends of each subgraph.
        nodes: number of nodes of all subgraphs together.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> drnl(path, torch.tensor([[0], [3]]), nodes=4)
        tensor([1, 3, 3, 1])
    """
    near, far = distances(edge_index, ends, nodes=nodes).sort(dim=1).values.unbind(dim=1)
    half, odd = (near + far) // 2, (near + far) % 2
    labels = (1 + near + half * (half + odd - 1)).where(near != UNREACHABLE, 0)
    return labels.index_fill(0, ends.flatten(), 1)


def distances(
    edge_index: Tensor, ends: Tensor, *, nodes: int
) -> Tensor:  # [2, edges], [2, subgraphs] -> [nodes, 2]
    """Steps from the first and from the second end, on paths that avoid the other end.

    All subgraphs are searched in step, one ring of nodes at a time, so the number of rounds is
    the largest distance found.
    """
    source, target = edge_index.numpy()
    one, two = ends.numpy()
    ones = np.ones(len(source), dtype=np.float32)
    arriving = csr_array((ones, (target, source)), shape=(nodes, nodes))
    found = np.full((nodes, 2), UNREACHABLE)
    found[one, 0] = found[two, 1] = 0
    ring, steps = found == 0, 0
    while ring.any():
        steps += 1
        ring = (arriving @ ring.astype(np.float32) > 0) & (found == UNREACHABLE)
        ring[two, 0] = ring[one, 1] = False
        found[ring] = steps
    return torch.from_numpy(found)
