import numpy as np
import pytest
import torch
from scipy.special import softmax

pytest.importorskip("triton")

from varigraph.kernels.softmax import softmax_moments

SMALL, MEDIUM = 0.0025, 0.02


def by_hand(mean, var, half):
    """Moments over points and their mirror images, node by node in double precision."""
    points = np.concatenate([half, -half])
    drawn = softmax(mean[:, None] + np.sqrt(var)[:, None] * points, axis=-1)
    return drawn.mean(1), drawn.var(1)


def by_derivatives(mean, var):
    """Second order in the mean and first in the variance, from the matrices of derivatives."""
    p = softmax(mean, axis=-1)
    eye = np.eye(mean.shape[-1])
    first = p[:, :, None] * (eye - p[:, None, :])  # [nodes, i, j]
    own = (p * (1 - p))[:, None, :]  # of p_j by its own logit
    second = p[:, :, None] * ((eye - p[:, None, :]) ** 2 - own)
    return p + 0.5 * (second * var[:, None]).sum(-1), (first**2 * var[:, None]).sum(-1)


def drawn_logits(nodes, classes, size, seed):
    draw = np.random.default_rng(seed)
    mean, var = 3 * draw.standard_normal((nodes, classes)), size * draw.random((nodes, classes))
    return mean.astype(np.float32), var.astype(np.float32)


def found_by_kernel(mean, var, points, few):
    tensors = (torch.from_numpy(np.ascontiguousarray(value)) for value in (mean, var, points, few))
    found = softmax_moments(*tensors, small=SMALL, medium=MEDIUM)
    return [value.numpy() for value in found]


@pytest.mark.parametrize("classes", [2, 3, 7, 10, 47])
@pytest.mark.parametrize(("size", "tier"), [(SMALL, "none"), (MEDIUM, "few"), (3.0, "all")])
def test_moments_of_each_size_of_variance(classes, size, tier):
    draw = np.random.default_rng(classes)
    points = draw.standard_normal((2, 12, classes)).astype(np.float32)
    few = draw.standard_normal((4, classes)).astype(np.float32)
    mean, var = drawn_logits(40, classes, size, seed=1)
    var[:, 0] = size  # so that all nodes are of this size, and none of a smaller one
    found = found_by_kernel(np.stack([mean, mean]), np.stack([var, var]), points, few)
    for mask in range(2):
        if tier == "none":
            expected = by_derivatives(mean.astype(float), var.astype(float))
        else:
            half = few if tier == "few" else points[mask]
            expected = by_hand(mean.astype(float), var.astype(float), half.astype(float))
        np.testing.assert_allclose(found[0][mask], expected[0], rtol=1e-5, atol=2e-7)
        np.testing.assert_allclose(found[1][mask], expected[1], rtol=1e-4, atol=1e-10)


def test_nodes_of_all_sizes_side_by_side():
    draw = np.random.default_rng(0)
    points = draw.standard_normal((1, 9, 5)).astype(np.float32)
    few = draw.standard_normal((4, 5)).astype(np.float32)
    mean, var = drawn_logits(33, 5, 1.0, seed=2)
    sizes = np.array([0.5 * SMALL, 0.9 * MEDIUM, 4.0], dtype=np.float32)[np.arange(33) % 3]
    var = sizes[:, None] * (0.5 + 0.5 * var)
    var[:, 0] = sizes
    (m,), (v,) = found_by_kernel(mean[None], var[None], points, few)
    wide = mean.astype(float), var.astype(float)
    for group, expected in enumerate(
        (by_derivatives(*wide), by_hand(*wide, few.astype(float)), by_hand(*wide, points[0]))
    ):
        np.testing.assert_allclose(m[group::3], expected[0][group::3], rtol=1e-5, atol=2e-7)
        np.testing.assert_allclose(v[group::3], expected[1][group::3], rtol=2e-4, atol=1e-9)


def test_logits_that_spread_so_far_that_exponents_would_overflow():
    points = np.random.default_rng(0).standard_normal((1, 20, 4)).astype(np.float32)
    mean, var = drawn_logits(10, 4, 1.0, seed=3)
    var = var + np.float32(2500.0)
    (m,), (v,) = found_by_kernel(mean[None], var[None], points, points[0, :2].copy())
    expected = by_hand(mean.astype(float), var.astype(float), points[0].astype(float))
    np.testing.assert_allclose(m, expected[0], atol=1e-4)
    np.testing.assert_allclose(v, expected[1], atol=1e-4)
    assert np.isfinite(m).all()


def test_masks_may_lie_side_by_side_in_memory():
    draw = np.random.default_rng(5)
    points, few = (draw.standard_normal((4, 9, 3)).astype(np.float32) for _ in range(2))
    mean, var = drawn_logits(4 * 20, 3, 2.0, seed=5)
    stacked = [torch.from_numpy(value.reshape(20, 4, 3)).transpose(0, 1) for value in (mean, var)]
    points, few = torch.from_numpy(points), torch.from_numpy(few[0])
    found = softmax_moments(*stacked, points, few, small=SMALL, medium=MEDIUM)
    copies = [value.contiguous() for value in stacked]
    expected = softmax_moments(*copies, points, few, small=SMALL, medium=MEDIUM)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
