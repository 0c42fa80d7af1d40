"""Kernels of this package next to what torch does by itself, on a GPU and a products-size graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import varigraph.kernels
from varigraph.kernels import neighbour_sums as sums
from varigraph.kernels.philox import philox_dropped
from varigraph.moments import Gaussian
from varigraph.moments.activations import relu
from varigraph.moments.neighbours import Neighbours, neighbours_of
from varigraph.moments.softmax import class_probabilities, normal_points
from varigraph.studies.speed.workload import PRODUCTS, power_law_links

Record = dict[str, Any]
WIDTHS = (47, 100, 128, 256)


def kernels() -> list[Record]:
    """Milliseconds of each, and for sums the share of the copy bandwidth, one row per link."""
    graph, device = PRODUCTS, torch.device("cuda")
    nodes = graph.nodes or 0
    draw = torch.Generator().manual_seed(0)
    links = power_law_links(nodes, graph.links, draw, graph.exponent, device)
    neighbours = neighbours_of(links, None, nodes, dtype=torch.float32, average=True)
    bandwidth = _bandwidth(device)
    found: list[Record] = [{"what": "copy", "bandwidth": bandwidth}]
    with torch.no_grad():
        found += [_sum(neighbours, width, bandwidth) for width in WIDTHS]
        found += [_moments(neighbours, width, bandwidth) for width in WIDTHS[:2]]
        found += [_by_degree(links, nodes, bandwidth), _halves(neighbours, bandwidth)]
        hidden = Gaussian(
            torch.randn(nodes, 256, device=device), torch.rand(nodes, 256, device=device)
        )
        found += [_masks(hidden), _relu(hidden)]
        del hidden
        found.append(_softmax(nodes, device))
    return found


def milliseconds(work: Callable[[], object], repeats: int = 20) -> float:
    """Median, by the GPU's own clock, after three that are not counted."""
    times = []
    for number in range(repeats + 3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        if number >= 3:
            times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def _bandwidth(device: torch.device) -> float:
    """Bytes read and written by a copy, in GB/s."""
    one = torch.randn(2**30, device=device)
    two = torch.empty_like(one)
    return 8 * one.numel() / milliseconds(lambda: two.copy_(one)) / 1e6


def _share(neighbours: Neighbours, width: int, ms: float, bandwidth: float) -> float:
    return len(neighbours.source) * width * 4 / ms / 1e6 / bandwidth


def _difference(one: Tensor, two: Tensor) -> float:
    return float((one - two).abs().max() / two.abs().mean())


def _sum(neighbours: Neighbours, width: int, bandwidth: float) -> Record:
    x, matrix = torch.randn(neighbours.nodes, width, device="cuda"), neighbours.expected
    ours, torchs = milliseconds(lambda: matrix @ x), milliseconds(lambda: matrix.csr @ x)
    return {
        "what": f"sum of {width} features over neighbours",
        "ours": ours,
        "torch": torchs,
        "share": _share(neighbours, width, ours, bandwidth),
        "torch_share": _share(neighbours, width, torchs, bandwidth),
        "difference": _difference(matrix @ x, matrix.csr @ x),
    }


def _moments(neighbours: Neighbours, width: int, bandwidth: float) -> Record:
    mean, var = torch.randn(2, neighbours.nodes, width, device="cuda").unbind()
    var, once, twice = var.abs(), neighbours.expected, neighbours.square
    rows, packed = once.for_kernels, sums._packed(mean, var)
    product = milliseconds(lambda: sums._summed(rows, packed, 2 * width, width))
    ours = milliseconds(lambda: once.moments(mean, var))
    torchs = milliseconds(lambda: (once.csr @ mean, twice.csr @ var))
    return {
        "what": f"mean and variance of {width} features over neighbours",
        "ours": ours,
        "torch": torchs,
        "share": _share(neighbours, 2 * width, product, bandwidth),
        "torch_share": _share(neighbours, 2 * width, torchs, bandwidth),
        "difference": _difference(once.moments(mean, var)[1], twice.csr @ var),
    }


def _by_degree(links: Tensor, nodes: int, bandwidth: float) -> Record:
    """Nodes numbered by falling degree, so that those that are read often lie side by side."""
    place = links[0].bincount(minlength=nodes).argsort(descending=True).argsort()
    sorted_ = neighbours_of(place[links], None, nodes, dtype=torch.float32, average=True)
    found = _sum(sorted_, 100, bandwidth)
    return {**found, "what": "sum of 100 features, nodes numbered by degree"}


def _halves(neighbours: Neighbours, bandwidth: float) -> Record:
    """Mean and variance of 47 features, stored in 16 bits and summed in 32."""
    x = torch.randn(neighbours.nodes, 96, device="cuda")
    rows, out = neighbours.expected.for_kernels, torch.empty_like(x)
    half = x.half()

    def product() -> Tensor:
        sums._sum[len(rows.order), 1](
            *rows[:4], half, out, 24, 96, 96,
            EVEN=rows.even, FEATURES=128, GATHERED=8, TOGETHER=4, num_warps=1,
        )  # fmt: skip
        return out

    ms, torchs = milliseconds(product), milliseconds(lambda: neighbours.expected @ x)
    return {
        "what": "96 features stored in 16 bits (tried, not used); beside it 32 bits",
        "ours": ms,
        "torch": torchs,
        "share": _share(neighbours, 48, ms, bandwidth),
        "difference": _difference(product(), neighbours.expected.csr @ x),
    }


def _masks(hidden: Gaussian) -> Record:
    mean, var, counter = hidden.mean, hidden.var, (0, 0, 0, 1)

    def drawn() -> tuple[Tensor, Tensor]:
        mask = torch.empty_like(mean).bernoulli_(0.5).mul_(2)
        return mean * mask, var * mask.square()

    ours = milliseconds(lambda: philox_dropped(mean, var, counter, key=0, dropped=2**15, scale=2.0))
    return {"what": "a mask on 256 features", "ours": ours, "torch": milliseconds(drawn)}


def _relu(hidden: Gaussian) -> Record:
    apply = relu
    ours = milliseconds(lambda: apply(hidden))
    there = apply(hidden)
    varigraph.kernels.INSTALLED = False
    try:
        plain = milliseconds(lambda: apply(hidden), repeats=5)
        difference = _difference(there.var, apply(hidden).var)
        compiled = torch.compile(lambda mean, var: _pair(apply(Gaussian(mean, var))))
        ms = milliseconds(lambda: compiled(hidden.mean, hidden.var))
    finally:
        varigraph.kernels.INSTALLED = True
    return {
        "what": "ReLU of 256 features",
        "ours": ours,
        "torch": plain,
        "compiled": ms,
        "difference": difference,
    }


def _pair(value: Gaussian) -> tuple[Tensor, Tensor]:
    return value.mean, value.var


def _softmax(nodes: int, device: torch.device) -> Record:
    logits = Gaussian(
        torch.randn(1, nodes, 47, device=device), torch.rand(1, nodes, 47, device=device)
    )
    points = normal_points(100, 47)[:1]
    ours, there = milliseconds(lambda: class_probabilities(logits, points)), None
    there = class_probabilities(logits, points)
    varigraph.kernels.INSTALLED = False
    try:
        plain = milliseconds(lambda: class_probabilities(logits, points), repeats=1)
        difference = _difference(there.var, class_probabilities(logits, points).var)
    finally:
        varigraph.kernels.INSTALLED = True
    what = f"softmax of 47 classes over {points.shape[1]} points"
    return {"what": what, "ours": ours, "torch": plain, "difference": difference}
