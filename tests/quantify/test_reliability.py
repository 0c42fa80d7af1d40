import pytest
import torch
from scipy.stats import binomtest

from varigraph.errors import GraphError, OptionError
from varigraph.links.quality import ece
from varigraph.quantify.reliability import Reliability


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
    assert float(gaps.sum()) == pytest.approx(ece(prob, real))


@pytest.mark.parametrize(
    ("prob", "real", "options", "error"),
    [
        ([0.5], [True, False], {}, GraphError),
        ([], [], {}, GraphError),
        ([1.5], [True], {}, OptionError),
        ([float("nan")], [True], {}, OptionError),
        ([0.5], [True], {"bins": 0}, OptionError),
    ],
)
def test_mistakes_are_explained(prob, real, options, error):
    with pytest.raises(error):
        Reliability.of(torch.tensor(prob), torch.tensor(real, dtype=torch.bool), **options)


def test_truth_that_is_not_bool_is_refused():
    with pytest.raises(GraphError, match="float32"):
        Reliability.of(torch.tensor([0.5]), torch.tensor([1.0]))
