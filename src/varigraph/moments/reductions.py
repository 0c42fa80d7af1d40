"""Sums and means along axes, maps of the last axis, sums and shares within groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.utils import softmax

from varigraph.errors import MissingRuleError
from varigraph.moments import layers
from varigraph.moments.attention import WithinGroups
from varigraph.moments.gaussian import Gaussian, Lazy
from varigraph.moments.maximum import group_max, group_min, members
from varigraph.moments.propagation import current, recorded
from varigraph.moments.registry import implements
from varigraph.moments.rows import row_sums
from varigraph.moments.shapes import SHAPED, Answer, Shaped, plainly, shaped
from varigraph.sparse import Sparse

Axes = int | list[int] | tuple[int, ...] | None


@shaped("sum", "mean")
def _reducing(function: Any) -> Answer:
    average = function.__name__ == "mean"

    def reduce(x: Shaped, dim: Axes = None, keepdim: bool = False, *, dtype: Any = None) -> Shaped:
        if dtype not in (None, x.value._tensor().dtype):
            raise MissingRuleError(
                f"{function.__name__}(dtype={dtype}) has no moment rule", "convert before: x.to()"
            )
        shape = function(torch.empty(x.shape, device="meta"), dim=dim, keepdim=keepdim).shape
        if x.axes is None:
            groups = _rows_over(x, dim)
            if groups is None:
                return _moments_alone(x, dim, keepdim, average=average)
            return Shaped(row_sums(x.value, _within(groups, x.value, average)), shape)
        value, over = x.value, _axes(x, dim)
        columns = _columns_over(x.axes, over - {0})
        if columns is not None:
            ones = F.one_hot(columns).T.to(value._tensor())
            value = layers.linear(value, ones / ones.sum(1, keepdim=True) if average else ones)
        if 0 in over and len(value) > 1:
            every = torch.zeros(len(value), dtype=torch.long)
            value = row_sums(value, _within(every, value, average))
        return Shaped(value, shape)

    return reduce


def _axes(x: Shaped, dim: Axes) -> set[int]:
    """The axes that are reduced, rows being the first."""
    assert x.axes is not None
    count, missing = len(x.shape), len(x.axes) - len(x.shape)
    if dim is None or dim in ((), []):
        return set(range(missing, len(x.axes)))
    return {each % count + missing for each in ([dim] if isinstance(dim, int) else dim)}


def _columns_over(axes: tuple[int, ...], over: set[int]) -> Tensor | None:  # [features]
    """Which column of the result each column goes to; None where none is reduced."""
    if not over:
        return None
    return _merged(axes[1:], {axis - 1 for axis in over})


def _merged(sizes: Sequence[int], over: set[int]) -> Tensor:
    """Where each number of axes of these sizes goes when some of them are reduced."""
    left = [1 if axis in over else size for axis, size in enumerate(sizes)]
    return torch.arange(torch.Size(left).numel()).view(left).expand(tuple(sizes)).reshape(-1)


def _rows_over(x: Shaped, dim: Axes) -> Tensor | None:  # [rows]
    """Which row of the result each row goes to, where rows are several axes, as of a stack."""
    axes = [n for n in range(2, len(x.shape)) if x.shape[:n].numel() == len(x.value)]
    if not axes or dim is None:
        return None
    over = {each % len(x.shape) for each in ([dim] if isinstance(dim, int) else dim)}
    if not over or max(over) >= axes[0]:
        return None
    return _merged(x.shape[: axes[0]], over)


def _within(group: Tensor, value: Gaussian, average: bool) -> Sparse:  # [rows]
    """The matrix that adds up, or averages, rows of groups that are all of one size."""
    like, groups = value._tensor(), int(group.max()) + 1
    weight = like.new_full((len(group),), groups / len(group) if average else 1.0)
    return members(group.to(like.device), groups, weight)


def _moments_alone(x: Shaped, dim: Axes, keepdim: bool, *, average: bool) -> Shaped:
    mean, var = (torch.sum(part, dim, keepdim) for part in (x.seen.mean, x.seen.var))
    count = x.value.mean.numel() / mean.numel() if average else 1
    return Shaped.of(Gaussian(mean / count, var / count**2))


@implements("sum", exactness="exact for independent inputs")
def total(x: Gaussian, dim: Axes = None, keepdim: bool = False) -> Gaussian:
    r"""Moments of :math:`\sum_i x_i`: means add, variances add."""
    found: Gaussian = plainly(torch.sum, x, dim, keepdim)
    return found


@implements("mean", exactness="exact for independent inputs")
def mean(x: Gaussian, dim: Axes = None, keepdim: bool = False) -> Gaussian:
    r"""Moments of :math:`\frac{1}{n} \sum x_i`; the variance is :math:`\frac{1}{n^2} \sum v_i`."""
    found: Gaussian = plainly(torch.mean, x, dim, keepdim)
    return found


@shaped("linear")
def _mapping(function: Any) -> Answer:
    def apply(x: Any, weight: Any, bias: Any = None) -> Shaped:
        layers.certain(*(v.value if isinstance(v, Shaped) else v for v in (weight, bias)),
                       of="linear")  # fmt: skip
        times = x.value.shape[1] // x.shape[-1]
        shape = torch.Size([*x.shape[:-1], len(weight)])
        if times > 1:
            weight = torch.block_diag(*[weight] * times)
            bias = None if bias is None else bias.repeat(times)
        return Shaped(layers.linear(x.value, weight, bias), shape)

    return apply


@shaped("matmul", "mm")
def _multiplying(function: Any) -> Answer:
    def apply(x: Any, other: Any) -> Any:
        if isinstance(x, Shaped) and isinstance(other, Tensor) and other.dim() == 2:
            return mapped(x, other.t())
        if isinstance(x, Tensor) and x.dim() == 2 and other.axes == tuple(other.shape):
            shape = torch.Size([len(x), *other.shape[1:]])
            return Shaped(row_sums(other.value, Sparse.of(x)), shape)
        raise MissingRuleError(
            f"{function.__name__}() has a rule for one matrix that is certain", "x @ W, or A @ x"
        )

    mapped = _mapping(function)
    return apply


SHAPED[torch.sparse.mm] = _multiplying(torch.sparse.mm)


@shaped("scatter_add", "index_add", "scatter_reduce")
def _grouping(function: Any) -> Answer:
    name = function.__name__.rstrip("_")

    def apply(x: Any, dim: int, index: Tensor, source: Any, *args: Any, **options: Any) -> Shaped:
        source = options.pop("src", source)
        if not isinstance(source, Shaped) or isinstance(x, Shaped):
            raise MissingRuleError(f"{name}() onto an uncertain value has no rule", "add it after")
        if dim % len(source.shape) != 0 or source.axes != tuple(source.shape):
            raise MissingRuleError(f"{name}(dim={dim}) has no rule", "group the first axis: dim=0")
        group, onto = _group(index, source.shape, name), x.reshape(len(x), -1)
        return Shaped(OF_GROUPS[name](onto, group, source.value, *args, **options), x.shape)

    return apply


def _group(index: Tensor, shape: torch.Size, name: str) -> Tensor:  # [rows]
    """The group of each row, where all numbers of a row have the same."""
    if index.dim() == 1:
        return index
    group = index.flatten(1)[:, 0]
    whole = group.view(-1, *[1] * (index.dim() - 1)).expand(shape) if index.shape == shape else None
    if whole is None or not torch.equal(index, whole):
        raise MissingRuleError(
            f"{name}() has a rule for whole rows", "give all numbers of a row the same index"
        )
    return group


def _added(x: Tensor, group: Tensor, source: Gaussian, *, alpha: float = 1) -> Gaussian:
    if isinstance(source, Lazy) and alpha == 1:
        summed = source.added_up(group, len(x))
    else:
        weight = alpha * torch.ones_like(group, dtype=source._tensor().dtype)
        summed = row_sums(source, members(group, len(x), weight))
    return layers.shifted(summed, x) if bool(x.any()) else summed


def _largest(
    x: Tensor, group: Tensor, source: Gaussian, reduce: str, *, include_self: bool = True
) -> Gaussian:
    if reduce == "sum":
        return _added(x if include_self else torch.zeros_like(x), group, source)
    pools = {"amax": group_max, "amin": group_min}
    if reduce not in pools or include_self:
        raise MissingRuleError(
            f"scatter_reduce({reduce!r}, include_self={include_self}) has no rule",
            "pool with global_mean_pool, global_add_pool or global_max_pool",
        )
    return pools[reduce](source, group, groups=x.shape[0])


OF_GROUPS: dict[str, Any] = {"scatter_add": _added, "index_add": _added, "scatter_reduce": _largest}


@implements("scatter_add", exactness="exact for independent inputs", note="sum and mean pooling")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Gaussian) -> Gaussian:
    r"""Moments of sums over groups: :math:`y_g = x_g + \sum_{i \in g} s_i`."""
    found: Gaussian = plainly(torch.scatter_add, x, dim, index, src)
    return found


@implements("index_add", exactness="exact for independent inputs")
def index_add(
    x: Tensor, dim: int, index: Tensor, source: Gaussian, *, alpha: float = 1
) -> Gaussian:
    r"""Moments of sums over groups: :math:`y_g = x_g + \alpha \sum_{i \in g} s_i`."""
    found: Gaussian = plainly(torch.index_add, x, dim, index, source, alpha=alpha)
    return found


@implements("scatter_reduce", exactness="exact for independent inputs", note="max and min pooling")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Gaussian, reduce: str, include_self: bool = True
) -> Gaussian:
    """Moments of the largest or smallest value of each group, as pooling asks for it."""
    found: Gaussian = plainly(
        torch.scatter_reduce, x, dim, index, src, reduce, include_self=include_self
    )
    return found


@implements(
    softmax,
    label="softmax of groups",
    exactness="approximate",
    note="over the links of each node: attention; to first order in the scores",
)
def softmax_of_groups(
    scores: Gaussian, index: Tensor, ptr: None = None, num_nodes: int | None = None, dim: int = 0
) -> Gaussian:  # [links, heads], [links] -> [links, heads]
    r""":math:`a_e = e^{s_e} / \sum_f e^{s_f}` over the links f that end where e ends.

    .. math::
        da_e = a_e \Big(ds_e - \sum_f a_f\, ds_f\Big)
    """
    current().approximates("attention")
    count = int(index.max()) + 1 if num_nodes is None else num_nodes
    share = softmax(scores.mean, index, num_nodes=count)
    within = WithinGroups(
        share, members(index, count, torch.ones_like(index, dtype=share.dtype)), index
    )
    return recorded(Gaussian(share, within.blocks(scores.var, share, 0, None)), (scores, within))


def _by_first_axis(scores: Any, index: Any = None, ptr: Any = None, num_nodes: Any = None,
                   dim: int = 0) -> Shaped:  # fmt: skip
    if dim % len(scores.shape) != 0:
        raise MissingRuleError(
            "the softmax over groups has a rule for groups of rows", "softmax(scores, index, dim=0)"
        )
    if index is None:  # the groups of compressed rows, one after the other
        index = torch.arange(len(ptr) - 1, device=ptr.device).repeat_interleave(ptr.diff())
        num_nodes = len(ptr) - 1
    return Shaped(softmax_of_groups(scores.value, index, None, num_nodes), scores.shape)


SHAPED[softmax] = _by_first_axis


#: Functions by which code of its own adds messages up.
ADDING = {"scatter_add", "index_add", "scatter_reduce"}


def refuse_links_by_hand(function: Any, values: Any) -> None:
    """Raises if code outside of layers may be passing messages over links that are uncertain.

    No rule sees which link is which there. As many rows as there are links, or more than there are
    nodes, are taken for messages, and so is the product with a matrix between nodes.
    """
    links, (args, _) = current().links, values
    if links is None or not links.uncertain:
        return
    name, listed = function.__name__, links.listed[0].shape[1]
    # Pairs that are scored look like messages. That they are none is seen on a graph without some
    # links, as far as a closed form looks at one.
    seen_without = links.reading == "removed" and current().tape is not None
    if name in ("matmul", "mm", "_sparse_mm"):
        by_hand = isinstance(args[0], Tensor) and tuple(args[0].shape) == (links.nodes,) * 2
    elif name in ("index_select", "__getitem__") and seen_without:
        by_hand = False
    elif name == "index_select":
        by_hand = _many(len(args[-1]), links.nodes, listed)
    elif name == "__getitem__" and isinstance(args[1], Tensor):
        by_hand = args[1].dtype != torch.bool and _many(len(args[1]), links.nodes, listed)
    elif name.rstrip("_") in ADDING and len(args) > 3 and isinstance(args[3], Shaped):
        by_hand = _many(len(args[3].value), links.nodes, listed)
    else:
        by_hand = False
    if by_hand:
        raise MissingRuleError(
            f"the model passes messages by {name}(), where no rule can tell which links may not be "
            "real",
            'method="sampled", or pass messages with layers of torch_geometric',
        )


def _many(rows: int, nodes: int, links: int) -> bool:
    return rows == links or rows > nodes
