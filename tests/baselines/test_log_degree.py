import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.testing import assert_close

from baselines.primal_dual import primal_dual
from varigraph.baselines.log_degree import log_degree_graph
from varigraph.errors import GraphError, ModelError, OptionError


def all_pairs(nodes):
    return torch.combinations(torch.arange(nodes)).T


def cloud(nodes=40, *, seed=0, size=1.0):
    """All pairs of random points, and their squared distances."""
    x = size * torch.randn(nodes, 3, generator=torch.Generator().manual_seed(seed)).double()
    pairs = all_pairs(nodes)
    return pairs, (x[pairs[0]] - x[pairs[1]]).square().sum(dim=1)


@pytest.mark.parametrize(
    ("nodes", "z", "a", "b", "weight"),
    [
        (2, 1.0, 1.0, 1.0, 0.618034),
        (2, 0.0, 1.0, 1.0, 1.0),
        (2, 2.0, 0.5, 3.0, 0.193713),
        (5, 1.0, 1.0, 1.0, 0.207107),
        (5, 0.0, 1.0, 1.0, 0.5),
        (12, 0.0, 1.0, 1.0, 0.301511),
    ],
)
def test_equidistant_nodes_have_their_closed_form(nodes, z, a, b, weight):
    pairs = all_pairs(nodes)
    found = log_degree_graph(pairs, torch.full((pairs.size(1),), z), nodes=nodes, a=a, b=b)
    exact = (-z + (z**2 + 4 * a * b / (nodes - 1)) ** 0.5) / (2 * b)
    assert_close(found.weight, torch.full_like(found.weight, exact), atol=1e-8, rtol=0)
    assert exact == pytest.approx(weight, abs=1e-6)


@pytest.mark.parametrize(
    ("scale", "weight"), [(1.0, [0.571842, 0, 0.145030]), (0.25, [0.785493, 0, 0.467795])]
)
def test_three_points_on_a_line(scale, weight):
    found = log_degree_graph(all_pairs(3), scale * torch.tensor([1.0, 9.0, 4.0]), nodes=3)
    assert_close(found.weight, torch.tensor(weight).double(), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.3, 2.0), (5.0, 0.1)])
@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_the_optimality_conditions_hold(a, b, size):
    pairs, z = cloud(size=size)
    found = log_degree_graph(pairs, z, nodes=40, a=a, b=b)
    degree = torch.zeros(40).double()
    for weight, (one, two) in zip(found.weight, pairs.T, strict=True):
        degree[one] += weight
        degree[two] += weight
    price = (a / 2 / degree)[pairs].sum(dim=0)
    kept = found.weight > 0
    assert_close(found.degree, degree)
    assert_close(b * found.weight[kept] + z[kept], price[kept], rtol=1e-8, atol=0)
    assert (price[~kept] <= z[~kept] * (1 + 1e-8)).all()
    assert_close(2 * z @ found.weight + 2 * b * found.weight @ found.weight, a * 40.0 + 0 * z[0])
    assert found.error < 1e-6


@pytest.mark.parametrize("step", [0.3, 0.9])
def test_it_agrees_with_primal_dual_steps_of_any_size(step):
    pairs, z = cloud(15, seed=1)
    weight, dual = primal_dual(pairs, z, 15, a=0.7, b=1.5, step=step)
    found = log_degree_graph(pairs, z, nodes=15, a=0.7, b=1.5)
    assert_close(found.weight, weight, atol=1e-7, rtol=0)
    assert_close(-0.7 / found.degree, dual, atol=1e-6, rtol=0)


def test_a_general_optimiser_finds_nothing_better():
    pairs, z = cloud(8, seed=2)
    one, two, z = pairs[0].numpy(), pairs[1].numpy(), z.numpy()

    def objective(w):
        degree = np.bincount(one, w, 8) + np.bincount(two, w, 8)
        slope = 2 * z - 1 / degree[one] - 1 / degree[two] + 2 * w
        return 2 * z @ w - np.log(degree).sum() + w @ w, slope

    found = log_degree_graph(pairs, torch.from_numpy(z), nodes=8).weight.numpy()
    options = {"bounds": [(1e-9, None)] * len(z), "jac": True, "tol": 1e-14}
    other = minimize(objective, np.full(len(z), 0.2), method="L-BFGS-B", **options)
    assert objective(found)[0] <= other.fun + 1e-12
    np.testing.assert_allclose(found, other.x, atol=1e-5)


def test_scales_of_both_terms_are_scales_of_weights_and_distances():
    pairs, z = cloud()
    a, b = 0.4, 2.5
    plain = log_degree_graph(pairs, z / (a * b) ** 0.5, nodes=40).weight
    assert_close(
        log_degree_graph(pairs, z, nodes=40, a=a, b=b).weight,
        plain * (a / b) ** 0.5,
        atol=1e-9,
        rtol=0,
    )


def test_names_of_nodes_do_not_matter():
    pairs, z = cloud()
    name = torch.randperm(40, generator=torch.Generator().manual_seed(3))
    found = log_degree_graph(pairs, z, nodes=40)
    renamed = log_degree_graph(name[pairs].flip(0), z, nodes=40)
    assert_close(renamed.weight, found.weight, atol=1e-9, rtol=0)
    assert_close(renamed.degree[name], found.degree)


def test_pairs_without_weight_can_be_left_out():
    pairs, z = cloud()
    full = log_degree_graph(pairs, z, nodes=40).weight
    kept = (full > 0) | (torch.arange(len(z)) % 3 == 0)
    assert 40 < kept.sum() < len(z)
    part = log_degree_graph(pairs[:, kept], z[kept], nodes=40).weight
    assert_close(part, full[kept], atol=1e-9, rtol=0)


def test_the_start_decides_the_steps_but_not_the_result():
    pairs, z = cloud(size=3.0)
    found = log_degree_graph(pairs, z, nodes=40)
    from_afar = log_degree_graph(pairs, z, nodes=40, start=torch.full((40,), 0.01))
    from_there = log_degree_graph(pairs, z, nodes=40, start=found.degree)
    assert_close(from_afar.weight, found.weight, atol=1e-8, rtol=0)
    assert from_there.steps <= 1 < found.steps


def test_no_node_stays_alone_however_far_it_is():
    pairs, z = cloud(30)
    far = (pairs == 29).any(dim=0)
    found = log_degree_graph(pairs, z + 1000 * far, nodes=30)
    assert 0 < found.degree[29] < 0.01
    assert found.error < 1e-6


@pytest.mark.parametrize(
    ("pairs", "z", "options", "error", "message"),
    [
        ([[0], [1]], [1.0], {"nodes": 3}, GraphError, "node 2 is in none"),
        ([[0], [1]], [-1.0], {"nodes": 2}, GraphError, "negative"),
        ([[0], [1]], [torch.inf], {"nodes": 2}, GraphError, "not a number"),
        ([[0], [1]], [1.0], {"nodes": 2, "b": 0.0}, OptionError, "b=0.0"),
        ([[0], [1]], [1.0], {"nodes": 2, "max_steps": 1}, ModelError, "after 1 steps"),
    ],
)
def test_what_cannot_be_solved_is_refused(pairs, z, options, error, message):
    with pytest.raises(error, match=message):
        log_degree_graph(torch.tensor(pairs), torch.tensor(z), **options)
