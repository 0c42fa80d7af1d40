"""The contenders of a benchmark: plain forwards, dropout, equation 13 by hand, and this library."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import scatter

from varigraph.moments.softmax import points_per_mask
from varigraph.prediction import predict
from varigraph.prediction.memory import as_bytes
from varigraph.prediction.sources.features import FEATURES
from varigraph.prediction.sources.weights import WEIGHTS
from varigraph.studies.speed.workload import Workload
from varigraph.training import PaperNetwork


@dataclass(frozen=True, eq=False)
class ContenderAnswer:
    """Logits and class probabilities, ``[nodes, classes]`` each.

    Args:
        logits: their mean.
        logits_var: their variance; None from a plain forward.
        mean: of the class probabilities.
        total: variance of the class probabilities.
    """

    logits: Tensor
    logits_var: Tensor | None = None
    mean: Tensor | None = None
    total: Tensor | None = None


#: Numbers per node and mask that a forward holds at once: a few layers of 64.
NUMBERS = 512
#: Nodes that are answered for where a whole graph would take too long.
SOME = 1000


def plain(workload: Workload) -> ContenderAnswer:
    """One forward with ``edge_index``: what everything is compared with."""
    return _forward(workload, workload.graph.edge_index)


def plain_csr(workload: Workload) -> ContenderAnswer:
    """One forward with the links in compressed rows, which torch_geometric takes as well."""
    return _forward(workload, workload.adjacency)


def dropout_loop(workload: Workload) -> ContenderAnswer:
    """As many forwards with dropout left on as there are masks."""
    return _dropout_loop(workload, workload.graph.edge_index)


def dropout_loop_csr(workload: Workload) -> ContenderAnswer:
    """The same with the links in compressed rows."""
    return _dropout_loop(workload, workload.adjacency)


def dropout_vmap(workload: Workload) -> ContenderAnswer:
    """The same loop by ``torch.func.vmap``, as many masks at a time as fit in memory.

    With compressed rows, for which vmap has no rule and goes from mask to mask: with
    ``edge_index``, for which it has one, it takes twice as long.
    """
    graph, model, links = workload.graph, workload.model, workload.adjacency
    weights: dict[str, Tensor] = dict(model.named_parameters())
    at_once = as_bytes(workload.memory) // (NUMBERS * graph.num_nodes * graph.x.element_size())

    def forward(_: Tensor) -> Tensor:
        logits: Tensor = torch.func.functional_call(model, weights, (graph.x, links))
        return logits

    with torch.no_grad(), dropout_on(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        many = torch.vmap(forward, randomness="different", chunk_size=max(1, at_once))
        return summary(many(torch.arange(workload.looped, device=graph.x.device)))


def summary(logits: Tensor) -> ContenderAnswer:  # [masks, nodes, classes]
    """Mean and variance over masks.

    Args:
        logits: under each mask.
    """
    chances = logits.softmax(-1)
    return ContenderAnswer(
        logits.mean(0), logits.var(0, correction=0), chances.mean(0), chances.var(0, correction=0)
    )


@contextmanager
def dropout_on(model: nn.Module) -> Iterator[None]:
    """Within it, dropout acts.

    Args:
        model: without batch norms, which would have to be left out.
    """
    model.train()
    try:
        yield
    finally:
        model.eval()


@torch.no_grad()
def _forward(workload: Workload, links: Tensor) -> ContenderAnswer:
    return ContenderAnswer(workload.model(workload.graph.x, links))


@torch.no_grad()
def _dropout_loop(workload: Workload, links: Tensor) -> ContenderAnswer:
    with dropout_on(workload.model):
        found = [workload.model(workload.graph.x, links) for _ in range(workload.looped)]
    return summary(torch.stack(found))


PACKAGE = "torch_uncertainty"


def has_torch_uncertainty() -> bool:
    """Whether the package is there."""
    return find_spec(PACKAGE) is not None


@torch.no_grad()
def torch_uncertainty(workload: Workload) -> ContenderAnswer:
    """Its ``mc_dropout`` around the network, with the links in compressed rows.

    It switches ``nn.Dropout`` modules only, and passes on only ``x``: the network is rewritten
    with modules and knows its links. Repeating ``x`` along its first axis would make another
    graph, so it loops over masks.
    """
    model = _WithModules(cast(PaperNetwork, workload.model), workload.adjacency)
    wrapper = import_module(f"{PACKAGE}.methods").mc_dropout
    many = wrapper(model, num_estimators=workload.looped, on_batch=False).eval()
    found: Tensor = many(workload.graph.x)
    return summary(found.unflatten(0, (workload.looped, -1)))


class _WithModules(nn.Module):
    """The paper's network with modules for dropout, on one graph."""

    def __init__(self, network: PaperNetwork, links: Tensor) -> None:
        super().__init__()
        self.convs = nn.ModuleList([network.conv1, network.conv2])
        self.dense = nn.ModuleList([network.dense1, network.dense2])
        self.drops = nn.ModuleList(nn.Dropout(network.dropout) for _ in range(4))
        self.last, self.links = network.dense3, links

    def forward(self, x: Tensor) -> Tensor:  # [nodes, features] -> [nodes, classes]
        """Logits of the classes."""
        for conv, drop in zip(self.convs, self.drops[:2], strict=True):
            x = drop(conv(x, self.links))
        for dense, drop in zip(self.dense, self.drops[2:], strict=True):
            x = drop(dense(x))
        logits: Tensor = self.last(x)
        return logits


