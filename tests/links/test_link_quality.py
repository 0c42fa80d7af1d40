import pytest
import torch
from sklearn import metrics

from varigraph.links import LinkQuality


@pytest.fixture
def quality():
    generator = torch.Generator().manual_seed(0)
    links = torch.rand(200, generator=generator).sqrt()
    others = 1 - torch.rand(200, generator=generator).sqrt()
    ways = ("scaled", "isotonic", "scaled")
    return LinkQuality(links, others, method="seal", calibration=ways, odds="density")


def test_links_are_the_ones_and_non_links_the_zeros(quality):
    prob = torch.cat([quality.links, quality.non_links])
    real = torch.arange(400) < 200
    assert quality.auc == pytest.approx(metrics.roc_auc_score(real, prob))
    assert quality.average_precision == pytest.approx(metrics.average_precision_score(real, prob))
    assert quality.brier == pytest.approx(metrics.brier_score_loss(real, prob))
    assert quality.log_loss == pytest.approx(metrics.log_loss(real, prob.double()))
    assert 0 < quality.ece < 0.2
    assert quality.folds == 3


def test_it_reads_as_one_sentence(quality):
    text = str(quality)
    assert text.startswith("seal, 3 folds, density odds, isotonic 1 times, scaled 2 times: ")
    for name in ("auc", "average_precision", "brier", "ece", "log_loss"):
        assert f"{getattr(quality, name):.3f}" in text
    assert "\n" not in text
