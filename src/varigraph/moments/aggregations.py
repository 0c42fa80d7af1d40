"""How torch_geometric brings rows together in groups: sums, extremes, spreads, weighted means.

And the weights that GCN gives to links, which their own sums normalise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch_geometric import nn as gnn
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import is_torch_sparse_tensor, scatter, softmax

from varigraph.errors import MissingRuleError
from varigraph.moments.arithmetic import joined, mul
from varigraph.moments.gaussian import Gaussian, Lazy, settled
from varigraph.moments.layers import linear, rescaled
from varigraph.moments.maximum import (
    counts,
    group_max,
    group_min,
    largest_of,
    members,
    responding,
    slopes,
    totals,
)
from varigraph.moments.propagation import current, recorded
from varigraph.moments.registry import Exactness, implements
from varigraph.moments.rows import picked_rows, row_sums, stacked_rows
from varigraph.moments.shapes import SHAPED, Shaped, cat
from varigraph.moments.tape import Scale

INDEPENDENT: Exactness = "exact for independent inputs"
#: Variances below this are 0 to torch_geometric's standard deviation.
FLAT = 1e-5
#: Aggregations that can do with messages that are not formed.
SUMS = ("total", "mean", "preserved")
Pool = Callable[[gnn.Aggregation, Gaussian, Tensor, int], Gaussian]


def _by_group(rule: Pool) -> Callable[..., Any]:
    """A rule that is called as an aggregation is, from one that is told each row's group."""

    def aggregation(
        layer: gnn.Aggregation,
        x: Any,  # [rows, features]
        index: Tensor | None = None,  # [rows]
        ptr: Tensor | None = None,  # [groups + 1]
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Any:
        if not isinstance(x, Gaussian):  # nothing uncertain comes in
            return type(layer).forward(layer, x, index, ptr, dim_size, dim)
        if x.dim() != 2 or dim not in (0, -2):
            raise MissingRuleError(
                f"{type(layer).__name__} has a rule for rows of features, [rows, features]",
                "bring its values into this shape, x.flatten(1)",
            )
        group = _groups(x, index, ptr)
        groups = dim_size if dim_size is not None else int(group.max()) + 1 if len(group) else 0
        return rule(layer, x if rule.__name__ in SUMS else settled(x), group, groups)

    # Not by wraps(): who asks for the signature is to see the one above.
    aggregation.__name__, aggregation.__doc__ = rule.__name__, rule.__doc__
    return aggregation


def _groups(x: Gaussian, index: Tensor | None, ptr: Tensor | None) -> Tensor:  # [rows]
    if index is not None:
        return index.long()
    if ptr is None:
        return torch.zeros(len(x), dtype=torch.long, device=x.mean.device)
    sizes = ptr.diff()
    return torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)


