"""One case per rule at the least: what it is applied to and which oracle judges it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch_geometric.nn as gnn
from scipy import integrate, stats
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import softmax

from varigraph.moments import Gaussian
from varigraph.sparse import csr_tensor
from varigraph.testing import Moments, jacobian, quadrature, sampling

# Node 5 is alone; 0 -> 1 is listed twice; 3 has a loop.
LINKS = torch.tensor([[0, 0, 1, 2, 3, 3, 4, 2], [1, 1, 0, 1, 2, 3, 0, 4]])
WEIGHTS = torch.tensor([0.5, 1.5, 2.0, 1.0, 0.3, 0.7, 1.1, 0.9])
GROUPS = torch.tensor([0, 0, 0, 1, 1, 3])
CSR = csr_tensor(
    torch.tensor([0, 2, 3, 4]),
    torch.tensor([0, 2, 1, 0]),
    torch.tensor([1.0, 2.0, 3.0, 0.5]).double(),
    (3, 6),
)


def features(rows: int = 6, columns: int = 4) -> Gaussian:
    generator = torch.Generator().manual_seed(1)
    mean = torch.randn(rows, columns, generator=generator).double()
    return Gaussian(mean, torch.rand(rows, columns, generator=generator).double() + 0.1)


def grid() -> Gaussian:
    """Means and standard deviations on both sides of every bend, narrow and wide."""
    means = torch.tensor([-6.0, -2.0, -0.5, 0.0, 0.5, 2.0, 6.0]).double()
    stds = torch.tensor([0.01, 0.1, 1.0, 3.0, 30.0]).double()
    mean, std = torch.meshgrid(means, stds, indexing="ij")
    return Gaussian(mean.flatten(), std.flatten().square())


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        layer = build()
        for name, buffer in layer.named_buffers():
            if "running" in name:
                buffer.uniform_(0.5, 2.0)
        return layer.eval()


@dataclass(frozen=True)
class Case:
    """What a rule is applied to.

    Args:
        rule: name of the rule in the table.
        target: torch function or layer.
        args: arguments after x.
        x: the input.
        oracle: what judges it.
        linear: whether it is linear in x.
        tolerance: largest relative error allowed; None for rules that declare themselves
            approximate.
        off: largest relative error of an approximate rule, as it was measured.
    """

    rule: str
    target: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    x: Gaussian = field(default_factory=features)
    oracle: Any = jacobian
    linear: bool = False
    tolerance: float | None = 1e-9
    off: float | None = None


def activation(name: str, target: Callable[..., Any], **kwargs: Any) -> Case:
    return Case(name, target, kwargs=kwargs, x=grid(), oracle=quadrature, tolerance=1e-6)


def pieced(name: str, target: Callable[..., Any], kinks: tuple[float, ...], **kwargs: Any) -> Case:
    """A function of pieces, whose oracle is told where they meet."""
    return Case(
        name,
        target,
        kwargs=kwargs,
        x=grid(),
        oracle=partial(quadrature, kink=kinks),
        tolerance=1e-6,
    )


def narrow() -> Gaussian:
    """Standard deviations up to 1, where exponentials and waves are not all noise."""
    wide = grid()
    return Gaussian(wide.mean, wide.var.clamp_max(1.0) * 0.9)


def affine(name: str, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Case:
    return Case(name, target, args, kwargs, linear=True)


def rough(
    off: float, name: str, target: Callable[..., Any], *args: Any, oracle: Any = sampling
) -> Case:
    return Case(name, target, args, oracle=oracle, tolerance=None, off=off)


def layer(build: Callable[[], nn.Module], *args: Any, **kwargs: Any) -> Case:
    made = seeded(build)
    return affine(type(made).__name__, made, *args, **kwargs)


def mlp(first: int, last: int) -> nn.Module:
    return nn.Sequential(nn.Linear(first, last))


ACTIVATIONS = [
    activation("relu", F.relu),
    activation("leaky_relu", F.leaky_relu, negative_slope=0.2),
    Case("prelu", torch.prelu, (torch.tensor([0.25]).double(),), x=grid(), oracle=quadrature),
    activation("elu", F.elu, alpha=0.7),
    activation("celu", F.celu, alpha=0.7),
    activation("selu", F.selu),
    activation("gelu", F.gelu),
    activation("gelu", F.gelu, approximate="tanh"),
    activation("silu", F.silu),
    activation("tanh", torch.tanh),
    activation("sigmoid", torch.sigmoid),
    activation("softplus", F.softplus),
    activation("rrelu", F.rrelu, lower=0.1, upper=0.5),
    activation("abs", torch.abs),
    activation("mish", F.mish),
    activation("logsigmoid", F.logsigmoid),
    activation("softsign", F.softsign),
    activation("tanhshrink", F.tanhshrink),
    Case("exp", torch.exp, x=narrow(), oracle=quadrature),
    Case("sin", torch.sin, x=narrow(), oracle=quadrature),
    Case("cos", torch.cos, x=narrow(), oracle=quadrature),
    pieced("clamp", torch.clamp, (-1.5, 4.0), min=-1.5, max=4.0),
    pieced("clamp", torch.clamp, (0.7,), min=0.7),
    pieced("clamp_min", torch.clamp_min, (-0.3,), min=-0.3),
    pieced("clamp_max", torch.clamp_max, (0.3,), max=0.3),
    pieced("hardtanh", F.hardtanh, (-0.5, 2.0), min_val=-0.5, max_val=2.0),
    pieced("relu6", F.relu6, (0.0, 6.0)),
    pieced("hardsigmoid", F.hardsigmoid, (-3.0, 3.0)),
    pieced("hardswish", F.hardswish, (-3.0, 3.0)),
    pieced("softshrink", F.softshrink, (-0.7, 0.7), lambd=0.7),
    pieced("hardshrink", F.hardshrink, (-0.7, 0.7), lambd=0.7),
    pieced("threshold", F.threshold, (0.2,), threshold=0.2, value=-1.0),
    activation("square", torch.square),
    activation("pow", torch.pow, exponent=2),
]

FUNCTIONS = [
    affine(
        "linear", F.linear, torch.randn(3, 4, generator=torch.Generator().manual_seed(2)).double()
    ),
    affine("matmul", torch.matmul, torch.ones(4, 2).double()),
    Case("matmul", lambda x: x.new_ones(3, 6) @ x, linear=True),
    Case("matmul", lambda x: CSR.to(x.dtype) @ x, linear=True),
    affine("add", torch.add, torch.ones(4).double()),
    Case("add", lambda x: x + x, linear=True),
    Case("add", lambda x: 2.0 + x, linear=True),
    affine("sub", torch.sub, 1.5),
    Case("sub", lambda x: 1.5 - x, linear=True),
    affine("mul", torch.mul, torch.arange(4).double()),
    affine("div", torch.div, torch.arange(1, 5).double()),
    affine("neg", torch.neg),
    affine("sum", torch.sum, 0),
    affine("mean", torch.mean, 1, True),
    affine("__getitem__", lambda x: x[1:3]),
    affine("reshape", lambda x: x.reshape(-1, 8)),
    affine("cat", lambda x: torch.cat([x, x.new_ones(6, 2)], 1)),
    affine("stack", lambda x: torch.stack([x[:3], x[3:]])),
    affine("sum", lambda x: torch.stack([x[:3], x[3:]]).sum(0)),
    affine("mean", lambda x: torch.mean(torch.stack([x[:2], x[2:4], x[4:]]), 0)),
    affine("dropout", F.dropout, training=False),
    affine("scatter_add", lambda x: gnn.global_add_pool(x, GROUPS, 4)),
    affine("scatter_add", lambda x: gnn.global_mean_pool(x, GROUPS, 4)),
    affine("index_add", lambda x: x.new_zeros(4, 4).index_add(0, GROUPS, x, alpha=0.5)),
]

LAYERS = [
    layer(partial(gnn.SAGEConv, 4, 3), LINKS),
    layer(partial(gnn.SAGEConv, 4, 3, aggr="sum", flow="target_to_source"), LINKS),
    layer(partial(gnn.SAGEConv, 4, 3, root_weight=False), LINKS),
    layer(partial(gnn.GCNConv, 4, 3), LINKS),
    layer(partial(gnn.GCNConv, 4, 3, improved=True, flow="target_to_source"), LINKS, WEIGHTS),
    layer(partial(gnn.GCNConv, 4, 3, normalize=False, bias=False), LINKS, WEIGHTS),
    layer(partial(gnn.GCNConv, 4, 3, add_self_loops=False), LINKS),
    layer(partial(gnn.GraphConv, 4, 3), LINKS, WEIGHTS),
    layer(partial(gnn.GraphConv, 4, 3, aggr="mean"), LINKS, WEIGHTS),
    layer(partial(gnn.GINConv, mlp(4, 3), eps=0.4), LINKS),
    layer(partial(gnn.SGConv, 4, 3, K=1), LINKS),
    layer(partial(gnn.APPNP, 1, 0.1), LINKS),
    affine("batch_norm", seeded(partial(nn.BatchNorm1d, 4))),
]


class Shares(nn.Module):
    """Attention's softmax, over the links of each node."""

    def forward(self, scores: Tensor, group: Tensor) -> Tensor:
        shares: Tensor = softmax(scores, group)
        return shares


