from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from varigraph.metrics.calibration import equal_mass, equal_width, sums

few_values = st.lists(st.integers(0, 5), min_size=1, max_size=40)


@pytest.mark.parametrize("bins", [1, 3, 15])
def test_equal_width_agrees_with_a_search_over_the_edges(bins):
    prob = torch.rand(500, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    for p, place in zip(prob.tolist(), equal_width(prob, bins).tolist(), strict=True):
        assert [k for k in range(bins) if k / bins <= p < (k + 1) / bins] == [place]


def test_the_ends_and_a_little_beyond_belong_to_the_outer_intervals():
    assert equal_width(torch.tensor([-1e-7, 0.0, 1.0, 1 + 1e-6]), 4).tolist() == [0, 0, 3, 3]


@given(st.integers(1, 60), st.integers(1, 20))
@settings(max_examples=50, deadline=None)
def test_without_ties_the_intervals_differ_by_at_most_one(count, bins):
    place = equal_mass(torch.randperm(count, generator=torch.Generator().manual_seed(0)), bins)
    sizes = torch.bincount(place, minlength=bins)
    assert len(sizes) == bins
    assert sizes.max() - sizes.min() <= 1


@given(few_values, st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_with_ties_the_middle_of_each_tie_decides(values, bins):
    count = len(values)
    places = equal_mass(torch.tensor(values), bins).tolist()
    for value, place in zip(values, places, strict=True):
        smaller, equal = sum(v < value for v in values), Counter(values)[value]
        # The middle of the tie, in halves of a number to stay with whole ones.
        assert place * 2 * count <= bins * (2 * smaller + equal) < (place + 1) * 2 * count


def test_sums_are_double_and_of_all_places():
    total = sums(torch.tensor([True, True, False]), torch.tensor([2, 2, 0]), 4)
    assert total.dtype == torch.double
    assert total.tolist() == [0, 0, 2, 0]
