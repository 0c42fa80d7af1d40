"""Weights that add up to 1 over the neighbours of a node, and respond to their scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch_geometric.utils
from torch import Tensor

from varigraph.errors import MissingRuleError
from varigraph.moments.cotangents import Cotangents
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.maximum import members
from varigraph.moments.propagation import recorded
from varigraph.moments.registry import implements
from varigraph.moments.shapes import SHAPED, Shaped
from varigraph.moments.tape import Operator
from varigraph.sparse import Sparse


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
    within = WithinGroups(share, members(index, count, torch.ones_like(share[:, 0])), index)
    return recorded(Gaussian(share, within.blocks(scores.var, share, 0, None)), (scores, within))


@dataclass(frozen=True, eq=False)
class WithinGroups(Operator):
    r""":math:`y_e = a_e (x_e - \sum_f a_f x_f)` over the rows f of the group of e."""

    share: Tensor  # a, [rows, features]
    members: Sparse  # [groups, rows]
    group: Tensor  # [rows]
    local = False

    def back(self, pairs: Cotangents, width: int) -> Cotangents:
        r""":math:`T_f = a_f (T_f - \sum_e a_e T_e)`."""
        whole = self._whole_groups(pairs)
        values = whole.values * self.share[whole.column].to(whole.values)[:, None]
        return whole.with_values(values - self._common(whole, values))

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:
        """The same: the response is its own transpose."""
        return self.back(before, width).at(pairs).values

    def blocks(self, block: Tensor, mean: Tensor, width: int, out: Tensor | None) -> Tensor:
        r""":math:`a_e^2 ((1 - 2 a_e) \Sigma_e + \sum_f a_f^2 \Sigma_f)`, by features alike."""
        share = self.share if block.dim() == 2 else self.share[:, :, None]
        if block.dim() == 3:
            square = self.share[:, :, None] * self.share[:, None]
            own = block - share * block - share.mT * block
        else:
            square, own = share.square(), (1 - 2 * share) * block
        common = (self.members @ (square * block).flatten(1))[self.group].view_as(block)
        found = square * (own + common)
        return found.clamp_min(0) if block.dim() == 2 else found

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.share,))

    def _common(self, pairs: Cotangents, weighted: Tensor) -> Tensor:
        r""":math:`a_f \sum_e a_e T_e`, group by group of each output."""
        keys = pairs.row * self.members.shape[0] + self.group[pairs.column]
        _, place = torch.unique(keys, return_inverse=True)
        total = weighted.new_zeros(int(place.max()) + 1 if len(place) else 0, *weighted.shape[1:])
        total.index_add_(0, place, weighted)
        return total[place] * self.share[pairs.column].to(weighted)[:, None]

    def _whole_groups(self, pairs: Cotangents) -> Cotangents:
        """The same pairs, and all others of the groups that they belong to."""
        met = torch.unique(pairs.row * self.members.shape[0] + self.group[pairs.column])
        row, group = met // self.members.shape[0], met % self.members.shape[0]
        asked, entry = self.members.walks(group)
        if len(asked) == len(pairs.row):
            return pairs
        keys = (row[asked] * pairs.nodes + self.members.columns[entry]).sort().values
        return pairs._on(keys)


def _by_first_axis(scores: Any, index: Any = None, ptr: Any = None, num_nodes: Any = None,
                   dim: int = 0) -> Shaped:  # fmt: skip
    if ptr is not None or index is None or dim % len(scores.shape) != 0:
        raise MissingRuleError(
            "the softmax over groups has a rule for an index along the first axis",
            "softmax(scores, index, num_nodes=nodes)",
        )
    return Shaped(softmax_of_groups(scores.value, index, None, num_nodes), scores.shape)


SHAPED[torch_geometric.utils.softmax] = _by_first_axis
