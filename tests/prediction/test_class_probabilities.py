"""Class probabilities of correlated, bent logits against products of Gauss-Hermite rules."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch

from varigraph.prediction.logits import Bent, CorrelatedLogits
from varigraph.prediction.probabilities import class_probabilities

PARTS = ("features", "links", "weights", "interactions")


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def covariances(nodes, classes, spread, seed):
    """Full covariances; each logit has the given variance on average."""
    factors = random(nodes, classes, classes + 1, seed=seed)
    return spread / (classes + 1) * factors @ factors.mT


def logits_of(mean, bent=None, **shares):
    none = torch.zeros(*mean.shape, mean.shape[1]).double()
    return CorrelatedLogits(mean, {**dict.fromkeys(PARTS, none), **shares}, bent)


# ---- the oracle: nested quadrature, in numpy ----


@cache
def rule(classes, points):
    """Places ``[classes, points]`` and weights of a standard normal in as many dimensions."""
    place, weight = np.polynomial.hermite_e.hermegauss(points)
    places = np.array(list(itertools.product(place, repeat=classes)))
    weights = np.array(list(itertools.product(weight / weight.sum(), repeat=classes)))
    return places.T, weights.prod(1)


def softmax(logits, axis):
    powers = np.exp(logits - logits.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def root(covariance):
    energy, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(energy, 0))


def moments(mean, covariance, second_order=None):
    """Mean and variance of the softmax of each node's logits."""
    means, variances = [], []
    for node, sigma in enumerate(covariance.numpy()):
        u, weight = rule(len(sigma), 60 if len(sigma) == 2 else 30)
        if second_order is None:
            moved = root(sigma) @ u
        else:  # the root must be the lower one: the bend is written in its terms
            moved = np.linalg.cholesky(sigma) @ u + bend_by_hand(sigma, second_order[node], u)
        drawn = softmax(mean.numpy()[node][:, None] + moved, 0)
        means.append(drawn @ weight)
        variances.append((drawn - means[-1][:, None]) ** 2 @ weight)
    return torch.tensor(np.array(means)), torch.tensor(np.array(variances))


def bend_by_hand(sigma, bend, u):
    """K_a / 2 : (u u' - 1) in white, for each class a."""
    inverse = np.linalg.inv(np.linalg.cholesky(sigma))
    white = inverse @ bend.numpy() @ inverse.T
    products = np.einsum("bp,cp->bcp", u, u) - np.eye(len(sigma))[..., None]
    return np.einsum("abc,bcp->ap", white, products) / 2


def variance_given(mean, source, rest):
    """V[E[y | s]] of each node: the inner integral is over all that is not the source."""
    found = []
    for centre, *sigmas in zip(mean.numpy(), source.numpy(), rest.numpy(), strict=True):
        u, weight = rule(len(centre), 20 if len(centre) == 2 else 8)
        outer, inner = (root(sigma) @ u for sigma in sigmas)
        drawn = softmax(centre[:, None, None] + outer[:, :, None] + inner[:, None], 0)
        given = drawn @ weight  # [classes, points of the source]
        found.append((given - (given @ weight)[:, None]) ** 2 @ weight)
    return torch.tensor(np.array(found))


# ---- all sources together ----


@pytest.mark.parametrize("spread", [0.01, 0.1, 1.0, 3.0])
@pytest.mark.parametrize(("classes", "off"), [(2, 5e-4), (3, 3e-3)])
def test_moments_agree_with_quadrature(classes, off, spread):
    mean, sigma = random(40, classes, seed=9), covariances(40, classes, spread, seed=classes)
    got, by_source = class_probabilities(logits_of(mean, features=sigma))
    want, var = moments(mean, sigma)
    assert torch.allclose(got, want, rtol=0, atol=off)
    assert torch.allclose(by_source["features"], var, rtol=0.01, atol=off)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("spread", [1e-6, 1.0, 100.0])
def test_the_answers_are_probabilities(classes, spread):
    mean = 3 * random(30, classes)
    shares = {part: covariances(30, classes, spread, seed) for seed, part in enumerate(PARTS)}
    straight = shares["features"] + spread * torch.eye(classes).double()
    bent = Bent.of(straight, 0.1 * spread * symmetric_bends(30, classes), part="features")
    shares["features"] = straight + bent.covariance
    got, by_source = class_probabilities(logits_of(mean, bent, **shares))
    total = sum(by_source.values())
    assert torch.allclose(got.sum(1), torch.ones(30).double(), atol=1e-12)
    assert bool((got >= 0).all())
    assert bool((total <= got * (1 - got) + 1e-9).all())
    assert bool((total >= -1e-9).all())


def test_many_nodes_are_answered_as_each_by_itself():
    """More nodes than are integrated over at once."""
    mean, a, b = random(900, 3), covariances(900, 3, 1.0, 1), covariances(900, 3, 1.0, 2)
    whole = logits_of(mean, features=a, weights=b, interactions=0.1 * b)
    means, parts = class_probabilities(whole)
    for rows in (slice(0, 1), slice(450, 460), slice(899, 900)):
        some, of_some = class_probabilities(whole.rows(rows))
        assert torch.allclose(means[rows], some, atol=1e-12)
        assert all(torch.allclose(parts[p][rows], of_some[p], atol=1e-12) for p in PARTS)


# ---- source by source ----


@pytest.mark.parametrize("source", PARTS)
def test_one_source_alone_has_all_of_the_variance(source):
    mean, sigma = random(5, 3), covariances(5, 3, 1.0, 1)
    got, by_source = class_probabilities(logits_of(mean, **{source: sigma}))
    want, var = moments(mean, sigma)
    assert torch.allclose(got, want, atol=3e-3)
    assert torch.allclose(by_source[source], var, atol=2e-3)
    assert all(not by_source[part].any() for part in PARTS if part != source)


