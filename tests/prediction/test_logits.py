"""Roots of covariances of any rank; the second order of logits against loops and quadrature."""

import itertools

import numpy as np
import pytest
import torch
import torch_geometric.nn as gnn
from torch.nn import functional as F

from prediction.first_order.test_method import Two
from prediction.networks import made, noisy_ring
from varigraph.prediction.logits import (
    RIDGE,
    Bent,
    CorrelatedLogits,
    diagonal,
    divided,
    root_of,
)
from varigraph.prediction.predict import ask
from varigraph.prediction.sources.weights import Weights

PARTS = ("features", "links", "weights", "interactions")


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def covariances(nodes, classes, rank, seed=0):
    factors = random(nodes, classes, rank, seed=seed)
    return factors @ factors.mT


# ---- roots ----


def assert_root(covariance, off):
    """Lower, real, and its square is the covariance up to a share of the classes' own variances."""
    root = root_of(covariance)
    assert torch.equal(root, root.tril())
    assert bool(root.isfinite().all())
    std = covariance.diagonal(dim1=1, dim2=2).sqrt()[..., None]
    assert bool(((root @ root.mT - covariance).abs() <= off * std * std.mT + 1e-36).all())


@pytest.mark.parametrize("classes", [1, 2, 3, 7])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
def test_definite_covariances(classes, scale):
    assert_root(scale * covariances(20, classes, classes + 2), off=1.01 * RIDGE)