class Normalised(nn.Module):
    """GCN's weights of some links, from uncertain ones in the first column."""

    def forward(self, x: Tensor, edge_index: Tensor, nodes: int) -> Tensor:
        _, weights = gcn_norm(edge_index, x[:, 0], nodes)
        found: Tensor = weights.unsqueeze(-1)
        return found


class NormalisedRing(Normalised):
    """Those of a ring of six nodes, one-way, whose weights are about 5."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        ring = torch.arange(6)
        return super().forward(5 + x, torch.stack([ring, ring.roll(1)]), 6)


ROUGH = [
    rough(0.612, "gcn_norm", NormalisedRing()),
    rough(0.624, "softmax of groups", Shares(), GROUPS),
    rough(0.482, "SGConv", seeded(partial(gnn.SGConv, 4, 3, K=2)), LINKS, oracle=jacobian),
    rough(0.691, "APPNP", seeded(partial(gnn.APPNP, 3, 0.1)), LINKS, oracle=jacobian),
    rough(0.413, "layer_norm", seeded(partial(nn.LayerNorm, 4))),
    rough(0.404, "normalize", F.normalize),
    rough(0.297, "GraphNorm", seeded(partial(gnn.GraphNorm, 4))),
    rough(0.111, "LayerNorm", seeded(partial(gnn.LayerNorm, 4))),
    rough(0.0998, "PairNorm", gnn.PairNorm()),
]


def order_statistics(function: Any, mean: Tensor, var: Tensor) -> Moments:
    """Moments of the largest of each column's numbers within a group, by adaptive integration."""
    groups = [(g == GROUPS).nonzero().flatten() for g in range(4)]
    columns = range(mean.shape[1])
    table = [[_largest(mean[rows, c], var[rows, c]) for c in columns] for rows in groups]
    return Moments(*torch.tensor(table).double().movedim(-1, 0))