def test_without_a_source_it_is_the_softmax():
    mean = random(5, 3)
    got, by_source = class_probabilities(logits_of(mean))
    assert torch.equal(got, mean.softmax(-1))
    assert set(by_source) == set(PARTS)
    assert all(not share.any() for share in by_source.values())


def test_small_variances_are_divided_as_the_jacobian_says():
    mean = random(6, 4)
    shares = {part: 1e-8 * covariances(6, 4, 1.0, seed) for seed, part in enumerate(PARTS)}
    slope = torch.func.vmap(torch.func.jacrev(lambda z: z.softmax(-1)))(mean)
    _, by_source = class_probabilities(logits_of(mean, **shares))
    for part, sigma in shares.items():
        want = (slope @ sigma @ slope.mT).diagonal(dim1=1, dim2=2)
        # 256 points are white as a whole, so that sources do not leak into each other.
        assert torch.allclose(by_source[part], want, rtol=1e-3), part


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_shares_agree_with_nested_quadrature(classes, spread):
    """Each V[E[y | s]] is found to a tenth of a node's variance, mostly to three hundredths."""
    mean = random(30, classes, seed=4)
    shares = {
        "features": covariances(30, classes, spread, 1),
        "weights": covariances(30, classes, spread, 2),
        "interactions": covariances(30, classes, 0.05 * spread, 3),
    }
    _, by_source = class_probabilities(logits_of(mean, **shares))
    total = sum(shares.values())
    _, var = moments(mean, total)
    alone = {s: variance_given(mean, shares[s], total - shares[s]) for s in ("features", "weights")}
    alone["interactions"] = var - sum(alone.values())
    for part, want in alone.items():
        error = (by_source[part] - want).sum(1) / var.sum(1)
        assert float(error.abs().max()) < 0.1, part
        assert float(error.square().mean().sqrt()) < 0.04, part


def test_sources_that_meet_only_in_the_softmax_interact():
    """Logits that are a plain sum of two sources: the softmax bends it, and parts must add up."""
    mean, a, b = random(6, 3), covariances(6, 3, 3.0, 1), covariances(6, 3, 3.0, 2)
    _, by_source = class_probabilities(logits_of(mean, features=a, weights=b))
    _, var = moments(mean, a + b)
    assert float(sum(by_source.values()).sum() / var.sum()) == pytest.approx(1, abs=0.03)


def test_shares_of_confident_logits_are_variances_of_probabilities():
    """No variance of a probability exceeds 1/4, and none is far below 0."""
    sources = ("features", "links", "weights")
    shares = {part: covariances(100, 7, 10.0, seed) for seed, part in enumerate(sources)}
    shares["interactions"] = covariances(100, 7, 1.0, 3)
    _, by_source = class_probabilities(logits_of(10 * random(100, 7), **shares))
    assert all(float((share - 0.125).abs().max()) < 0.2 for share in by_source.values())


# ---- the bend ----


def symmetric_bends(nodes, classes, seed=5):
    bend = random(nodes, classes, classes, classes, seed=seed)
    return (bend + bend.mT) / 2


@pytest.mark.parametrize("size", [-0.2, 0.2])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_bend_changes_the_variance_as_quadrature_says(classes, size):
    mean, straight = random(40, classes, seed=9), covariances(40, classes, 1.0, seed=classes)
    straight = straight + 0.3 * torch.eye(classes).double()
    bend = size * symmetric_bends(40, classes)
    bent = Bent.of(straight, bend, part="features")
    whole = logits_of(mean, bent, features=straight + bent.covariance)
    got, parts = class_probabilities(whole)
    _, parts_without = class_probabilities(logits_of(mean, features=straight))
    want, var = moments(mean, straight, bend)
    _, var_without = moments(mean, straight)
    assert torch.allclose(got, want, atol=5e-3)
    change, wanted = parts["features"] - parts_without["features"], var - var_without
    far = wanted.abs() > 0.005
    assert int(far.sum()) > 10
    assert bool((change.sign() == wanted.sign())[far].all())
    assert torch.allclose(change[far], wanted[far], rtol=0, atol=2e-3)


def test_a_bend_beside_another_source():
    """What is bent is drawn apart from what is not: their variances add up as in quadrature."""
    mean, straight = random(6, 2, seed=9), covariances(6, 2, 1.0, 1) + 0.3 * torch.eye(2).double()
    other, bend = covariances(6, 2, 0.5, 2), 0.2 * symmetric_bends(6, 2)
    bent, rest = (
        Bent.of(straight, bend, part="features"),
        0.01 * torch.eye(2).double().expand(6, 2, 2),
    )
    shares = {"features": straight + bent.covariance, "weights": other, "interactions": rest}
    got, by_source = class_probabilities(logits_of(mean, bent, **shares))
    u, weight = rule(2, 20)
    for node in range(6):
        sigma = straight[node].numpy()
        outer = np.linalg.cholesky(sigma) @ u + bend_by_hand(sigma, bend[node], u)
        inner = root((other + rest)[node].numpy()) @ u
        drawn = softmax(mean[node].numpy()[:, None, None] + outer[:, :, None] + inner[:, None], 0)
        given = drawn @ weight
        want = given @ weight
        features = (given - want[:, None]) ** 2 @ weight
        total = ((drawn - want[:, None, None]) ** 2 @ weight) @ weight
        assert got[node].numpy() == pytest.approx(want, abs=3e-3)
        assert by_source["features"][node].numpy() == pytest.approx(features, abs=8e-3)
        assert sum(by_source.values())[node].numpy() == pytest.approx(total, abs=3e-3)
