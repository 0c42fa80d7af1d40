import pytest
import torch
from torch.testing import assert_close

from varigraph.baselines.log_degree import distance_scale, log_degree_graph
from varigraph.errors import GraphError, OptionError

ONE = torch.tensor([[1.0, 2.0, 3.0, 4.0]])


def edges_of_one_node(z, theta):
    """How many partners a node alone has, by trying every number."""
    for k in range(1, len(z) + 1):
        total = theta * float(z[:k].sum())
        price = (total + (total**2 + 4 * k) ** 0.5) / (2 * k)
        if int((price > theta * z).sum()) == k:
            return k
    raise AssertionError


@pytest.mark.parametrize(("theta", "edges"), [(0.72, 1), (0.70, 2), (0.34, 2), (0.3333, 3)])
def test_the_oracle_counts_as_published(theta, edges):
    assert edges_of_one_node(ONE[0], theta) == edges


@pytest.mark.parametrize(
    ("edges", "scale"),
    [
        (1, 1.1 * 0.707107),
        (2, (0.707107 * 0.333333) ** 0.5),
        (3, (0.333333 * 0.204124) ** 0.5),
    ],
)
def test_bounds_of_one_node(edges, scale):
    theta = distance_scale(ONE, edges)
    assert theta == pytest.approx(scale, rel=1e-5)
    assert edges_of_one_node(ONE[0], theta) == edges


@pytest.mark.parametrize("edges", [1, 2, 5, 9])
def test_one_node_gets_what_was_asked_for(edges):
    z = torch.rand(1, 20, generator=torch.Generator().manual_seed(edges)).double().sort().values
    assert edges_of_one_node(z[0], distance_scale(z, edges)) == edges


@pytest.mark.parametrize("asked", [2, 4, 6, 10])
def test_a_graph_gets_about_what_was_asked_for(asked):
    generator = torch.Generator().manual_seed(0)
    grid = torch.cartesian_prod(torch.arange(16.0), torch.arange(16.0)).double()
    x = grid + 0.1 * torch.randn(256, 2, generator=generator)
    distance = torch.cdist(x, x).square()
    nearest = distance.sort(dim=1).values[:, 1:]
    pairs = torch.combinations(torch.arange(256)).T
    z = distance_scale(nearest, asked) * distance[pairs[0], pairs[1]]
    weight = log_degree_graph(pairs, z, nodes=256).weight
    assert 2 * int((weight > 1e-4).sum()) / 256 == pytest.approx(asked, abs=0.25)


def test_averages_are_over_nodes():
    z = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 3.0, 9.0]]).double()
    each = torch.tensor([[distance_scale(row[None], 2)] for row in z])
    lower = 1 / (3 * z[:, 2] ** 2 - z.sum(1) * z[:, 2]).sqrt()
    upper = each.flatten().double() ** 2 / lower
    for average, mean in (
        ("mean", lambda v: v.mean()),
        ("geometric", lambda v: v.log().mean().exp()),
        ("median", lambda v: v.median()),
    ):
        expected = (mean(lower) * mean(upper)).sqrt()
        found = torch.tensor(distance_scale(z, 2, average=average))
        assert_close(found.double(), expected, rtol=1e-5, atol=0)


def test_nodes_with_ties_are_left_out():
    tied = torch.tensor([[0.1, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 0.0], [0.3, 0.3, 0.3, 0.3]])
    everyone = torch.cat([ONE, tied]).double()
    assert distance_scale(everyone, 2) == pytest.approx(distance_scale(ONE, 2))


@pytest.mark.parametrize(
    ("nearest", "edges", "options", "error", "message"),
    [
        (torch.ones(3, 5), 2, {}, GraphError, "equally far"),
        (ONE, 4, {}, GraphError, "need the distances of 5 partners"),
        (ONE, 0, {}, OptionError, "edges=0"),
        (ONE, 2, {"average": "mode"}, OptionError, "mode"),
    ],
)
def test_what_tells_no_scale_is_refused(nearest, edges, options, error, message):
    with pytest.raises(error, match=message):
        distance_scale(nearest, edges, **options)
