import pytest
import torch

from metrics.drawn import classified
from varigraph import metrics
from varigraph.prediction.sources.source import all_parts
from varigraph.quantify.levels import rung


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_has_the_scores_of_the_prediction(dtype):
    mean, labels = classified(dtype=dtype)
    by_source = {part: (place + 1) * mean * 1e-3 for place, part in enumerate(all_parts())}
    found = rung(mean, by_source, labels, level=4, input_var=0.02)
    assert (found.level, found.input_var) == (4, 0.02)
    for name in ("accuracy", "cross_entropy", "brier", "ece"):
        assert getattr(found, name) == getattr(metrics, name)(mean, labels)
    for place, part in enumerate(all_parts()):
        assert found.by_source[part] == pytest.approx((place + 1) * 1e-3 / 5)
    assert found.total == pytest.approx(10 * 1e-3 / 5)


def test_a_part_below_zero_counts_as_it_is():
    mean, labels = classified()
    by_source = dict.fromkeys(all_parts(), torch.ones_like(mean)) | {
        "interactions": -mean.new_ones(1)
    }
    assert rung(mean, by_source, labels, level=0, input_var=0).total == 2
