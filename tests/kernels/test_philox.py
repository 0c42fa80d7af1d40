import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from varigraph.kernels.philox import philox_dropped, philox_levels, philox_masks, philox_words
from varigraph.prediction.masks import PER_COUNT, Site, draw_masks
from varigraph.prediction.sampled.draws import FEATURES, _quantiles, normals
from varigraph.prediction.sampled.tosses import LINKS, words_of_coins

CPU = torch.device("cpu")


def by_numpy(size, counter, key, dropped, scale):
    """A byte at a time, lowest first, from numpy's own generator; beside it 157 times a count."""
    words = np.random.Philox(key=key, counter=counter).random_raw(-(-size // 8))
    drawn = [(int(word) >> shift) & 0xFF for word in words for shift in range(0, 64, 8)]
    first = 32 * counter[0] + counter[2]
    counted = [157 * (first + number) % 256 for number in range(size)]
    levels = [256 * high + low for high, low in zip(drawn, counted, strict=False)]
    return [scale if level >= dropped else 0.0 for level in levels]


@pytest.mark.parametrize("key", [0, 7, 2**63 + 11, 2**100 + 3])
@pytest.mark.parametrize("counter", [(0, 0, 0, 1), (5, 2, 40, 1), (2**40, 1, 1, 1)])
def test_masks_are_numpys_bit_for_bit(key, counter):
    masks = philox_masks((3, 333), counter, key=key, dropped=20_000, scale=1.5, device=CPU)
    at, place, sample, source = counter
    expected = [
        by_numpy(333, [at, place, sample + number, source], key, 20_000, 1.5) for number in range(3)
    ]
    assert masks.tolist() == expected


@pytest.mark.parametrize(("dropped", "kept"), [(0, 1.0), (2**16, 0.0)])
def test_nothing_or_all_is_dropped_at_the_ends(dropped, kept):
    masks = philox_masks((2, 100), (0, 0, 0, 1), key=1, dropped=dropped, scale=1.0, device=CPU)
    assert (masks == kept).all()


def test_moments_under_a_mask_that_is_never_written_down():
    draw = torch.Generator().manual_seed(0)
    mean, var = torch.randn(2, 21, 13, generator=draw)
    where = {"key": 5, "dropped": 30_000, "scale": 1.75}
    mask = philox_masks((1, 21 * 13), (3, 1, 9, 1), device=CPU, **where).view(21, 13)
    found = philox_dropped(mean, var, (3, 1, 9, 1), **where)
    torch.testing.assert_close(found[0], mean * mask, rtol=0, atol=0)
    torch.testing.assert_close(found[1], var * mask.square(), rtol=0, atol=0)


@pytest.mark.parametrize("key", [0, 2**100 + 3])
@pytest.mark.parametrize("size", [1, 333, 2_000])
def test_levels_of_noise_are_numpys_sixteen_bits(key, size):
    words = np.random.Philox(key=key, counter=[5, 0, 7, 2]).random_raw(-(-size // 4))
    expected = [(int(word) >> shift) & 0xFFFF for word in words for shift in range(0, 64, 16)]
    found = philox_levels(torch.arange(2**16).float(), size, (5, 0, 7, 2), key=key)
    assert found.tolist() == expected[:size]


@pytest.mark.parametrize("key", [0, 2**100 + 3])
@pytest.mark.parametrize("size", [1, 333, 1_001])
def test_words_are_numpys(key, size):
    expected = np.random.Philox(key=key, counter=[0, 0, 4, 3]).random_raw(size)
    found = philox_words(size, (0, 0, 4, 3), key=key, device=CPU)
    assert [int(word) % 2**64 for word in found] == [int(word) for word in expected]


@pytest.mark.parametrize("seed", [0, 2**63 + 11])
def test_draws_on_a_gpu_are_those_on_a_processor(seed):
    noise = philox_levels(_quantiles(), 37 * 11, (0, 0, 5, FEATURES), key=seed)
    assert torch.equal(noise.view(37, 11), normals((37, 11), 5, seed=seed))
    prob = torch.rand(501, generator=torch.Generator().manual_seed(0))
    words = philox_words(len(prob), (0, 0, 5, LINKS), key=seed, device=CPU)
    assert torch.equal(words, words_of_coins(prob, 5, seed=seed))


def test_masks_by_rows_are_those_of_a_whole():
    site = Site(torch.Size([70, 6]), 0.3)
    rows = slice(2 * PER_COUNT, 70)
    whole = draw_masks(site, 1, range(3, 4), seed=9)[0]
    how = {"key": 9, "dropped": site.dropped, "scale": site.scale, "device": CPU}
    assert torch.equal(philox_masks((1, 420), (0, 1, 3, 1), **how).view(70, 6), whole)
    start = (rows.start * 6 // PER_COUNT, 1, 3, 1)
    part = philox_masks((1, (rows.stop - rows.start) * 6), start, **how).view(-1, 6)
    assert torch.equal(part, whole[rows])
