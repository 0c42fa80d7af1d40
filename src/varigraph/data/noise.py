"""Noise on the features: adding it, and reading how much a graph says it has."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch_geometric.data import Data

from varigraph.data.graph_parts import feature_variance, finite_features
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