def _largest(mean: Tensor, var: Tensor) -> tuple[float, float]:
    if len(mean) == 0:
        return 0.0, 0.0
    parts = [stats.norm(m, v**0.5) for m, v in zip(mean.tolist(), var.tolist(), strict=True)]

    def density(t: float) -> float:
        below = [part.cdf(t) for part in parts]
        return sum(p.pdf(t) * math.prod(below[:i] + below[i + 1 :]) for i, p in enumerate(parts))

    def moment(of: Callable[[float], float]) -> float:
        reach = 12 * float(var.max()) ** 0.5
        low, high = float(mean.min()) - reach, float(mean.max()) + reach
        return integrate.quad(lambda t: of(t) * density(t), low, high, epsabs=1e-12, limit=500)[0]

    average = moment(lambda t: t)
    return average, moment(lambda t: (t - average) ** 2)


def pooled_max(x: Any) -> Any:
    return gnn.global_max_pool(x, GROUPS, 4)


def dense_maxima(function: Any, mean: Tensor, var: Tensor) -> Moments:
    """The largest message of each node, by adaptive integration; links listed twice count once."""
    rows = [LINKS[0][LINKS[1] == node].unique() for node in range(len(mean))]
    columns = range(mean.shape[1])
    table = [[_largest(mean[r, c], var[r, c]) for c in columns] for r in rows]
    return Moments(*torch.tensor(table).double().movedim(-1, 0))


