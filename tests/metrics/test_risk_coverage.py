from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from varigraph.metrics import risk_coverage


def area(wrong):
    """Mean share of errors among the first k, by its definition."""
    return sum(sum(wrong[:k]) / k for k in range(1, len(wrong) + 1)) / len(wrong)


nodes = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6)


@given(nodes)
@settings(max_examples=60, deadline=None)
def test_the_area_is_the_mean_over_all_orders_of_ties(drawn):
    orders = [o for o in permutations(drawn) if [u for u, _ in o] == sorted(u for u, _ in o)]
    expected = sum(area([wrong for _, wrong in order]) for order in orders) / len(orders)
    found = risk_coverage(*map(torch.tensor, zip(*drawn, strict=True)))
    assert found.area == pytest.approx(expected, abs=1e-12)
    best = min(area(order) for order in permutations([wrong for _, wrong in drawn]))
    assert found.optimal_area == pytest.approx(best, abs=1e-12)
    assert found.excess_area == pytest.approx(expected - best, abs=1e-12)


@given(nodes)
@settings(max_examples=60, deadline=None)
def test_nodes_of_equal_uncertainty_enter_together(drawn):
    found = risk_coverage(*map(torch.tensor, zip(*drawn, strict=True)))
    levels = sorted({u for u, _ in drawn})
    for level, coverage, risk in zip(
        levels, found.coverage.tolist(), found.risk.tolist(), strict=True
    ):
        accepted = [wrong for u, wrong in drawn if u <= level]
        assert coverage == pytest.approx(len(accepted) / len(drawn))
        assert risk == pytest.approx(sum(accepted) / len(accepted))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_nodes_without_ties_agree_with_the_definition(dtype):
    draw = torch.Generator().manual_seed(0)
    uncertainty = torch.randperm(1000, generator=draw).to(dtype)
    wrong = torch.rand(1000, generator=draw) < uncertainty / 2000
    found = risk_coverage(uncertainty, wrong)
    assert found.area == pytest.approx(area(wrong[uncertainty.argsort()].tolist()), abs=1e-12)
    assert len(found.risk) == 1000
    assert found.risk.dtype == found.coverage.dtype == torch.double


@pytest.mark.parametrize(("wrong", "expected"), [(False, 0), (True, 1)])
def test_all_right_or_all_wrong(wrong, expected):
    found = risk_coverage(torch.rand(5), torch.full((5,), wrong))
    assert found.area == found.optimal_area == pytest.approx(expected)
