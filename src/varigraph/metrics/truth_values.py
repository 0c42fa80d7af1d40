"""How right the probability is that something is true."""

from __future__ import annotations

import torch

from varigraph.metrics.checks import Numbers, check_probabilities


def log_loss(prob: Numbers, real: Numbers) -> float:  # [pairs], [pairs] bool
    r"""How surprised the probabilities are by the truth, in nats.

    .. math:: -\frac1n \sum_i y_i \log p_i + (1 - y_i) \log(1 - p_i)

    Infinite where something was held to be certain and is not.

    Args:
        prob: predicted probabilities.
        real: what is true.

    Example:
        >>> round(log_loss(torch.tensor([0.5, 0.5]), torch.tensor([True, False])), 4)
        0.6931
    """
    prob, real = check_probabilities(prob, real)
    of_truth = torch.where(real, prob.double(), 1 - prob.double())
    return -float(of_truth.log().mean())


def binary_brier(prob: Numbers, real: Numbers) -> float:  # [pairs], [pairs] bool
    r"""Mean squared distance of the probabilities from 1 (true) and 0 (false); 0 to 1.

    .. math:: \frac1n \sum_i (p_i - y_i)^2

    Args:
        prob: predicted probabilities.
        real: what is true.

    Example:
        >>> binary_brier(torch.tensor([0.5, 1.0]), torch.tensor([True, True]))
        0.125
    """
    prob, real = check_probabilities(prob, real)
    return float((prob.double() - real.double()).square().mean())