@implements(gnn.SumAggregation, exactness=INDEPENDENT)
@_by_group
def total(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    r"""Moments of :math:`\sum_{i \in g} x_i`."""
    return _weighted(x, group, groups, torch.ones_like(group, dtype=x.dtype))


@implements(gnn.MeanAggregation, exactness=INDEPENDENT)
@_by_group
def mean(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    r"""Moments of :math:`\frac{1}{n_g} \sum_{i \in g} x_i`."""
    return _weighted(x, group, groups, 1 / counts(group, groups, x._tensor())[group, 0])


@implements(gnn.VariancePreservingAggregation, exactness=INDEPENDENT)
@_by_group
def preserved(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    r"""Moments of :math:`\frac{1}{\sqrt{n_g}} \sum_{i \in g} x_i`."""
    return _weighted(x, group, groups, counts(group, groups, x._tensor())[group, 0].rsqrt())


def _weighted(x: Gaussian, group: Tensor, groups: int, weight: Tensor) -> Gaussian:
    if isinstance(x, Lazy):  # the weight is the same for all of a group
        each = weight.new_zeros(groups).index_copy(0, group, weight)
        return mul(x.added_up(group, groups), each[:, None])
    return row_sums(x, members(group, groups, weight))


@implements(gnn.MaxAggregation, exactness=INDEPENDENT, note="numerical integration")
@_by_group
def largest(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    """Moments of the largest of each group."""
    return group_max(x, group, groups=groups)


@implements(gnn.MinAggregation, exactness=INDEPENDENT, note="numerical integration")
@_by_group
def smallest(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    """Moments of the smallest of each group."""
    return group_min(x, group, groups=groups)


@implements(gnn.MulAggregation, exactness=INDEPENDENT)
@_by_group
def product(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    r"""Moments of :math:`\prod_i x_i`.

    .. math::
        E[y] = \prod_i \mu_i \qquad V[y] = \prod_i (\mu_i^2 + \sigma_i^2) - \prod_i \mu_i^2

    in double precision, for the sake of that difference.
    """

    def multiplied(values: Tensor) -> Tensor:
        out: Tensor = scatter(values, group, 0, groups, "mul")
        return out

    squares = x.mean.double().square()
    var = (multiplied(squares + x.var) - multiplied(squares)).clamp_min(0).to(x.mean.dtype)
    out = Gaussian(multiplied(x.mean), var)
    return responding(out, x, slopes(multiplied, x.mean), group)


@implements(gnn.VarAggregation, exactness=INDEPENDENT, note="for Gaussian inputs")
@_by_group
def variance(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    r"""Moments of :math:`s_g = \frac{1}{n} \sum_i (x_i - \bar x)^2`.

    With :math:`d_i = \mu_i - \bar\mu` and :math:`\bar v = \frac{1}{n} \sum_i \sigma_i^2`:

    .. math::
        E[y] = \frac{1}{n} \sum_i d_i^2 + \Bigl(1 - \frac{1}{n}\Bigr) \bar v \qquad
        V[y] = \frac{2}{n^2} \Bigl[\Bigl(1 - \frac{2}{n}\Bigr) \sum_i \sigma_i^4
            + \bar v^2 + 2 \sum_i \sigma_i^2 d_i^2\Bigr]
    """
    out = Gaussian(*_spread(x.mean, x.var, group, groups))
    size = counts(group, groups, x.mean)
    off = x.mean - (totals(x.mean, group, groups) / size.clamp_min(1))[group]
    return responding(out, x, 2 * off / size[group], group)


def _spread(mean: Tensor, var: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    size = counts(group, groups, mean).clamp_min(1)
    off = mean - (totals(mean, group, groups) / size)[group]
    noise = totals(var, group, groups) / size
    middle = totals(off.square(), group, groups) / size + (1 - 1 / size) * noise
    fourth = (1 - 2 / size) * totals(var.square(), group, groups) + noise.square()
    crossed = totals(var * off.square(), group, groups)
    return middle, (2 / size.square() * (fourth + 2 * crossed)).clamp_min(0)


@implements(gnn.StdAggregation, exactness="approximate", note="its square is taken as a Gamma")
@_by_group
def deviation(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    r"""Moments of the root of a variance with mean m and variance V, given by :func:`variance`.

    With :math:`r = V / m^2`, which is at most 2, a Gamma variable has to a few per cent

    .. math::
        E[y]^2 = \frac{m}{1 + r / 4 + r^2 / 32} \qquad V[y] = m - E[y]^2
    """
    current().approximates("StdAggregation")
    middle, var = _spread(x.mean, x.var, group, groups)
    root, share = _root(middle, var)
    out = Gaussian(root, root.square() * share)

    def value(mean: Tensor) -> Tensor:
        return _root(*_spread(mean, x.var, group, groups))[0]

    return responding(out, x, slopes(value, x.mean), group)


def _root(middle: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
    """Expected root, and by what share its square is below what is under it."""
    there = middle > FLAT
    middle = middle.where(there, torch.ones_like(middle))
    ratio = var / middle.square()
    share = ratio / 4 + ratio.square() / 32
    return (middle / (1 + share)).sqrt() * there, share


FIRST_ORDER = "first order: value and slopes at the mean"


@implements(gnn.SoftmaxAggregation, exactness="approximate", note=FIRST_ORDER)
@_by_group
def soft_maximum(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    r"""Moments of :math:`y = \sum_i \alpha_i x_i` with :math:`\alpha \propto e^{t x_i}`.

    .. math::
        \frac{\partial y}{\partial x_i} = \alpha_i\,(1 + t\,(x_i - y))
    """
    current().approximates("SoftmaxAggregation")
    weight = softmax(x.mean * layer.t, group, num_nodes=groups, dim=0)
    out = totals(weight * x.mean, group, groups)
    return _linear(out, x, weight * (1 + layer.t * (x.mean - out[group])), group)


@implements(gnn.PowerMeanAggregation, exactness="approximate", note=FIRST_ORDER)
@_by_group
def power_mean(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    r"""Moments of :math:`(\frac{1}{n} \sum_i x_i^p)^{1/p}`, numbers being kept within bounds."""

    def value(mean: Tensor) -> Tensor:
        out: Tensor = type(layer).forward(layer, mean, group, None, groups, 0)
        return out

    current().approximates("PowerMeanAggregation")
    return _linear(value(x.mean), x, slopes(value, x.mean), group)


def _linear(mean: Tensor, x: Gaussian, slope: Tensor, group: Tensor) -> Gaussian:
    var = totals(slope.square() * x.var, group, len(mean))
    return responding(Gaussian(mean, var), x, slope, group)


@implements(gnn.MultiAggregation, exactness=INDEPENDENT, note="side by side, or mapped from there")
@_by_group
def several(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    """Moments of several aggregations, side by side or combined."""
    outs: list[Gaussian] = [part(x, group, dim_size=groups) for part in layer.aggrs]
    if len(outs) == 1:
        return outs[0]
    if layer.mode in ("cat", "proj"):
        beside = cat(outs, -1)
        return linear(beside, layer.lin.weight, layer.lin.bias) if layer.mode == "proj" else beside
    current().approximates("MultiAggregation")  # all of them have the same noise
    if layer.mode == "max":
        return largest_of(outs)
    if layer.mode in ("sum", "mean"):
        return mul(reduce(joined, outs), 1 if layer.mode == "sum" else 1 / len(outs))
    raise MissingRuleError(
        f"MultiAggregation(mode={layer.mode!r}) has no moment rule",
        "use mode='cat', 'proj', 'sum', 'mean' or 'max'",
    )


@implements(gnn.DegreeScalerAggregation, exactness=INDEPENDENT, note="as its aggregations are")
@_by_group
def by_degree(layer: gnn.Aggregation, x: Gaussian, group: Tensor, groups: int) -> Gaussian:
    """Moments of aggregations times functions of the number of rows, side by side."""
    out, size = layer.aggr(x, group, dim_size=groups), counts(group, groups, x.mean)
    outs = [_scaled(layer, out, name, size) for name in layer.scaler]
    return cat(outs, -1) if len(outs) > 1 else outs[0]


def _scaled(layer: gnn.Aggregation, out: Gaussian, name: str, size: Tensor) -> Gaussian:
    some = size.clamp_min(1)
    factors = {
        "amplification": torch.log(size + 1) / layer.avg_deg_log,
        "attenuation": layer.avg_deg_log / torch.log(some + 1),
        "linear": size / layer.avg_deg_lin,
        "inverse_linear": layer.avg_deg_lin / some,
    }
    return out if name == "identity" else mul(out, factors[name])


@implements(gnn.JumpingKnowledge, exactness=INDEPENDENT, note="cat and max")
def jumping_knowledge(layer: gnn.JumpingKnowledge, xs: list[Gaussian]) -> Gaussian:
    """Moments of the values of all layers, side by side or the largest of them."""
    if layer.mode == "cat":
        return cat(xs, -1)
    if layer.mode == "max":
        return largest_of(xs)
    raise MissingRuleError(
        "JumpingKnowledge('lstm') has no moment rule", "use 'cat' or 'max', or write a rule"
    )


@implements(gcn_norm, exactness="approximate", note="of uncertain weights, to first order")
def normalised_weights(
    edge_index: Tensor,  # [2, edges]
    edge_weight: Gaussian,  # [edges, 1]
    num_nodes: int,
    improved: bool = False,
    add_self_loops: bool = True,
    flow: str = "source_to_target",
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Gaussian]:
    r""":math:`\hat w_{uv} = d_u^{-1/2} w_{uv} d_v^{-1/2}` with degrees d of the same weights."""
    current().approximates("gcn_norm")
    if add_self_loops:
        edge_index, edge_weight = _with_loops(edge_index, edge_weight, num_nodes, 1.0 + improved)
    source, target = edge_index
    ends = target if flow == "source_to_target" else source
    degree = row_sums(edge_weight, members(ends, num_nodes, edge_weight.mean.new_ones(len(ends))))
    root = torch.where(degree.mean > 0, degree.mean, torch.inf).rsqrt()
    if bool(((degree.mean < 0) | ((degree.mean == 0) & (degree.var > 0))).any()):
        raise MissingRuleError(
            "the weights of a node's links do not add up to a positive number: they have no root",
            "give positive weights",
        )
    roots = rescaled(degree, root, -root.pow(3) / 2)
    weight, first, last = edge_weight.mean, root[source], root[target]
    by_first, by_weight, by_last = weight * last, first * last, first * weight
    var = _variance_of_weights(edge_index, ends, edge_weight, degree, root)
    return edge_index, recorded(
        Gaussian(first * weight * last, var),
        (picked_rows(roots, source), Scale(by_first)),
        (edge_weight, Scale(by_weight)),
        (picked_rows(roots, target), Scale(by_last)),
    )


def _variance_of_weights(
    edge_index: Tensor, ends: Tensor, weight: Gaussian, degree: Gaussian, root: Tensor
) -> Tensor:  # [2, edges], [edges], [edges, 1], [nodes, 1], [nodes, 1] -> [edges, 1]
    """To first order; a weight is part of the degree of one of its ends, a loop's has two parts."""
    one, two = (root[end] for end in edge_index)
    spread = [degree.var[end] for end in edge_index]
    own, by_one, by_two = (
        one * two,
        *(-one * two * weight.mean * r.square() / 2 for r in (one, two)),
    )
    met = [(ends == end)[:, None] for end in edge_index]
    both = 2 * own * (by_one * met[0] + by_two * met[1])
    loop = 2 * by_one * by_two * (edge_index[0] == edge_index[1])[:, None]
    var = (own.square() + both) * weight.var + (by_one.square() + loop) * spread[0]
    var = var + by_two.square() * spread[1]
    return torch.clamp_min(var, 0)


def _with_loops(
    edge_index: Tensor, weight: Gaussian, nodes: int, fill: float
) -> tuple[Tensor, Gaussian]:  # [2, edges], [edges, 1]
    """One loop for every node behind all other links: its own, or one of a certain weight."""
    count, is_loop = edge_index.shape[1], edge_index[0] == edge_index[1]
    at = edge_index.new_full((nodes,), count)
    at[edge_index[0, is_loop]] = is_loop.nonzero().ravel()
    every = stacked_rows([weight, weight.mean.new_full((1, 1), fill)])
    loops = torch.arange(nodes, device=edge_index.device).expand(2, -1)
    weight = picked_rows(every, torch.cat([(~is_loop).nonzero().ravel(), at]))
    return torch.cat([edge_index[:, ~is_loop], loops], 1), weight


def _normalised_by_code(edge_index: Any, edge_weight: Any, num_nodes: Any = None, *args: Any,
                        **options: Any) -> tuple[Tensor, Shaped]:  # fmt: skip
    """What a layer gets that asks for it in its own code."""
    plain = isinstance(edge_index, Tensor) and not is_torch_sparse_tensor(edge_index)
    if not plain or edge_weight.value.shape != (*edge_weight.shape, 1) or num_nodes is None:
        raise MissingRuleError(
            "gcn_norm() has a rule for uncertain weights [edges] beside edge_index",
            'give the layer edge_index and edge_weight, or take method="sampled"',
        )
    index, found = normalised_weights(edge_index, edge_weight.value, num_nodes, *args, **options)
    return index, Shaped(found, torch.Size([len(found)]))


SHAPED[gcn_norm] = _normalised_by_code
