"""Masks depend on their key and on nothing else."""

import numpy as np
import pytest
import torch
from scipy import stats

from varigraph.prediction.masks import Site, draw_masks

FAILURE_RATE = 1e-6
SITE = Site(torch.Size([40, 25]), 0.3)


def test_they_do_not_depend_on_the_grouping():
    whole = draw_masks(SITE, 2, range(7), seed=1)
    pieces = [draw_masks(SITE, 2, range(s, s + 1), seed=1) for s in range(7)]
    assert torch.equal(whole, torch.cat(pieces))


def test_seed_place_and_sample_all_count():
    base = draw_masks(SITE, 0, range(1), seed=0)
    others = [
        draw_masks(SITE, 0, range(1), seed=1),
        draw_masks(SITE, 1, range(1), seed=0),
        draw_masks(SITE, 0, range(1, 2), seed=0),
    ]
    assert not any(torch.equal(base, other) for other in others)


def test_the_rate_is_right_and_the_mean_is_one():
    masks = draw_masks(SITE, 0, range(300), seed=0)
    kept = int((masks > 0).sum())
    chance = stats.binomtest(kept, masks.numel(), 1 - 0.3).pvalue
    assert chance > FAILURE_RATE
    scale = masks.max().item()
    share_kept = 1 - round(0.3 * 65536) / 65536
    assert scale * share_kept == pytest.approx(1.0, rel=1e-6)


def test_neighbouring_numbers_are_independent():
    kept = (draw_masks(SITE, 0, range(400), seed=3).flatten() > 0).double()
    pairs = (kept[1:] - kept.mean()) * (kept[:-1] - kept.mean())
    z = pairs.mean() / (pairs.std() / len(pairs) ** 0.5)
    assert abs(z.item()) < stats.norm.isf(FAILURE_RATE / 2)


@pytest.mark.parametrize(("rate", "value"), [(1.0, 0.0), (1e-9, 1.0)])
def test_rates_at_the_ends(rate, value):
    masks = draw_masks(Site(torch.Size([5]), rate), 0, range(3), seed=0)
    assert masks.unique().tolist() == [value]


@pytest.mark.parametrize("width", [(25,), (3,), ()])
def test_rows_are_those_of_the_whole_mask(width):
    site = Site(torch.Size([100, *width]), 0.3)
    whole = draw_masks(site, 1, range(2), seed=9)
    for rows in (slice(0, 1), slice(0, 64), slice(64, 96), slice(96, 100)):
        some = draw_masks(site, 1, range(2), seed=9, rows=rows)
        assert torch.equal(some, whole[:, rows])


def by_hand(site, place, sample, seed, first):
    """One number after the other: a drawn byte above a counted one, against the rate."""
    size, dropped = site.shape.numel(), round(site.rate * 65536)
    stream = np.random.Philox(key=seed, counter=[first // 32, place, sample, 1])
    drawn = stream.random_raw(-(-size // 8)).tobytes()
    levels = [256 * drawn[i] + 157 * (first + i + sample) % 256 for i in range(size)]
    return [65536 / max(65536 - dropped, 1) if level >= dropped else 0.0 for level in levels]


@pytest.mark.parametrize("rate", [1e-5, 0.003, 0.0039, 0.1, 0.5, 0.77, 0.9961, 0.9999, 1.0])
def test_every_number_by_hand(rate):
    site = Site(torch.Size([300]), rate)
    drawn = draw_masks(site, 3, range(5, 7), seed=11)
    expected = torch.tensor([by_hand(site, 3, sample, 11, 0) for sample in (5, 6)])
    torch.testing.assert_close(drawn, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("rate", [0.003, 0.1, 0.998])
def test_every_number_has_the_rate_over_samples(rate):
    """Chances add up to the rate over 256 samples, so the sum of a number has a known spread."""
    kept = (draw_masks(Site(torch.Size([1000]), rate), 0, range(512), seed=2) > 0).double().sum(0)
    exact = 1 - round(rate * 65536) / 65536
    spread = (512 * exact * (1 - exact)) ** 0.5
    z = (kept - 512 * exact) / spread
    assert abs(z.mean().item()) * 1000**0.5 < stats.norm.isf(FAILURE_RATE / 2)
    assert z.var().item() == pytest.approx(1, abs=5 * (2 / 1000) ** 0.5)
