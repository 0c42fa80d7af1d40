"""Weights that add up to 1 over the neighbours of a node, and respond to their scores."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.utils
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.propagation import recorded
from varigraph.moments.registry import implements
from varigraph.moments.rows import groups, picked_rows, row_sums
from varigraph.moments.shapes import SHAPED, Shaped
from varigraph.moments.tape import Scale


@implements(
    torch_geometric.utils.softmax,
    exactness="exact for independent inputs",
    note="over the links of each node; to first order in the scores",
)
def softmax_of_groups(
    scores: Gaussian, index: Tensor, ptr: None = None, num_nodes: int | None = None, dim: int = 0
) -> Gaussian:  # [links, heads], [links] -> [links, heads]
    r""":math:`a_e = e^{s_e} / \sum_f e^{s_f}` over the links f that end where e ends.

    .. math::
        da_e = a_e \Big(ds_e - \sum_f a_f\, ds_f\Big)
    """
    count = int(index.max()) + 1 if num_nodes is None else num_nodes
    share = torch_geometric.utils.softmax(scores.mean, index, num_nodes=count)
    own = _weighted(scores, share)
    common = picked_rows(row_sums(own, groups(index, count, share)), index)
    spread = share.square() * (1 - 2 * share) * scores.var + share.square() * common.var
    out = Gaussian(share, spread.clamp_min(0))
    return recorded(out, (own, Scale(torch.ones_like(share[0]))), (common, Scale(-share)))


def _weighted(scores: Gaussian, share: Tensor) -> Gaussian:
    """Scores by their shares: a step on the way to the response, of no meaning by itself."""
    return recorded(
        Gaussian(share * scores.mean, share.square() * scores.var), (scores, Scale(share))
    )


def _by_first_axis(scores: Any, index: Any = None, ptr: Any = None, num_nodes: Any = None,
                   dim: int = 0) -> Shaped:  # fmt: skip
    if ptr is not None or index is None or dim % len(scores.shape) != 0:
        raise MissingRuleError(
            "the softmax over groups has a rule for an index along the first axis",
            "softmax(scores, index, num_nodes=nodes)",
        )
    return Shaped(softmax_of_groups(scores.value, index, None, num_nodes), scores.shape)


SHAPED[torch_geometric.utils.softmax] = _by_first_axis
