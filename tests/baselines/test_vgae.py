import math

import pytest
import torch
from torch.testing import assert_close

from varigraph.baselines.vgae import Vgae, _loss, embedding
from varigraph.errors import GraphError, ModelError, OptionError


def two_blocks(nodes=60):
    """Links within two groups only, and features that tell nothing."""
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(nodes) % 2
    near = torch.rand(nodes, nodes, generator=generator) < 0.3
    links = (near & (group[:, None] == group)).nonzero().T
    return torch.rand(nodes, 20, generator=generator), links, group


def test_groups_without_links_between_them_are_torn_apart():
    x, links, group = two_blocks()
    z = embedding(x, links, epochs=200)
    away = torch.cdist(z, z)
    same = group[:, None] == group
    off_diagonal = ~torch.eye(60, dtype=torch.bool)
    assert away[~same].mean() > 2 * away[same & off_diagonal].mean()


def test_training_lowers_the_loss():
    x, links, _ = two_blocks()
    both = torch.combinations(torch.arange(60)).T
    linked = torch.zeros(60, 60, dtype=torch.bool)
    linked[links[0], links[1]] = linked[links[1], links[0]] = True
    real = linked[both[0], both[1]]

    def loss(epochs):
        z = embedding(x, links, epochs=epochs)
        likeness = (z[both[0]] * z[both[1]]).sum(1)
        softplus = torch.nn.functional.softplus
        return float(softplus(-likeness[real]).mean() + softplus(likeness[~real]).mean())

    assert loss(200) < loss(20) < loss(1)


def test_the_loss_is_that_of_the_full_matrix():
    nodes, generator = 6, torch.Generator().manual_seed(0)
    mean, log_std = torch.randn(2, nodes, 3, generator=generator)
    pairs = torch.combinations(torch.arange(nodes)).T
    links, others = pairs[:, :5], pairs[:, 5:]
    found = _loss(mean, log_std, links, others, torch.Generator().manual_seed(1))
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(1))
    z = mean + noise * log_std.exp()
    target = torch.eye(nodes)
    target[links[0], links[1]] = target[links[1], links[0]] = 1
    positive, negative, divergence = [], [], 0.0
    for i in range(nodes):
        for j in range(nodes):
            p = 1 / (1 + math.exp(-float(z[i] @ z[j])))
            (positive if target[i, j] else negative).append(-math.log(p if target[i, j] else 1 - p))
        for m, s in zip(mean[i].tolist(), log_std[i].tolist(), strict=True):
            divergence += (m * m + math.exp(2 * s) - 1 - 2 * s) / 2
    expected = sum(positive) / len(positive) / 2 + sum(negative) / len(negative) / 2
    assert found.item() == pytest.approx(expected + divergence / nodes**2, rel=1e-5)


def test_the_network_is_two_rounds_of_messages():
    generator = torch.Generator().manual_seed(0)
    model = Vgae(4, 5, 3, generator=generator)
    x, a = torch.rand(6, 4, generator=generator), torch.rand(6, 6, generator=generator)
    a = a + a.T
    mean, log_std = model(x, a)
    hidden = (a @ x @ model.first).relu()
    assert_close(mean, a @ hidden @ model.mean)
    assert_close(log_std, a @ hidden @ model.log_std)


def test_the_seed_decides_and_the_global_generator_is_left_alone():
    x, links, _ = two_blocks()
    state = torch.random.get_rng_state()
    first, again, other = (embedding(x, links, epochs=5, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_scale_of_the_features_does_not_matter():
    x, links, _ = two_blocks()
    assert_close(
        embedding(x / 1024, links, epochs=20), embedding(x, links, epochs=20), rtol=1e-3, atol=1e-4
    )


def test_mistakes_are_explained():
    x, links, _ = two_blocks()
    with pytest.raises(GraphError, match="no links"):
        embedding(x, links[:, :0])
    with pytest.raises(OptionError, match="epochs=0"):
        embedding(x, links, epochs=0)
    with pytest.raises(ModelError, match="not numbers"):
        embedding(x * torch.nan, links, epochs=1)
