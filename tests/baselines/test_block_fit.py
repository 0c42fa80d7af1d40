import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch.testing import assert_close

from baselines.block_models import generator, log_likelihood, planted, random_links, soft_guess
from varigraph.baselines import block_model
from varigraph.baselines.block_model import fitted_blocks, started_blocks
from varigraph.errors import OptionError


def test_the_start_counts_links_and_non_links_within_each_guessed_class():
    links, label = random_links(20, 0.4), torch.arange(20) % 3
    guess = soft_guess(label, 3, wrong=0.0)
    blocks = started_blocks(links, guess)
    for k in range(3):
        inside = [pair for pair in links.pairs.t().tolist() if {*label[pair].tolist()} == {k}]
        size = int((label == k).sum())
        assert blocks.counts[k].tolist() == [
            1 + size * (size - 1) // 2 - len(inside),
            1 + len(inside),
        ]
    assert_close(blocks.memberships, guess.double(), rtol=1e-5, atol=1e-6)
    degree = torch.bincount(links.pairs.flatten(), minlength=20)
    assert_close(blocks.shares.sum(dim=1), 1.0 + degree.double())


def test_a_class_that_nobody_is_guessed_to_have_stays_possible():
    links, label = planted([20, 20], 0.5, 0.05)
    guess = torch.nn.functional.one_hot(label, 3).float()
    blocks = fitted_blocks(links, guess, generator=generator(), across=0.05)
    assert (blocks.shares > 0).all()
    assert blocks.strengths.isfinite().all()
    assert torch.equal(blocks.memberships.argmax(dim=1), label)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("rows", "partners", "steps"), [(500, 500, 30), (100, 60, 60)])
def test_a_planted_partition_is_recovered_from_a_poor_guess(
    seed, rows, partners, steps, monkeypatch
):
    monkeypatch.setattr(block_model, "ROWS", rows)
    monkeypatch.setattr(block_model, "PARTNERS", partners)
    links, label = planted([100, 100], 0.3, 0.01, seed=seed)
    guess = soft_guess(label, 2, wrong=0.3, seed=seed)
    blocks = fitted_blocks(links, guess, generator=generator(seed), across=0.01, steps=steps)
    assert adjusted_rand_score(label, guess.argmax(dim=1)) < 0.4
    assert adjusted_rand_score(label, blocks.memberships.argmax(dim=1)) > 0.95


def test_strengths_of_planted_classes_are_found():
    links, label = planted([100, 100], 0.3, 0.01, seed=1)
    guess = soft_guess(label, 2, wrong=0.1)
    blocks = fitted_blocks(links, guess, generator=generator(), across=0.01, steps=300)
    assert_close(blocks.strengths, torch.tensor([0.3, 0.3]).double(), atol=0.03, rtol=0)


def test_the_likelihood_rises():
    links, label = planted([15, 15, 15], 0.6, 0.1)
    guess, values = soft_guess(label, 3), []
    for steps in (0, 5, 20, 60):
        blocks = fitted_blocks(links, guess, generator=generator(), across=0.1, steps=steps)
        values.append(log_likelihood(blocks, links))
    assert values == sorted(values)
    assert values[-1] > values[0] + 30


def test_renamed_classes_give_the_renamed_fit():
    links, label = planted([30, 40, 50], 0.3, 0.05)
    guess, order = soft_guess(label, 3), torch.tensor([2, 0, 1])
    blocks = fitted_blocks(links, guess, generator=generator(3), across=0.05)
    renamed = fitted_blocks(links, guess[:, order], generator=generator(3), across=0.05)
    assert_close(renamed.shares, blocks.shares[:, order])
    assert_close(renamed.counts, blocks.counts[order])


def test_the_generator_decides_and_torch_s_own_is_left_alone(monkeypatch):
    monkeypatch.setattr(block_model, "ROWS", 20)
    links, label = planted([30, 30], 0.3, 0.05)
    guess, state = soft_guess(label, 2), torch.get_rng_state()
    one, again, other = (
        fitted_blocks(links, guess, generator=generator(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one.shares, again.shares)
    assert torch.equal(one.counts, again.counts)
    assert not torch.allclose(one.shares, other.shares)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("option", [{"across": 0.0}, {"across": 1.0}, {"steps": -1}])
def test_options_that_make_no_sense_are_refused(option):
    links = random_links(5)
    with pytest.raises(OptionError) as caught:
        fitted_blocks(links, torch.full((5, 2), 0.5), generator=generator(), **option)
    assert f"{next(iter(option))}={next(iter(option.values()))}" in caught.value.problem
