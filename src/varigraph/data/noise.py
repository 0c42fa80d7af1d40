"""Noise on the features: adding it, and reading how much a graph says it has."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.graph_parts import features, finite_features, first
from varigraph.errors import GraphError, OptionError
from varigraph.options import number, seed_of


def add_noise(graph: Data, *, percent: float, seed: int = 0) -> Data:
    r"""A copy whose features are seen through noise, drawn once.

    .. math::
        x'_{nf} = x_{nf} + \varepsilon_{nf}, \qquad
        \varepsilon_{nf} \sim \mathcal{N}(0, \sigma^2), \qquad
        \sigma^2 = \tfrac{\mathrm{percent}}{100} \, \operatorname{mean}(x)

    The copy carries :math:`\sigma^2` as ``x_var``; everything but ``x`` is shared with the graph.

    Args:
        graph: with clean features ``x``. It stays as it is.
        percent: noise variance in percent of the mean feature value over all nodes.
        seed: of the draw; the global random state stays as it was.

    Raises:
        OptionError: if the percentage is negative, NaN or infinite.
        GraphError: if the mean feature value is not positive, or the features are noisy already.

    Example:
        >>> from varigraph.data import load
        >>> noisy = add_noise(load("cora"), percent=12)
        >>> round(noisy.x_var.item(), 7)  # 0.12 / 1433, as every row of Cora sums to 1
        8.37e-05
    """
    remedy = "give a finite number from 0 up: percent=5"
    percent = number("percent", percent, lambda share: share >= 0, remedy=remedy)
    seed = seed_of(seed)
    x = finite_features(graph)
    _check_clean(graph)
    var = x.new_tensor(percent / 100 * _scale(x) if percent else 0.0)
    if not bool(var.isfinite()):
        raise OptionError(f"percent={percent:.4g} of the mean feature is beyond {x.dtype}", remedy)
    draw = torch.Generator().manual_seed(seed)
    # Drawn on the CPU, as the mean is taken there: the same noise on every device.
    noise = torch.randn(x.shape, generator=draw, dtype=x.dtype).to(x.device)
    noisy = copy.copy(graph)
    noisy.x, noisy.x_var = x + var.sqrt() * noise, var
    return noisy


def feature_variance(graph: Data) -> Tensor:  # -> [nodes, features]
    r"""Variance :math:`\sigma^2_{nf}` of every feature, from ``graph.x_var``.

    ``x_var`` is a number for all, a vector ``[features]``, a column ``[nodes, 1]`` or a full
    matrix ``[nodes, features]``; without it the features count as exact and the variance is 0. A
    vector always means features, even where there are as many nodes.

    Args:
        graph: with features ``x``, whose dtype and device the variance takes on.

    Returns:
        A matrix that may share memory with ``x_var``, so read it only.

    Raises:
        GraphError: if ``x_var`` fits no such shape, or is negative, NaN or infinite anywhere.
    """
    x = features(graph)
    var = _variance(getattr(graph, "x_var", None), x)
    nodes, columns = x.shape
    if tuple(var.shape) not in {(), (columns,), (nodes, 1), (nodes, columns)}:
        raise GraphError(
            f"x_var has shape {tuple(var.shape)}, but x has {nodes} nodes and {columns} features",
            "give a number, [features], [nodes, 1] or [nodes, features]; "
            "one variance for each node is graph.x_var.view(-1, 1)",
        )
    bad = ~(var.isfinite() & (var >= 0))
    if bad.any():
        index = first(bad)
        raise GraphError(
            f"x_var{index or ''} is {var[tuple(index)].item()}",
            "give finite variances from 0 up; features without noise have variance 0",
        )
    return var.expand_as(x)


def _variance(value: Any, x: Tensor) -> Tensor:
    if value is None:
        return x.new_zeros(())
    try:
        # By way of numpy a Python number keeps its 64 bits until the dtype of x is known.
        var = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"x_var is a {type(value).__name__} that makes no tensor",
            "give a number or a tensor: graph.x_var = torch.tensor(0.1)",
        ) from error
    real = not (var.is_complex() or var.is_quantized or var.dtype == torch.bool)
    if not real or var.layout != torch.strided or var.is_meta:
        raise GraphError(
            f"x_var is a {var.layout} tensor of {var.dtype} on {var.device}, not a dense one of "
            "real numbers",
            "give the variances themselves: graph.x_var = torch.tensor(0.1)",
        )
    return var.to(x)


def _scale(x: Tensor) -> float:
    mean = x.detach().cpu().mean(dtype=torch.float64).item()
    if mean <= 0:
        raise GraphError(
            f"the mean feature value is {mean:.4g}, and a percentage of it has no meaning as noise",
            "set the noise variance directly: graph.x_var = torch.tensor(0.1)",
        )
    return mean


def _check_clean(graph: Data) -> None:
    if feature_variance(graph).any():
        raise GraphError(
            "the features are noisy already (x_var is not 0); a second draw would hide the first",
            "add noise to the clean graph, once",
        )