@pytest.mark.parametrize("rank", [0, 1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_singular_covariances(rank, dtype):
    assert_root(covariances(50, 5, rank).to(dtype), off=20 * RIDGE)


def test_one_class_that_does_not_move():
    covariance = covariances(20, 4, 4)
    covariance[:, 1], covariance[:, :, 1] = 0, 0
    assert_root(covariance, off=1.01 * RIDGE)


def test_indefinite_covariances_have_the_root_of_the_nearest_definite_one():
    vectors = torch.linalg.qr(random(10, 4, 4)).Q
    covariance = vectors * torch.tensor([2.0, 1.0, 0.5, -0.2]).double() @ vectors.mT
    std = covariance.diagonal(dim1=1, dim2=2).abs().sqrt()[..., None]
    energies, vectors = torch.linalg.eigh(covariance / std / std.mT)  # nearest in units of its own
    nearest = vectors * energies.clamp_min(0)[:, None] @ vectors.mT * std * std.mT
    root = root_of(covariance)
    assert torch.equal(root, root.tril())
    assert torch.allclose(root @ root.mT, nearest, atol=11 * RIDGE)


def test_a_class_in_other_units_has_the_root_in_these_units():
    covariance, units = covariances(20, 3, 5), torch.tensor([1.0, 1e-6, 1e3]).double()
    scaled = root_of(covariance * units[:, None] * units)
    assert torch.allclose(scaled, units[:, None] * root_of(covariance), rtol=1e-9, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_left_of_a_difference_has_a_root(dtype):
    """Off its diagonal it may have more than any variances allow."""
    rest = 1e-6 * random(50, 5, 5).to(dtype)
    rest = rest + rest.mT
    rest.diagonal(dim1=1, dim2=2)[:, ::2] = 0
    root = root_of(rest)
    assert bool(root.isfinite().all())
    still = (root @ root.mT).diagonal(dim1=1, dim2=2)[:, ::2]
    assert float(still.max()) < 1e-12  # what had no variance has next to none


def test_numbers_that_are_none_have_no_root_and_stop_nobody():
    covariance = covariances(3, 3, 5)
    covariance[1, 0, 2] = torch.nan
    root = root_of(covariance)
    assert root.isfinite().flatten(1).all(1).tolist() == [True, False, True]


def test_a_bad_covariance_leaves_the_others_alone():
    good = covariances(3, 3, 5)
    bad = torch.diag(torch.tensor([1.0, 1.0, -0.5])).double()[None]
    assert torch.equal(root_of(torch.cat([good[:2], bad, good[2:]]))[[0, 1, 3]], root_of(good))


# ---- the second order ----


def bends(nodes, classes, seed=0):
    """K of some nodes, symmetric in its last two classes."""
    bend = random(nodes, classes, classes, classes, seed=seed)
    return (bend + bend.mT) / 2


def white_bend(straight, bend):
    """Each K_a with the root of the covariance taken off both of its sides."""
    inverse = torch.linalg.inv(torch.linalg.cholesky(straight))
    return torch.einsum("nbi,naij,ncj->nabc", inverse, bend, inverse)


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_covariance_of_the_second_order_number_by_number(classes):
    straight, bend = covariances(3, classes, classes + 2), bends(3, classes)
    white, want = white_bend(straight, bend), torch.zeros(3, classes, classes).double()
    for n, a, d, b, c in itertools.product(range(3), *[range(classes)] * 4):
        want[n, a, d] += white[n, a, b, c] * white[n, d, b, c] / 2
    assert torch.allclose(
        Bent.of(straight, bend, part="features").covariance, want, rtol=1e-4
    )  # the ridge


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_the_second_order_point_by_point(classes):
    straight, bend = covariances(3, classes, classes + 2), bends(3, classes)
    white, u = white_bend(straight, bend), random(classes, 6, seed=1)
    want = torch.zeros(3, classes, 6).double()
    for n, a, b, c, p in itertools.product(range(3), *[range(classes)] * 3, range(6)):
        want[n, a, p] += white[n, a, b, c] * (u[b, p] * u[c, p] - int(b == c)) / 2
    assert torch.allclose(
        Bent.of(straight, bend, part="features").moved(u), want, rtol=1e-3, atol=1e-3
    )


def normal_product(classes, points=6):
    """A product of Gauss-Hermite rules, exact for polynomials up to degree 11 in every number."""
    place, weight = np.polynomial.hermite_e.hermegauss(points)
    places = torch.tensor(list(itertools.product(place, repeat=classes)))
    weights = torch.tensor(list(itertools.product(weight / weight.sum(), repeat=classes)))
    return places.T, weights.prod(1)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_cumulants_of_what_is_drawn(classes):
    """Mean 0, covariance straight + bent, third cumulant K_abc + K_bac + K_cab to leading order.

    What is beyond that is of the third order in the bend, tr(K_a K_b K_c) in white, and known.
    """
    straight, bend = covariances(1, classes, classes + 2), 0.3 * bends(1, classes)
    bent, white = Bent.of(straight, bend, part="features"), white_bend(straight, bend)[0]
    u, weight = normal_product(classes)
    drawn = (torch.linalg.cholesky(straight) @ u + bent.moved(u))[0]
    assert torch.allclose(drawn @ weight, torch.zeros(classes).double(), atol=1e-12)
    second = torch.einsum("ap,bp,p->ab", drawn, drawn, weight)
    assert torch.allclose(second, (straight + bent.covariance)[0], rtol=1e-5, atol=1e-5)
    third = torch.einsum("ap,bp,cp,p->abc", drawn, drawn, drawn, weight)
    leading = bend[0] + bend[0].permute(1, 0, 2) + bend[0].permute(1, 2, 0)
    beyond = torch.einsum("abc,dcf,gfb->adg", white, white, white)
    assert torch.allclose(third, leading + beyond, rtol=1e-4, atol=1e-4)


def test_logits_that_do_not_move_have_no_bend():
    bent = Bent.of(torch.zeros(2, 3, 3).double(), torch.zeros(2, 3, 3, 3).double(), part="features")
    assert not bent.covariance.any()
    assert not bent.moved(random(3, 5)).any()


def test_rows_and_blocks_of_nodes():
    straight, bend = covariances(7, 3, 5), bends(7, 3)
    whole = Bent.of(straight, bend, part="features")
    blocks = [slice(0, 2), slice(2, 3), slice(3, 7)]
    apart = [Bent.of(straight[block], bend[block], part="features") for block in blocks]
    assert torch.allclose(torch.cat([part.covariance for part in apart]), whole.covariance)
    assert torch.allclose(torch.cat([part.white for part in apart]), whole.white)
    u = random(3, 4)
    for block, part in zip(blocks, apart, strict=True):
        assert torch.allclose(whole.rows(block).moved(u), part.moved(u))
        assert torch.allclose(whole.rows(block).moved(u), whole.moved(u)[block])


# ---- the logits as a whole ----


def logits(nodes=4, classes=3):
    shares = {part: covariances(nodes, classes, 4, seed=i) for i, part in enumerate(PARTS)}
    bent = Bent.of(shares["features"], bends(nodes, classes), part="features")
    return CorrelatedLogits(random(nodes, classes), shares, bent)


def test_covariance_and_marginal_are_sums_over_the_parts():
    one = torch.tensor([[2.0, 1.0], [1.0, 3.0]]).double()
    shares = {part: (10**place * one)[None] for place, part in enumerate(PARTS)}
    whole = CorrelatedLogits(torch.tensor([[0.5, -1.0]]).double(), shares)
    assert whole.covariance.tolist() == [[[2222.0, 1111.0], [1111.0, 3333.0]]]
    assert whole.marginal.var.tolist() == [[2222.0, 3333.0]]
    assert whole.marginal.mean.tolist() == [[0.5, -1.0]]


def test_rows_of_the_logits():
    whole, rows = logits(), slice(1, 3)
    picked = whole.rows(rows)
    assert torch.equal(picked.mean, whole.mean[1:3])
    assert torch.equal(picked.covariance, whole.covariance[1:3])
    assert torch.equal(picked.bent.covariance, whole.bent.covariance[1:3])
    straight = CorrelatedLogits(whole.mean, whole.shares)
    assert straight.rows(rows).bent is None


@pytest.mark.parametrize("together", [1.0, 0.05, -0.2])
def test_a_part_below_nothing_is_taken_from_the_others(together):
    sizes = dict(zip(PARTS, (0.3, -0.1, 0.2, together), strict=True))
    shares = {part: torch.full((1, 1, 1), size).double() for part, size in sizes.items()}
    parts = divided(CorrelatedLogits(torch.zeros(1, 1).double(), shares))
    assert min(float(part) for part in parts.values()) == float(parts[PARTS[1]]) == 0
    assert float(sum(parts.values())) == pytest.approx(sum(sizes.values()))


def test_negative_variances_count_as_none():
    matrix = torch.tensor([[[1.0, 5.0], [5.0, -1e-9]]])
    assert diagonal(matrix).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(("weights", "samples"), [(None, 30), ("closed-form", 30), ("sampled", 0)])
def test_the_share_of_the_weights_stays_unless_masks_are_asked_for(weights, samples):
    model = made(lambda: Two(gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3), F.relu, 0.4))
    question = ask(model, noisy_ring(), weights=weights, samples=samples)
    assert Weights().by_masks(question) is None


def test_masks_that_are_asked_for_replace_the_share_of_the_weights():
    model = made(lambda: Two(gnn.SAGEConv(4, 8), gnn.SAGEConv(8, 3), F.relu, 0.4))
    graph = noisy_ring()
    got = Weights().by_masks(ask(model, graph, weights="sampled", samples=3000))
    runs = dropped(model, graph, 3000)
    want = torch.einsum("tni,tnj->nij", runs, runs) / 3000
    size = diagonal(want).sqrt()
    off = (got - want) / (size[:, :, None] * size[:, None])
    assert float(off.abs().max()) < 0.15  # 4 standard errors of the difference of two estimates


def dropped(model, graph, count):
    """Outputs under masks of torch's own, around their mean; nothing but dropout is random."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(5)
        runs = [model.train()(graph.x, graph.edge_index) for _ in range(count)]
        model.eval()
    return torch.stack(runs) - torch.stack(runs).mean(0)