#: Gives the scaled mask of a place in the network, by its number and the shape that it meets.
Draw = Callable[[int, torch.Size], Tensor]
Pair = tuple[Tensor, Tensor]


def equation_13(workload: Workload) -> ContenderAnswer:
    """Mean and variance for every mask, one message for every link."""
    return looped(workload, workload.graph.edge_index)


def equation_13_csr(workload: Workload) -> ContenderAnswer:
    """The same with the links in compressed rows."""
    return looped(workload, workload.adjacency)


@torch.no_grad()
def looped(
    workload: Workload, links: Tensor, draw: Callable[[int], Draw] | None = None
) -> ContenderAnswer:
    r"""Total variance over T masks, of logits and of class probabilities.

    .. math::
        \text{total} = \frac{1}{T} \sum_t v_t + \frac{1}{T} \sum_t (m_t - \bar m)^2

    Args:
        workload: the paper's network and a graph without loops or repeated links, whose noise
            would come in more than once.
        links: ``edge_index``, or the transposed adjacency in compressed rows.
        draw: masks by the number of the pass; torch's own generator if left out.
    """
    model = cast(PaperNetwork, workload.model)
    x, classes = workload.graph.x, model.dense3.out_features
    var = torch.as_tensor(workload.graph.x_var, device=x.device).expand_as(x)
    points = points_per_mask(workload.masks, classes) // 2
    logits, chances = [], []
    for number in range(workload.looped):
        masks = draw(number) if draw is not None else _bernoulli(x, model.dropout)
        moments = _one_mask(model, x, var, links, masks)
        half = torch.randn(points, classes, dtype=x.dtype, device=x.device)
        logits.append(moments)
        chances.append(_softmax(*moments, torch.cat([half, -half])))
    return ContenderAnswer(*_total(logits), *_total(chances))


def _one_mask(model: PaperNetwork, x: Tensor, var: Tensor, links: Tensor, draw: Draw) -> Pair:
    """Mean and variance of the logits under one mask for each hidden representation."""
    hidden = _dropped(*_convolved(model.conv1, x, var, links), draw, 0)
    hidden = _dropped(*_convolved(model.conv2, *hidden, links), draw, 1)
    hidden = _dropped(*_dense(model.dense1, *hidden), draw, 2)
    hidden = _dropped(*_dense(model.dense2, *hidden), draw, 3)
    return _dense(model.dense3, *hidden)


def _convolved(conv: SAGEConv, mean: Tensor, var: Tensor, links: Tensor) -> Pair:
    """Theorem 1 with certain links: the mean is the layer itself, the variance its squares."""
    summed, degree = _neighbour_sum(var, links)
    from_neighbours = summed / degree.clamp_min(1)[:, None].square()
    own = var @ conv.lin_r.weight.square().T
    return conv(mean, links), from_neighbours @ conv.lin_l.weight.square().T + own


def _neighbour_sum(values: Tensor, links: Tensor) -> Pair:  # [nodes, n] -> [nodes, n], [nodes]
    if links.layout == torch.sparse_csr:
        return links @ values, links.crow_indices().diff()
    source, target = links
    summed = scatter(values[source], target, dim=0, dim_size=len(values), reduce="sum")
    return summed, target.bincount(minlength=len(values))


