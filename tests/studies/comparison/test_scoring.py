import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score

from varigraph.baselines.plain import from_draws
from varigraph.studies.comparison.cells import scores_of

DRAW = torch.Generator().manual_seed(0)
LABELS = torch.randint(3, (200,), generator=DRAW)
LOGITS = torch.randn(200, 3, generator=DRAW).double() + torch.nn.functional.one_hot(LABELS, 3)
NODES = torch.rand(200, generator=DRAW) < 0.5
DRAWS = [LOGITS + 0.3 * torch.randn(200, 3, generator=DRAW) for _ in range(5)]


def test_scores_are_those_of_sklearn_on_the_nodes_asked_for():
    prediction = from_draws(DRAWS, method="fake")
    found = scores_of(prediction, LABELS, NODES)
    mean, truth = prediction.mean[NODES].double().numpy(), LABELS[NODES].numpy()
    wrong = mean.argmax(axis=1) != truth
    assert found["accuracy"] == pytest.approx(1 - wrong.mean())
    assert found["cross_entropy"] == pytest.approx(log_loss(truth, mean), rel=1e-5)
    uncertainty = prediction.total[NODES].double().sum(dim=1).numpy()
    assert found["auroc"] == pytest.approx(roc_auc_score(wrong, uncertainty))
    assert found["confidence_auroc"] == pytest.approx(roc_auc_score(wrong, -mean.max(axis=1)))
    assert found["total"] == pytest.approx(found["aleatoric"] + found["epistemic"])
    assert found["epistemic"] == pytest.approx(uncertainty.mean() / 3)


def test_without_variance_nothing_is_said_about_it():
    found = scores_of(from_draws(DRAWS[:1], method="plain"), LABELS, NODES)
    nothing = {name for name, value in found.items() if value is None}
    assert nothing == {"per_class_nll", "auroc", "average_precision", "risk_coverage_area"}
    assert found["confidence_auroc"] > 0.5
    assert found["total"] == 0


def test_where_all_nodes_are_right_there_is_no_error_to_spot():
    sure = 9 * torch.nn.functional.one_hot(LABELS, 3).float()
    found = scores_of(from_draws([sure, 2 * sure], method="fake"), LABELS, NODES)
    assert found["accuracy"] == 1
    assert found["auroc"] is None
    assert found["confidence_auroc"] is None
