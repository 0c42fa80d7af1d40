import numpy as np
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss

from varigraph.errors import ModelError
from varigraph.training.lesson import cost_of_noise, cross_entropy


def integrated(mean, covariance):
    """The same cost by a product of Gauss-Hermite rules, for two classes."""
    points, weights = hermegauss(60)
    weights = weights / weights.sum()
    root = np.linalg.cholesky(covariance)
    z = np.stack(np.meshgrid(points, points, indexing="ij"), -1) @ root.T + mean
    largest = np.logaddexp(z[..., 0], z[..., 1])
    return float((weights[:, None] * weights * largest).sum() - np.logaddexp(*mean))


@pytest.mark.parametrize("size", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("mean", [[0.0, 0.0], [1.0, -0.5], [4.0, 0.0]])
def test_cost_of_noise_is_the_expected_cross_entropy(mean, size):
    covariance = size * np.array([[1.0, 0.3], [0.3, 0.6]])
    found = cost_of_noise(
        torch.tensor([mean], dtype=torch.float64), torch.from_numpy(covariance)[None]
    )
    assert found.item() == pytest.approx(integrated(mean, covariance), rel=0.05, abs=5e-6)


def test_a_common_shift_of_all_logits_costs_nothing():
    mean = torch.tensor([[0.3, -0.2, 1.0]], dtype=torch.float64)
    assert cost_of_noise(mean, torch.ones(1, 3, 3, dtype=torch.float64)).item() < 1e-4


def test_no_noise_costs_nothing():
    assert abs(cost_of_noise(torch.zeros(4, 3), torch.zeros(4, 3, 3)).item()) < 1e-6


def test_a_class_without_output_is_refused():
    with pytest.raises(ModelError, match="class 2 occurs"):
        cross_entropy(torch.zeros(2, 2), torch.tensor([0, 2]))
