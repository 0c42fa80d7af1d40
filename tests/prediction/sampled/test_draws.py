"""Draws depend on their key and on nothing else, and have the distribution they should."""

import pytest
import torch
from scipy import stats

from varigraph.moments import Gaussian, LinkProbabilities
from varigraph.prediction.sampled.draws import (
    Design,
    FullFeatures,
    SmallFeatures,
    normals,
    torch_seed,
)
from varigraph.prediction.sampled.estimates import SampledMoments
from varigraph.prediction.sampled.neighbour_sums import DrawnLinks
from varigraph.prediction.sampled.tosses import ROUND

FAILURE_RATE = 1e-6
PATH = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 1]])  # 0 -> 1 is listed twice


# ---- numbers ----


def test_normals_are_normal():
    drawn = torch.cat([normals((200, 50), sample, seed=3).flatten() for sample in range(20)])
    assert stats.kstest(drawn.numpy(), "norm").pvalue > FAILURE_RATE
    assert normals((65536,), 0, seed=0).var().item() == pytest.approx(1, abs=0.05)


def test_seed_and_sample_both_count_and_nothing_else_does():
    base = normals((7, 3), 0, seed=0)
    assert torch.equal(base, normals((7, 3), 0, seed=0))
    assert torch.equal(base.flatten()[:9], normals((9,), 0, seed=0))
    assert not torch.equal(base, normals((7, 3), 1, seed=0))
    assert not torch.equal(base, normals((7, 3), 0, seed=1))
    assert len({torch_seed(sample, seed=seed) for sample in range(5) for seed in range(5)}) == 25


CHANCES = torch.tensor([0.1, 0.5, 0.8, 0.9731, 1.0, 0.0], dtype=torch.float64)


def stars(count):
    """So many links with these chances each."""
    prob = CHANCES.repeat_interleave(count)
    ends = torch.arange(2 * len(prob)).view(2, -1)
    return DrawnLinks(LinkProbabilities(ends, prob, 2 * len(prob)))


def test_coins_have_their_chances_in_every_draw():
    links = stars(5000)
    for sample in (0, 17, ROUND - 1, 3 * ROUND + 5):
        shown = links.draw(sample, seed=sample).view(len(CHANCES), -1).sum(1)
        for count, chance in zip(shown.int().tolist(), CHANCES.tolist(), strict=True):
            assert stats.binomtest(count, 5000, chance).pvalue > FAILURE_RATE


def test_in_a_round_every_link_is_there_in_its_share_of_the_draws():
    links = stars(40)
    for first in (0, 7 * ROUND):
        shown = sum(links.draw(sample, seed=1) for sample in range(first, first + ROUND))
        share = (ROUND * CHANCES.repeat_interleave(40) - shown).abs()
        assert float(share.max()) < 1
    assert shown[-80:].tolist() == [ROUND] * 40 + [0] * 40


def test_two_draws_and_two_links_know_nothing_of_each_other():
    """But that a link which failed in a draw is a hundredth less likely to fail in another."""
    links, count = stars(4000), 4000
    one, two = (links.draw(s, seed=2).view(len(CHANCES), -1)[:4] - CHANCES[:4, None]
                for s in (3, 55))  # fmt: skip
    size = CHANCES[:4, None] * (1 - CHANCES[:4, None])
    error = 5 / count**0.5
    assert float(((one * two).mean(1) / size[:, 0] + 1 / (ROUND - 1)).abs().max()) < error
    assert float(((one * one.roll(1, 1)).mean(1) / size[:, 0]).abs().max()) < error
    assert float((one * two * one.roll(1, 1) * two.roll(1, 1) / size**2).mean(1).abs().max()) < (
        error + 2 / ROUND)  # fmt: skip


def test_draws_do_not_depend_on_the_order_in_which_they_are_asked_for():
    links, again = stars(3), stars(3)
    drawn = {sample: links.draw(sample, seed=4) for sample in (5, 400, 6, 102)}
    assert all(torch.equal(again.draw(s, seed=4), drawn[s]) for s in (102, 6, 5, 400))
    assert not torch.equal(drawn[5], drawn[6])


def test_one_coin_for_both_directions_and_all_listings():
    links = DrawnLinks(LinkProbabilities(PATH, torch.full((5,), 0.5), 3))
    drawn = torch.stack([links.draw(sample, seed=0) for sample in range(50)])
    assert torch.equal(drawn[:, 0], drawn[:, 1])
    assert torch.equal(drawn[:, 0], drawn[:, 4])
    assert torch.equal(drawn[:, 2], drawn[:, 3])
    assert not torch.equal(drawn[:, 0], drawn[:, 2])


def test_directions_with_chances_of_their_own_have_coins_of_their_own():
    prob = torch.tensor([0.5, 0.6, 0.5, 0.5, 0.5])
    links = DrawnLinks(LinkProbabilities(PATH, prob, 3))
    drawn = torch.stack([links.draw(sample, seed=0) for sample in range(50)])
    assert not torch.equal(drawn[:, 0], drawn[:, 1])
    assert torch.equal(drawn[:, 0], drawn[:, 4])


# ---- features in the small space ----


