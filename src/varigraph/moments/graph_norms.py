"""Norms over whole graphs: what they subtract and divide by moves with every node of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric import nn as gnn
from torch_geometric.utils import scatter

from varigraph.moments.cotangents import Cotangents
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.layers import layer_norm, scaled, shifted, without
from varigraph.moments.propagation import current, recorded
from varigraph.moments.registry import implements
from varigraph.moments.tape import Operator
from varigraph.sparse import Sparse

#: Nodes of a graph beyond which a statistic is taken as certain: a node moves it by 1 / n of what
#: moves the node, and every node of the graph would be reached from every other.
MOST_NODES = 512
NOTE = f"at the expected spread; graphs of more than {MOST_NODES} nodes as if it were certain"


@implements(gnn.GraphNorm, exactness="approximate", note=NOTE)
def graph_norm(
    layer: gnn.GraphNorm,
    x: Gaussian,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Gaussian:
    r"""Moments of :math:`w (x_u - \alpha m) / S + b` per graph, :math:`m = \sum_v x_v / n`.

    With the expected :math:`S^2 = \sum_v E[(x_v - \alpha m)^2] / n + \epsilon` and
    :math:`z = (\mu - \alpha \bar\mu) / S`, feature by feature

    .. math::
        \frac{\partial y_u}{\partial x_v} = \frac{w}{S} \Bigl(\delta_{uv} - \frac{\alpha}{n}
            - \frac{z_u t_v}{n}\Bigr) \qquad t_v = (\mu_v - \alpha (2 - \alpha) \bar\mu) / S
    """
    current().approximates("GraphNorm")
    graphs, alpha = _Graphs.of(x, batch, batch_size), layer.mean_scale
    middle = graphs.mean(x.mean)
    center = alpha * middle
    kept = 1 - alpha * (2 - alpha) / graphs.size
    spread = graphs.mean((x.mean - center).square()) + kept * graphs.mean(x.var)
    factor = (spread + layer.eps).rsqrt()
    y = scaled(x, factor, center, layer.weight, layer.bias)
    z, turned = (x.mean - center) * factor, (x.mean - alpha * (2 - alpha) * middle) * factor
    shared = [Shared.of_means(z, graphs.size / alpha), Shared(z, turned / graphs.size)]
    return graphs.responding(x, y, factor * layer.weight, shared)


@implements(gnn.LayerNorm, exactness="approximate", note=NOTE)
def graph_layer_norm(
    layer: gnn.LayerNorm,
    x: Gaussian,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Gaussian:
    r"""Moments of torch_geometric's layer norm, over one node or over all nodes of a graph.

    Over the N numbers of a graph, with the expected spread :math:`S^2` and
    :math:`z = (\mu - \bar\mu) / S`

    .. math::
        \frac{\partial y_i}{\partial x_j} = \frac{w_i}{S} \Bigl(\delta_{ij} - \frac{1}{N}
            - \frac{z_i z_j}{N}\Bigr)
    """
    if layer.mode == "node":
        return layer_norm(x, [layer.in_channels], layer.weight, layer.bias, layer.eps)
    current().approximates("LayerNorm")
    graphs = _Graphs.of(x, batch, batch_size)
    numbers = graphs.size * x.mean.shape[1]
    center = graphs.mean(x.mean.mean(1, keepdim=True))
    squares = (x.mean - center).square() + x.var * (1 - 1 / numbers)
    spread = graphs.mean(squares.mean(1, keepdim=True))
    # The layer adds its epsilon outside the root where it is given no batch.
    root = (spread + layer.eps).sqrt() if batch is not None else spread.sqrt() + layer.eps
    own = spread.sqrt().clamp_min(layer.eps) if batch is None else root
    y = scaled(x, 1 / root, center, layer.weight, layer.bias)
    z = (x.mean - center) / root
    shared = [
        Shared.of_means(z, numbers, across=True),
        Shared(z * root / own, z / numbers, across=True),
    ]
    slope = 1 / root if layer.weight is None else layer.weight / root
    return graphs.responding(x, y, slope, shared)


@implements(gnn.PairNorm, exactness="approximate", note=NOTE)
def pair_norm(
    layer: gnn.PairNorm,
    x: Gaussian,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Gaussian:
    r"""Moments of :math:`c\,d_u / S`, :math:`d_u = x_u - \sum_v x_v / n`, per graph or per node.

    .. math::
        S^2 = \frac1n \sum_v \|d_v\|^2 + \epsilon \qquad
        \frac{\partial y_i}{\partial d_j} = \frac{c}{S} \Bigl(\delta_{ij} - \frac{z_i z_j}{n}\Bigr)
        \qquad z = E[d] / S

    with the expected square; or :math:`S = \|d_u\| + \epsilon` for each node.
    """
    current().approximates("PairNorm")
    graphs = _Graphs.of(x, batch, batch_size)
    if layer.scale_individually:
        return _by_length(graphs.centered(x), layer.scale, layer.eps)
    center = graphs.mean(x.mean)
    squares = (x.mean - center).square() + (1 - 1 / graphs.size) * x.var
    factor = (graphs.mean(squares.sum(1, keepdim=True)) + layer.eps).rsqrt()
    slope, z = (factor * layer.scale).expand_as(x.mean), (x.mean - center) * factor
    shared = [Shared.of_means(z, graphs.size), Shared(z, z / graphs.size, across=True)]
    return graphs.responding(x, scaled(x, slope, center, None, None), slope, shared)


def _by_length(d: Gaussian, scale: float, eps: float) -> Gaussian:
    r""":math:`c\,d / (L + \epsilon)`, whose derivative has :math:`d d' / (L (L + \epsilon))`."""
    length = (d.mean.square() + d.var).sum(1, keepdim=True).sqrt()
    factor = scale / (length + eps)
    along = d.mean / (length * (length + eps)).sqrt().clamp_min(eps)
    return without(along[:, None], d, d.mean * factor, factor.expand_as(d.mean))


@dataclass(frozen=True)
class _Graphs:
    """The graphs of a batch.

    Args:
        graph: of each node, ``[nodes]``.
        count: how many there are.
        size: number of nodes of each node's graph, ``[nodes, 1]``.
    """

    graph: Tensor
    count: int
    size: Tensor

    @classmethod
    def of(cls, x: Gaussian, batch: Tensor | None, count: int | None) -> _Graphs:
        if batch is None:
            batch, count = torch.zeros(len(x), dtype=torch.long, device=x.mean.device), 1
        count = int(batch.max()) + 1 if count is None else count
        size = torch.bincount(batch, minlength=count).clamp_min(1).to(x.mean)
        return cls(batch, count, size[batch][:, None])

    def mean(self, values: Tensor) -> Tensor:  # [nodes, features], of each node's graph
        found: Tensor = scatter(values, self.graph, 0, self.count, "mean")[self.graph]
        return found

    def centered(self, x: Gaussian) -> Gaussian:
        r""":math:`x_u - \sum_v x_v / n`."""
        ones = torch.ones_like(x.mean)
        y = shifted(x, -self.mean(x.mean))
        return self.responding(x, y, ones, [Shared.of_means(ones, self.size)])

    def responding(
        self, x: Gaussian, frozen: Gaussian, slope: Tensor, shared: Sequence[Shared]
    ) -> Gaussian:
        """A value that responds to all nodes of its graph.

        Args:
            x: what it responds to.
            frozen: the same value if its statistics are certain, which is what they are taken for
                where a graph is too large.
            slope: its own response to each node.
            shared: what is taken away from it, by the statistics.
        """
        if len(x) == 0 or float(self.size.max()) > MOST_NODES:
            return frozen
        slope = slope.expand_as(frozen.mean)
        less = LessShared(slope, tuple(shared), self.graph, self.count, self._pairs(slope))
        return recorded(Gaussian(frozen.mean, less.variances(x.var)), (x, less))

    def _pairs(self, like: Tensor) -> Sparse:
        """Every node and every node of its graph."""
        order = self.graph.argsort(stable=True)
        each = self.size[:, 0].long()
        starts = torch.bincount(self.graph, minlength=self.count).cumsum(0)
        first = (starts[self.graph] - each).repeat_interleave(each)
        within = torch.arange(len(first), device=first.device)
        within = within - (each.cumsum(0) - each).repeat_interleave(each)
        rows = torch.arange(len(each), device=first.device).repeat_interleave(each)
        columns = order[first + within]
        ones = torch.ones_like(columns, dtype=like.dtype)
        return Sparse(rows, columns, ones, (len(each), len(each)))


@dataclass(frozen=True, eq=False)
class Shared:
    r"""One term :math:`r_u \circ \sum_v l_v \circ x_v` over the nodes v of the graph of u.

    Args:
        to: r, ``[nodes, features]``.
        of: l, ``[nodes, features]``.
        across: whether the sum goes over all features as well.
    """

    to: Tensor
    of: Tensor
    across: bool = False

    @classmethod
    def of_means(cls, like: Tensor, numbers: Tensor, *, across: bool = False) -> Shared:
        """The mean, of so many numbers."""
        ones = torch.ones_like(like)
        return cls(ones, ones / numbers, across)

    def led(self, block: Tensor) -> Tensor:  # [nodes, f, ...] -> [nodes, f or 1, ...]
        """What a node gives to the sum, by the first axis of its covariance."""
        led = self.of.to(block)[:, :, None] * block
        return led.sum(1, keepdim=True) if self.across else led


@dataclass(frozen=True, eq=False)
class LessShared(Operator):
    r""":math:`y_u = s_u \circ (x_u - \sum_v P_{uv} x_v)`, where P is what terms share."""

    slope: Tensor  # s, [nodes, features]
    terms: tuple[Shared, ...]
    graph: Tensor  # [nodes]
    count: int  # of graphs, some of which may have no nodes
    matrix: Sparse  # every node and those of its graph

    @property
    def ties(self) -> bool:  # type: ignore[override]  # noqa: D102
        return any(term.across for term in self.terms)

    def back(self, pairs: Cotangents, width: int) -> Cotangents:
        r""":math:`T_v = s_v T_v - \sum_u P_{uv}' s_u T_u`."""
        whole = self._whole_graphs(pairs)
        above = whole.values * self.slope[whole.column].to(whole.values)[:, None]
        terms = [(term.to, term.of, term.across) for term in self.terms]
        return whole.with_values(above - self._shared(whole, above, terms))

    def forward(self, before: Cotangents, pairs: Cotangents, width: int) -> Tensor:
        """The same with both sides exchanged."""
        whole = self._whole_graphs(before)
        terms = [(term.of, term.to, term.across) for term in self.terms]
        left = whole.values - self._shared(whole, whole.values, terms)
        found = whole.with_values(left).at(pairs).values
        return found * self.slope[pairs.column].to(found)[:, None]

    def variances(self, var: Tensor) -> Tensor:  # [nodes, features]
        r""":math:`s_u^2 \bigl((1 - 2 P_{uu}) v_u + \sum_v P_{uv}^2 v_v\bigr)`, number by number.

        In wide numbers: of a graph of one node nothing is left.
        """
        v = var.double()
        left = v
        for one in self.terms:
            left = left - 2 * one.to * one.of * v
            for two in self.terms:
                total = one.of.double() * two.of.double() * v
                total = total.sum(1, keepdim=True) if one.across and two.across else total
                left = left + one.to * two.to * self._totals(total)
        return (left.clamp_min(0) * self.slope.square()).to(var)

    def blocks(self, block: Tensor, mean: Tensor, width: int, out: Tensor | None) -> Tensor:
        r"""With what comes from the other nodes of a graph.

        .. math::
            s_u \bigl(\Sigma_u - P_{uu} \Sigma_u - \Sigma_u P_{uu}'
                + \sum_v P_{uv} \Sigma_v P_{uv}'\bigr) s_u
        """
        if block.dim() == 2 and not self.ties:
            return self.variances(block)
        block = torch.diag_embed(block) if block.dim() == 2 else block
        found = block
        for one in self.terms:
            taken = one.to[:, :, None] * one.led(block)
            found = found - taken - taken.mT
            for two in self.terms:
                total = self._totals(two.led(one.led(block).mT).mT)
                found = found + one.to[:, :, None] * total * two.to[:, None]
        return found * self.slope[:, :, None] * self.slope[:, None]

    @property
    def numbers(self) -> Iterator[Tensor]:  # noqa: D102
        return iter((self.slope, *(part for term in self.terms for part in (term.to, term.of))))

    def _totals(self, values: Tensor) -> Tensor:  # [nodes, ...]
        """Sums over the graph of each node."""
        total = values.new_zeros(self.count, *values.shape[1:])
        return total.index_add_(0, self.graph, values)[self.graph]

    def _shared(
        self, pairs: Cotangents, values: Tensor, terms: Sequence[tuple[Tensor, Tensor, bool]]
    ) -> Tensor:
        """What the nodes of a graph have in common, graph by graph of each output."""
        keys = pairs.row * self.count + self.graph[pairs.column]
        met, place = torch.unique(keys, return_inverse=True)
        shared = torch.zeros_like(values)
        for summed, spread, across in terms:
            part = values * summed[pairs.column].to(values)[:, None]
            part = part.sum(-1, keepdim=True) if across else part
            total = part.new_zeros(len(met), *part.shape[1:]).index_add_(0, place, part)
            shared += total[place] * spread[pairs.column].to(values)[:, None]
        return shared

    def _whole_graphs(self, pairs: Cotangents) -> Cotangents:
        """The same pairs, and all others of the graphs that they belong to."""
        asked, entry = self.matrix.walks(pairs.column)
        keys = torch.unique(pairs.row[asked] * pairs.nodes + self.matrix.columns[entry])
        return pairs if len(keys) == len(pairs.row) else pairs._on(keys)
