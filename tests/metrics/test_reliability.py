import pytest
import torch
from scipy.stats import binomtest

from varigraph.metrics import binary_ece
from varigraph.metrics.calibration import Reliability


def pairs(count, *, certain=False):
    draw = torch.Generator().manual_seed(count)
    prob = torch.rand(count, generator=draw).double()
    prob = prob.round() if certain else prob
    return prob, torch.rand(count, generator=draw) < prob


@pytest.mark.parametrize("bins", [1, 15])
@pytest.mark.parametrize(("count", "certain"), [(1, False), (40, True), (60, False), (2000, False)])
def test_shares_and_their_intervals_agree_with_scipy_one_by_one(count, certain, bins):
    prob, real = pairs(count, certain=certain)
    members = {}
    for p, y in zip(prob.tolist(), real.tolist(), strict=True):
        members.setdefault(min(int(p * bins), bins - 1), []).append((p, y))
    found = Reliability.of(prob, real, bins=bins)
    assert found.start.tolist() == pytest.approx([key / bins for key in sorted(members)])
    assert found.count.tolist() == [len(members[key]) for key in sorted(members)]
    for place, key in enumerate(sorted(members)):
        hits, n = sum(y for _, y in members[key]), len(members[key])
        interval = binomtest(hits, n).proportion_ci(0.95, method="wilson")
        assert found.observed[place] == pytest.approx(hits / n)
        assert found.predicted[place] == pytest.approx(sum(p for p, _ in members[key]) / n)
        assert found.low[place] == pytest.approx(interval.low, abs=1e-6)
        assert found.high[place] == pytest.approx(interval.high, abs=1e-6)


def test_the_gaps_make_the_calibration_error():
    prob, real = pairs(500)
    found = Reliability.of(prob, real)
    gaps = (found.observed - found.predicted).abs() * found.count / 500
    assert float(gaps.sum()) == pytest.approx(binary_ece(prob, real))
