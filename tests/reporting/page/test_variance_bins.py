import pytest
import torch

from varigraph.reporting.page.charts import BINS, VarianceBins


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_every_node_is_counted_where_it_belongs(count):
    draw = torch.Generator().manual_seed(count)
    var = torch.rand(count, generator=draw).double().pow(6)
    wrong = torch.rand(count, generator=draw) < 0.3
    found = VarianceBins.of(var, wrong)
    edges = found.edges.tolist()
    right, missed = [0] * BINS, [0] * BINS
    for value, is_wrong in zip(var.tolist(), wrong.tolist(), strict=True):
        place = max([k for k in range(BINS) if edges[k] <= value], default=0)
        (missed if is_wrong else right)[place] += 1
    assert found.right.tolist() == right
    assert found.wrong.tolist() == missed


def test_zeros_fall_into_the_first_interval():
    found = VarianceBins.of(torch.tensor([0.0, 0.0, 1.0, 0.5]), torch.zeros(4).bool())
    assert found.right[0] >= 2
    assert int(found.right.sum()) == 4


def test_equal_variances_have_an_interval():
    found = VarianceBins.of(torch.full((5,), 0.2), torch.ones(5).bool())
    assert int(found.wrong.sum()) == 5
    assert (found.edges.diff() > 0).all()


def test_without_any_variance_there_is_nothing_to_count():
    assert VarianceBins.of(torch.zeros(3), torch.zeros(3).bool()) is None
