"""What training makes small: cross entropy, of one answer or expected over uncertain logits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from varigraph.errors import ModelError
from varigraph.moments.softmax_moments import normal_points

#: Points that stand for the normal distribution of a node's logits.
POINTS = 64
#: Variance of a logit below which noise does not matter; the root of a covariance needs some.
FLOOR = 1e-6


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:  # [nodes, classes], [nodes] -> []
    r"""Mean of :math:`-\log \operatorname{softmax}(z)_y`.

    Args:
        logits: the network's answers.
        labels: true classes.

    Raises:
        ModelError: if a class occurs that the network has no output for.
    """
    if logits.dim() != 2 or logits.size(1) <= labels.max():
        raise ModelError(
            f"the model answers with shape {tuple(logits.shape)}, but class {labels.max()} occurs",
            "give it one output per class",
        )
    return F.cross_entropy(logits, labels.long())


def cost_of_noise(mean: Tensor, covariance: Tensor) -> Tensor:  # [n, c], [n, c, c] -> []
    r"""What uncertain logits :math:`z \sim N(\mu, \Sigma)` add to the expected cross entropy.

    .. math::
        E\left[-\log \operatorname{softmax}(z)_y\right]
        = -\log \operatorname{softmax}(\mu)_y + E[\operatorname{lse}(z)] - \operatorname{lse}(\mu)

    The last difference does not depend on the label and is never negative (Jensen). The
    expectation is a mean over fixed points with the moments of a normal distribution, so the loss
    is as smooth in the weights as the network is.

    Args:
        mean: mean logits.
        covariance: their covariance, node by node.

    Example:
        >>> mean, covariance = torch.zeros(1, 2), torch.tensor([[[0.01, 0.0], [0.0, 0.01]]])
        >>> round(cost_of_noise(mean, covariance).item(), 4)  # half of tr(H Σ), here
        0.0025
    """
    classes = mean.shape[1]
    points = normal_points(1, classes, POINTS)[0].to(mean)  # [points, classes]
    size = covariance.diagonal(dim1=1, dim2=2).mean(1)
    ridge = (FLOOR + 1e-5 * size)[:, None, None] * torch.eye(classes).to(mean)
    root = torch.linalg.cholesky((covariance + ridge).double()).to(mean)
    drawn = mean[:, None] + points @ root.mT  # [nodes, points, classes]
    cost: Tensor = drawn.logsumexp(-1).mean(1) - mean.logsumexp(-1)
    return cost.mean()