@pytest.mark.parametrize("shape", [(), (40,), (6, 1)])
def test_the_small_space_has_the_same_distribution_behind_the_maps(shape):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 40, generator=generator).double()
    var = (0.1 + torch.rand(shape, generator=generator)).double().expand_as(x)
    first, second = torch.randn(2, 5, 40, generator=generator).double()
    turned = second.T.contiguous()
    matrices = {first: True, turned: False}
    small = SmallFeatures.of(FullFeatures(Gaussian(x, var)), matrices)
    assert small.mean.shape == (6, 10)
    both = torch.cat([small.maps[first], small.maps[turned].T])
    stacked = torch.cat([first, second])
    assert torch.allclose(small.mean @ both.T, x @ stacked.T)
    drawn = torch.stack([small.draw(s, seed=1) for s in range(4000)]) @ both.T
    for node in range(6):
        want = stacked @ (var[node, :, None] * stacked.T)
        got = drawn[:, node].T.cov()
        # the standard error of a covariance of 4000 Gaussian draws, times five
        error = ((want**2 + want.diag()[:, None] * want.diag()) / 4000).sqrt()
        assert bool(((got - want).abs() < 5 * error).all())


def test_noise_that_differs_by_node_and_feature_is_drawn_in_full():
    generator = torch.Generator().manual_seed(0)
    x, var = torch.rand(2, 6, 40, generator=generator).double()
    weight = torch.randn(5, 40, generator=generator).double()
    full = FullFeatures(Gaussian(x, var))
    small = SmallFeatures.of(full, {weight: True})
    want = full.draw(3, seed=0) @ weight.T
    assert torch.allclose(small.draw(3, seed=0) @ small.maps[weight].T, want)


# ---- which draw goes where ----


@pytest.mark.parametrize(("count", "group"), [(2, 4), (3, 4), (4, 6), (5, 6), (6, 8)])
def test_pairs_share_one_source_and_nothing_else(count, group):
    sources = tuple("abcdef"[:count])
    design = Design(sources, 10)
    assert (design.group, design.runs) == (group, max(2, -(-10 // group)) * group)
    for source, pairs in design.pairs.items():
        assert sorted(run for pair in pairs for run in pair) == list(range(group))
        for one, two in pairs:
            a, b = (design.draw(group + run) for run in (one, two))
            assert [s for s in sources if a[s] == b[s]] == [source]
    groups = [
        {design.draw(group * g + r)[s] for r in range(group) for s in sources} for g in (0, 1)
    ]
    assert groups[0].isdisjoint(groups[1])


def test_a_single_source_needs_no_pairs():
    design = Design(("links",), 7)
    assert [design.draw(run) for run in range(7)] == [{"links": run} for run in range(7)]
    assert design.pairs == {}


# ---- moments ----


def test_figures_are_unbiased_at_any_number_of_runs():
    """y = f + w + 3 f w for fair signs: shares 1 and 1, interaction 9, from two groups each."""
    design = Design(("features", "weights"), 8)
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, (2, 20_000, 4), generator=generator) * 2.0 - 1  # [source, trial, draw]
    moments = SampledMoments(torch.full((20_000, 1), 100.0), design)
    for first in (0, 4):
        draws = [design.draw(run) for run in range(first, first + 4)]
        f = torch.stack([signs[0][:, draw["features"]] for draw in draws])
        w = torch.stack([signs[1][:, draw["weights"]] for draw in draws])
        moments.add((100 + f + w + 3 * f * w)[..., None])
    figures = {"total": moments.total, **moments.shares, "rest": moments.interactions}
    for name, want in {"total": 11, "features": 1, "weights": 1, "rest": 9}.items():
        value = figures[name].value
        error = float(value.std() / len(value) ** 0.5)
        assert abs(float(value.mean()) - want) < 4 * error, name
    assert abs(float(moments.mean.value.mean()) - 100) < 4 * (11 * 3 / 8 / 20_000) ** 0.5


def test_runs_may_come_in_any_pieces():
    design = Design(("features", "weights"), 40)
    runs = torch.randn(40, 5, 2, generator=torch.Generator().manual_seed(0)).double()
    whole, pieces = (SampledMoments(torch.zeros(5, 2).double(), design) for _ in range(2))
    whole.add(runs)
    for piece in runs.split([4, 16, 12, 8]):
        pieces.add(piece)
    for name in ("mean", "total", "interactions"):
        a, b = getattr(whole, name), getattr(pieces, name)
        assert torch.allclose(a.value, b.value)
        assert torch.allclose(a.error, b.error)


def test_independent_runs_have_the_textbook_moments_and_errors():
    design = Design(("features",), 3200)
    runs = 5 + 2 * torch.randn(3200, 50, 1, generator=torch.Generator().manual_seed(0)).double()
    moments = SampledMoments(torch.full((50, 1), 4.0).double(), design)
    moments.add(runs)
    assert torch.allclose(moments.mean.value, runs.mean(0))
    assert torch.allclose(moments.total.value, runs.var(0))
    assert float(moments.mean.error.mean()) == pytest.approx(2 / 3200**0.5, rel=0.1)
    assert float(moments.total.error.mean()) == pytest.approx(4 * (2 / 3200) ** 0.5, rel=0.1)
    left_out = moments.total.without_each_batch()
    assert torch.allclose(left_out.mean(0), moments.total.value, rtol=1e-6)


def test_large_answers_keep_their_digits():
    design = Design(("features",), 64)
    runs = 1000 + 0.01 * torch.randn(64, 1, 1, generator=torch.Generator().manual_seed(0))
    moments = SampledMoments(torch.full((1, 1), 1000.0), design)
    moments.add(runs)
    assert moments.total.value.item() == pytest.approx(runs.double().var().item(), rel=1e-5)


def test_few_runs_have_no_standard_error():
    moments = SampledMoments(torch.zeros(1, 1), Design(("features",), 4))
    moments.add(torch.tensor([1.0, 2.0, 3.0, 4.0]).view(4, 1, 1))
    assert moments.total.value.item() == pytest.approx(5 / 3)
    assert moments.total.error.isnan().all()
