"""Normalisation layers: their statistics are frozen, what remains is a scale and a shift."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as gnn
from torch_geometric.utils import scatter

from varigraph.errors import ModelError
from varigraph.moments.by_rows import by_node
from varigraph.moments.gaussian import Gaussian
from varigraph.moments.linear import rescaled
from varigraph.moments.propagation import current
from varigraph.moments.registry import implements

FROZEN = "statistics frozen at the mean"


@implements(F.batch_norm, exactness="exact", modules=[nn.BatchNorm1d], note="in evaluation mode")
@by_node
def batch_norm(
    x: Gaussian,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Gaussian:
    r"""Moments of :math:`(x - m) / \sqrt{s + \epsilon} \cdot w + b` with running :math:`m, s`."""
    if training or running_mean is None or running_var is None:
        raise ModelError(
            "batch norm without running statistics depends on all nodes at once",
            "train it with track_running_stats=True",
        )
    return scaled(x, (running_var + eps).rsqrt(), running_mean, weight, bias)


@implements(F.layer_norm, exactness="approximate", modules=[nn.LayerNorm], note=FROZEN)
@by_node
def layer_norm(
    x: Gaussian,
    normalized_shape: list[int] | tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Gaussian:
    r"""Moments of :math:`(x - \bar\mu) / \sqrt{s_\mu^2 + \epsilon} \cdot w + b`.

    Mean and spread are those of the means: their own randomness is left out.
    """
    current().approximates("LayerNorm")
    axes = tuple(range(-len(normalized_shape), 0))
    center = x.mean.mean(axes, keepdim=True)
    spread = (x.mean - center).square().mean(axes, keepdim=True)
    return scaled(x, (spread + eps).rsqrt(), center, weight, bias)


@implements(F.normalize, exactness="approximate", note="length frozen at the mean")
@by_node
def normalize(
    x: Gaussian, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
) -> Gaussian:
    r"""Moments of :math:`x / \|\mu\|_p`: the randomness of the length is left out."""
    current().approximates("normalize")
    length = x.mean.norm(p, dim, keepdim=True).clamp_min(eps)
    return rescaled(x, x.mean / length, 1 / length)


@implements(gnn.GraphNorm, exactness="approximate", note=FROZEN)
def graph_norm(
    layer: gnn.GraphNorm,
    x: Gaussian,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Gaussian:
    r"""Moments of :math:`w (x - \alpha \bar\mu_g) / \sqrt{s_g^2 + \epsilon} + b` per graph g."""
    current().approximates("GraphNorm")
    graph, graphs = _graphs(x, batch, batch_size)
    center = (scatter(x.mean, graph, 0, graphs, "mean") * layer.mean_scale)[graph]
    spread = scatter((x.mean - center).square(), graph, 0, graphs, "mean")[graph]
    return scaled(x, (spread + layer.eps).rsqrt(), center, layer.weight, layer.bias)


@implements(gnn.LayerNorm, exactness="approximate", note=FROZEN)
def graph_layer_norm(
    layer: gnn.LayerNorm,
    x: Gaussian,
    batch: Tensor | None = None,
    batch_size: int | None = None,
) -> Gaussian:
    r"""Moments of torch_geometric's layer norm, over one node or over all nodes of a graph."""
    if layer.mode == "node":
        return layer_norm(x, [layer.in_channels], layer.weight, layer.bias, layer.eps)
    current().approximates("LayerNorm")
    graph, graphs = _graphs(x, batch, batch_size)
    center = scatter(x.mean.mean(-1), graph, 0, graphs, "mean")[graph, None]
    spread = scatter((x.mean - center).square().mean(-1), graph, 0, graphs, "mean")[graph, None]
    if batch is None:  # the layer adds its epsilon outside the root only here
        return scaled(x, 1 / (spread.sqrt() + layer.eps), center, layer.weight, layer.bias)
    return scaled(x, (spread + layer.eps).rsqrt(), center, layer.weight, layer.bias)


def scaled(
    x: Gaussian, factor: Tensor, center: Tensor, weight: Tensor | None, bias: Tensor | None
) -> Gaussian:
    r"""Moments of :math:`(x - c) f \cdot w + b`."""
    slope = factor if weight is None else factor * weight
    mean = (x.mean - center) * slope
    return rescaled(x, mean if bias is None else mean + bias, slope)


def _graphs(x: Gaussian, batch: Tensor | None, batch_size: int | None) -> tuple[Tensor, int]:
    if batch is None:
        return torch.zeros(len(x), dtype=torch.long, device=x.mean.device), 1
    return batch, int(batch.max()) + 1 if batch_size is None else batch_size