def largest_message() -> nn.Module:
    """SAGE with max and identity maps: what is left is the maximum."""
    made = gnn.SAGEConv(4, 4, aggr="max", root_weight=False, bias=False)
    nn.init.eye_(made.lin_l.weight)
    return made


MAXIMA = [
    Case("SAGEConv", largest_message(), (LINKS,), oracle=dense_maxima, tolerance=1e-7),
    Case("scatter_reduce", pooled_max, oracle=order_statistics, tolerance=1e-7),
    Case("max", lambda x: x[:3].max(0)[0][None], oracle=lambda f, m, v: Moments(
        *(t[:1] for t in order_statistics(f, m, v)[:2])), tolerance=1e-7),
]  # fmt: skip


def cubature(function: Any, mean: Tensor, var: Tensor) -> Moments:
    """Three Gauss–Hermite points for each row, all of their combinations; columns do not mix.

    Exact for polynomials whose square has no power above 5 in any one number.
    """
    combinations = torch.tensor(list(itertools.product((-1, 0, 1), repeat=len(mean)))).double()
    chance = (2 / 3 - combinations.square() / 2).prod(1)[:, None, None]
    steps = combinations[:, :, None] * math.sqrt(3) * var.double().sqrt()
    values = torch.stack([function(mean.double() + step) for step in steps])
    average = (chance * values).sum(0)
    return Moments(average, (chance * (values - average).square()).sum(0))


def smallest_of_groups(function: Any, mean: Tensor, var: Tensor) -> Moments:
    turned = order_statistics(function, -mean, var)
    return Moments(-turned.mean, turned.var)


def pooled(build: Callable[[], nn.Module], **kwargs: Any) -> Case:
    made = seeded(build)
    args = {"linear": True, **kwargs}
    return Case(type(made).__name__, made, (GROUPS,), {"dim_size": 4}, **args)


def in_rows(pool: Callable[..., Any]) -> Case:
    """The rows of group 0 alone, brought together along the first axis or, turned, the second."""
    name = getattr(pool, "__name__", "")
    judge = order_statistics if "max" in name else smallest_of_groups

    def first(function: Any, mean: Tensor, var: Tensor) -> Moments:
        return Moments(*(moment[:1] for moment in judge(function, mean, var)[:2]))

    def along(x: Any) -> Any:
        out = pool(x[:3], 0)
        return (out if name.startswith("a") else out[0])[None]

    return Case(name, along, oracle=first, tolerance=1e-7)


DEGREES = torch.tensor([1, 2, 3, 1])
SCALERS = ["identity", "amplification", "attenuation", "linear", "inverse_linear"]
AGGREGATIONS = [
    pooled(gnn.SumAggregation),
    pooled(gnn.MeanAggregation),
    pooled(gnn.VariancePreservingAggregation),
    pooled(gnn.MaxAggregation, linear=False, oracle=order_statistics, tolerance=1e-7),
    pooled(gnn.MinAggregation, linear=False, oracle=smallest_of_groups, tolerance=1e-7),
    pooled(gnn.MulAggregation, linear=False, oracle=cubature),
    pooled(gnn.aggr.VarAggregation, linear=False, oracle=cubature),
    pooled(lambda: gnn.MultiAggregation(["sum", "mean"])),
    pooled(lambda: gnn.MultiAggregation(["sum", "var"]), linear=False, oracle=cubature),
    pooled(lambda: gnn.DegreeScalerAggregation(["mean", "sum"], SCALERS, DEGREES)),
    affine("JumpingKnowledge", lambda x: gnn.JumpingKnowledge("cat")([x, x.new_ones(6, 2)])),
    *map(in_rows, (torch.min, torch.amax, torch.amin)),
]
ROUGH += [
    rough(0.114, "StdAggregation", gnn.aggr.StdAggregation(), GROUPS, None, 4),
    rough(0.290, "SoftmaxAggregation", gnn.SoftmaxAggregation(0.5), GROUPS, None, 4),
    rough(1.53, "PowerMeanAggregation", gnn.PowerMeanAggregation(2.0), GROUPS, None, 4),
]

CASES = [*ACTIVATIONS, *FUNCTIONS, *LAYERS, *ROUGH, *MAXIMA, *AGGREGATIONS]
