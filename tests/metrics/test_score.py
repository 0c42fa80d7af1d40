"""Everything at once, against loops and other people's metrics."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn import metrics as theirs

import varigraph as vg
from trust.made_up import drawn, prediction, values
from varigraph.errors import GraphError, OptionError


@pytest.fixture
def classes():
    mean, y = drawn(600, 3)
    plain, _ = drawn(600, 3, temperature=1.5)
    return prediction(mean, plain=plain, names=[f"n{node}" for node in range(600)]), y


def test_scores_of_classes(classes):
    pred, y = classes
    found = vg.metrics.score(pred, y)
    for said, prob in ((found, pred.mean.numpy()), (found.plain, pred.plain.numpy())):
        right = prob.argmax(1) == y.numpy()
        assert said["accuracy"] == pytest.approx(right.mean())
        assert said["cross_entropy"] == pytest.approx(theirs.log_loss(y, prob))
        truth = np.eye(3)[y]
        assert said["brier"] == pytest.approx(((prob - truth) ** 2).sum(1).mean())
        assert said["auroc"] == pytest.approx(theirs.roc_auc_score(right, prob.max(1)))
        order = np.argsort(-prob.max(1), kind="stable")
        risk = (~right[order]).cumsum() / np.arange(1, 601)
        assert said["risk_coverage_area"] == pytest.approx(risk.mean())
        assert said["ece"] == vg.metrics.ece(prob, y)
    assert found.judged == 600
    assert list(found) == list(found.plain)


def test_some_nodes_are_judged(classes):
    pred, y = classes
    mask = torch.arange(600) % 3 == 0
    numbers = mask.nonzero().flatten()
    by_mask = vg.metrics.score(pred, y, nodes=mask)
    assert by_mask["accuracy"] == vg.metrics.accuracy(pred.mean[mask], y[mask])
    assert dict(by_mask) == dict(vg.metrics.score(pred, y, nodes=numbers))
    names = [f"n{node}" for node in numbers.tolist()]
    assert dict(by_mask) == dict(vg.metrics.score(pred, y, nodes=names))
    unknown = torch.where(mask, y, -1)
    assert dict(by_mask) == dict(vg.metrics.score(pred, unknown))
    part = prediction(pred.mean[numbers], nodes=numbers)
    for truth in (y, y[numbers]):  # of every node, or of every row
        assert dict(by_mask) == dict(vg.metrics.score(part, truth))


def test_scores_of_values():
    mean, var, y = values(500)
    pred = prediction(mean, var, "regression", plain=mean + 1)
    found = vg.metrics.score(pred, y, nodes=range(100))
    off = (y - mean)[:100].numpy()
    assert found["rmse"] == pytest.approx((off**2).mean() ** 0.5)
    assert found.plain == {"rmse": pytest.approx(((off - 1) ** 2).mean() ** 0.5)}
    held = (np.abs(off) <= 1.6448536269514722 * var[:100].sqrt().numpy()).mean()
    assert found["held"] == pytest.approx(held)
    calibrated = vg.calibrate(pred, y, nodes=range(300)).apply(pred)
    assert vg.metrics.score(calibrated, y)["held"] > found["held"]


@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_scores_of_labels(task):
    outputs = 1 if task == "binary" else 3
    prob = torch.rand(200, outputs, generator=torch.Generator().manual_seed(0)).double()
    y = (torch.rand(200, outputs, generator=torch.Generator().manual_seed(1)) < prob).float()
    found = vg.metrics.score(prediction(prob, task=task), y.squeeze(1) if outputs == 1 else y)
    flat, truth = prob.flatten().numpy(), y.flatten().numpy()
    assert found["accuracy"] == pytest.approx(((flat > 0.5) == truth).mean())
    assert found["cross_entropy"] == pytest.approx(theirs.log_loss(truth, flat), rel=1e-5)
    assert found["brier"] == pytest.approx(((flat - truth) ** 2).mean())
    assert found.plain == {}


def test_it_is_a_table(classes):
    pred, y = classes
    shown = str(vg.metrics.score(pred, y)).splitlines()
    assert shown[0].split() == ["600", "nodes", "ours", "plain", "network"]
    assert len(shown) == 7
    assert "<td>accuracy</td>" in vg.metrics.score(pred, y)._repr_html_()


def test_without_a_plain_network_there_is_no_column_for_it(classes):
    pred, y = classes
    assert "plain" not in str(vg.metrics.score(replace(pred, plain=None), y))


def test_where_all_are_right_there_is_nothing_to_rank(classes):
    pred, _ = classes
    found = vg.metrics.score(pred, pred.mean.argmax(1))
    assert "auroc" not in found
    assert found["risk_coverage_area"] == 0


def test_what_does_not_fit(classes):
    pred, y = classes
    with pytest.raises(GraphError, match="y has 10 entries, the prediction 600 rows"):
        vg.metrics.score(pred, y[:10])
    with pytest.raises(GraphError, match="not a class for each node"):
        vg.metrics.score(pred, y.float())
    with pytest.raises(OptionError, match="no node to judge"):
        vg.metrics.score(pred, torch.full((600,), -1))
    with pytest.raises(GraphError, match="mask of nodes has shape"):
        vg.metrics.score(pred, y, nodes=torch.ones(5, dtype=torch.bool))
    with pytest.raises(OptionError, match="no node called 'x'"):
        vg.metrics.score(pred, y, nodes=["x"])
    mean, var, truth = values(50)
    with pytest.raises(GraphError, match="for 2 outputs"):
        vg.metrics.score(prediction(mean, var, "regression"), truth[:, 0])
