import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from varigraph.baselines.gcn import Gcn, GcnTrainer, normalised
from varigraph.errors import GraphError, ModelError, OptionError

LINKS = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 1, 1, 3]])  # 3-1 once, 3-3 to itself
MATRIX = torch.tensor(
    [[0.0, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [0, 1, 0, 0, 0], [0] * 5]
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def dense(matrix):
    """The normalised matrix, as it is written down."""
    matrix = matrix + torch.eye(len(matrix))
    root = torch.diag(matrix.sum(1) ** -0.5)
    return root @ matrix @ root


def two_blocks(nodes=40, *, sparse=False):
    """Two groups with links and features of their own."""
    y = torch.arange(nodes) % 2
    near = torch.rand(nodes, nodes, generator=generator()) < 0.3
    links = (near & (y[:, None] == y)).nonzero().T
    x = torch.rand(nodes, 30, generator=generator(1))
    if sparse:
        x = x * (x > 0.9)
    return x + F.one_hot(y, 30), links, y


def test_normalisation_is_the_dense_formula():
    found = normalised(LINKS, 5)
    assert found.values.dtype == torch.float32
    assert torch.equal(found.transpose.csr.to_dense(), found.csr.to_dense().T)
    assert_close(found.csr.to_dense(), dense(MATRIX))


def test_weights_are_kept_and_the_larger_one_wins():
    weight = torch.tensor([2.0, 3.0, 0.5, 0.5, 4.0, 9.0]).double()
    matrix = MATRIX.clone()
    matrix[0, 1] = matrix[1, 0] = 3
    matrix[1, 2] = matrix[2, 1] = 0.5
    matrix[3, 1] = matrix[1, 3] = 4
    assert_close(normalised(LINKS, 5, weight).csr.to_dense(), dense(matrix))


def test_the_network_is_the_dense_formula():
    model = Gcn(6, 3, hidden=4, generator=generator())
    x = torch.randn(5, 6, generator=generator(1))
    a = dense(MATRIX)
    expected = a @ ((a @ x @ model.first).relu() @ model.second)
    assert_close(model(x, normalised(LINKS, 5)), expected)


def test_gradients_are_those_of_the_dense_formula():
    model = Gcn(6, 3, hidden=4, generator=generator())
    x, a = torch.randn(5, 6, generator=generator(1)), dense(MATRIX)
    model(x, normalised(LINKS, 5)).square().sum().backward()
    loss = (a @ ((a @ x @ model.first).relu() @ model.second)).square().sum()
    for found, expected in zip(
        (model.first.grad, model.second.grad),
        torch.autograd.grad(loss, model.parameters()),
        strict=True,
    ):
        assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_first_weights_are_glorot():
    weight = Gcn(1000, 3, hidden=50, generator=generator()).first
    bound = (6 / 1050) ** 0.5
    assert weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)


def test_dropout_keeps_the_mean_of_a_linear_layer():
    model = Gcn(8, 2, hidden=200, dropout=0.3, generator=generator())
    model.first.data.abs_()  # no bend of the ReLU is met
    x, a = torch.rand(5, 8, generator=generator(1)), normalised(LINKS, 5)
    draw = generator(2)
    with torch.no_grad():
        draws = torch.stack([model(x, a, draw) for _ in range(2000)])
        error = (draws.mean(0) - model(x, a)) / (draws.std(0) / 2000**0.5)
    assert draws.std(0).min() > 0
    assert error.abs().max() < 5


@pytest.mark.parametrize("sparse", [False, True])
def test_training_separates_two_groups_from_few_labels(sparse):
    x, links, y = two_blocks(sparse=sparse)
    known = torch.arange(40) < 4
    adjacency = normalised(links, 40)
    trainer = GcnTrainer(x, y, known, classes=2)
    first = trainer.step(adjacency)
    trainer.fit(adjacency, epochs=100)
    assert trainer.step(adjacency) < 0.8 * first
    assert (trainer.logits(adjacency).argmax(1) == y).float().mean() > 0.9


def test_only_the_first_layer_decays():
    x, links, y = two_blocks()
    adjacency = normalised(links, 40)
    trained = [
        GcnTrainer(x, y, y >= 0, classes=2, dropout=0.0, decay=decay).fit(adjacency, epochs=1)
        for decay in (0.0, 100.0)
    ]
    assert not torch.equal(trained[0].first, trained[1].first)
    assert torch.equal(trained[0].second, trained[1].second)


def test_other_labels_and_the_global_generator_are_left_alone():
    x, links, y = two_blocks()
    known, adjacency = torch.arange(40) < 6, normalised(links, 40)
    state = torch.random.get_rng_state()
    one = GcnTrainer(x, y, known, classes=2, seed=3).fit(adjacency, epochs=5)
    two = GcnTrainer(x, torch.where(known, y, -7), known, classes=2, seed=3)
    torch.rand(3)
    two = two.fit(adjacency, epochs=5)
    other = GcnTrainer(x, y, known, classes=2, seed=4).fit(adjacency, epochs=5)
    assert torch.equal(one.first, two.first)
    assert torch.equal(one.second, two.second)
    assert not torch.equal(one.first, other.first)
    torch.random.set_rng_state(state)
    GcnTrainer(x, y, known, classes=2).step(adjacency)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_mistakes_are_explained():
    x, links, y = two_blocks()
    adjacency = normalised(links, 40)
    with pytest.raises(OptionError, match=r"dropout=1"):
        Gcn(3, 2, dropout=1.0, generator=generator())
    with pytest.raises(GraphError, match="no node to train on"):
        GcnTrainer(x, y, y < 0, classes=2)
    with pytest.raises(GraphError, match="integers from 0 to 0"):
        GcnTrainer(x, y, y >= 0, classes=1)
    with pytest.raises(ModelError, match="not a number"):
        GcnTrainer(x * torch.inf, y, y >= 0, classes=2).fit(adjacency, epochs=1)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_draws_scatter_only_if_something_is_dropped(dropout):
    x, links, y = two_blocks()
    adjacency = normalised(links, 40)
    trainer = GcnTrainer(x, y, y >= 0, classes=2, dropout=dropout)
    one, two = trainer.draws(adjacency, 2)
    assert torch.equal(one, two) == (dropout == 0)
    assert torch.equal(one, trainer.logits(adjacency)) == (dropout == 0)
    assert not one.requires_grad