def _dense(layer: torch.nn.Linear, mean: Tensor, var: Tensor) -> Pair:
    return layer(mean), var @ layer.weight.square().T


def _dropped(mean: Tensor, var: Tensor, draw: Draw, place: int) -> Pair:
    mask = draw(place, mean.shape)
    return mean * mask, var * mask.square()


def _bernoulli(like: Tensor, rate: float) -> Draw:
    def draw(place: int, shape: torch.Size) -> Tensor:
        return like.new_empty(shape).bernoulli_(1 - rate) / (1 - rate)

    return draw


def _softmax(mean: Tensor, var: Tensor, points: Tensor) -> Pair:  # points: [points, classes]
    drawn = (mean + var.sqrt() * points[:, None]).softmax(-1)  # [points, nodes, classes]
    return drawn.mean(0), drawn.var(0, correction=0)


def _total(moments: list[Pair]) -> Pair:
    means, variances = (torch.stack(part) for part in zip(*moments, strict=True))
    return means.mean(0), variances.mean(0) + means.var(0, correction=0)


PLAIN, CSR = "plain forward", "plain forward, CSR"
ONE_PASS, DIAGONAL = "vg: diagonal, one pass", "vg: diagonal, T masks"
ONLY_FEATURES, ONLY_WEIGHTS, BOTH = (FEATURES,), (WEIGHTS,), (FEATURES, WEIGHTS)


@dataclass(frozen=True)
class Contender:
    """One way to an answer.

    Args:
        name: in the table.
        run: does it once.
        sources: what its variances are about; none for a plain forward.
        loops: whether it goes from mask to mask, so that a mask takes as long as any other.
    """

    name: str
    run: Callable[[Workload], ContenderAnswer]
    sources: tuple[str, ...] = ()
    loops: bool = False


def _predicted(workload: Workload, **options: Any) -> ContenderAnswer:
    found = predict(
        workload.model, workload.graph, seed=workload.seed, memory=workload.memory, **options
    )
    return ContenderAnswer(found.logits.mean, found.logits.var, found.mean, found.total)


def _some_nodes(workload: Workload) -> ContenderAnswer:
    """First-order for so many nodes as somebody looks at, spread over the graph."""
    step = max(1, workload.graph.num_nodes // SOME)
    nodes = torch.arange(0, workload.graph.num_nodes, step)[:SOME]
    return _predicted(workload, method="first-order", nodes=nodes)


def _masked(workload: Workload, method: str) -> ContenderAnswer:
    return _predicted(workload, method=method, samples=workload.masks)


ALL = (
    Contender(PLAIN, plain),
    Contender(CSR, plain_csr),
    Contender("dropout, T passes", dropout_loop, ONLY_WEIGHTS, loops=True),
    Contender("dropout, T passes, CSR", dropout_loop_csr, ONLY_WEIGHTS, loops=True),
    Contender("dropout, vmap, CSR", dropout_vmap, ONLY_WEIGHTS, loops=True),
    Contender("torch-uncertainty, CSR", torch_uncertainty, ONLY_WEIGHTS, loops=True),
    Contender("equation 13 by hand", equation_13, BOTH, loops=True),
    Contender("equation 13 by hand, CSR", equation_13_csr, BOTH, loops=True),
    Contender(
        ONE_PASS,
        partial(_predicted, method="diagonal", sources=ONLY_FEATURES, samples=0),
        ONLY_FEATURES,
    ),
    Contender(DIAGONAL, partial(_masked, method="diagonal"), BOTH),
    Contender("vg: covariance", partial(_predicted, method="covariance"), BOTH),
    Contender(
        "vg: first-order, features",
        partial(_predicted, method="first-order", sources=ONLY_FEATURES),
        ONLY_FEATURES,
    ),
    Contender("vg: first-order", partial(_predicted, method="first-order"), BOTH),
    Contender("vg: sampled, T draws", partial(_masked, method="sampled"), BOTH),
)
#: On graphs too large to be answered for as a whole.
FIRST_ORDER_SOME = Contender(f"vg: first-order, {SOME:,} nodes", _some_nodes, BOTH)
BY_NAME = {contender.name: contender for contender in (*ALL, FIRST_ORDER_SOME)}


def present() -> list[Contender]:
    """Those that can run here."""
    there = has_torch_uncertainty()
    return [each for each in ALL if there or each.run is not torch_uncertainty]
