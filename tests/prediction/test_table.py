"""The table of a prediction, as columns and as a frame of pandas."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import varigraph as vg
from cli.own_networks import NAMES, NODES
from trust.made_up import drawn
from trust.made_up import prediction as made_up
from varigraph.errors import OptionError
from varigraph.moments import Gaussian
from varigraph.prediction.prediction import Prediction, StandardErrors
from varigraph.prediction.rows import Rows
from varigraph.prediction.sources.source import all_parts
from varigraph.prediction.table import table_columns


def prediction(*shape, task="classification", sampled=False, **rows):
    draw = torch.Generator().manual_seed(0)
    mean = torch.rand(*shape, generator=draw)
    parts = {part: torch.rand(*shape, generator=draw) for part in all_parts()}
    error = StandardErrors(mean / 10, mean / 5, parts) if sampled else None
    logits = Gaussian.certain(mean)
    return Prediction(mean, parts, logits, "made up", 0, task, error, rows=Rows(**rows))


def test_columns_of_classes():
    pred = prediction(NODES, 3, names=NAMES, outputs=["A", "B", "C"])
    found = table_columns(pred)
    assert list(found)[:11] == [
        *("node", "name", "predicted", "predicted_name", "confidence", "confidence_std", "trust"),
        *("total", "features", "links", "weights"),
    ]
    assert list(found)[11:16] == ["interactions", "mean_0", "mean_1", "mean_2", "total_0"]
    assert len(found) == 12 + 3 * 6
    for row in range(NODES):
        label = int(pred.mean[row].argmax())
        assert found["predicted"][row] == label
        assert found["predicted_name"][row] == "ABC"[label]
        assert found["confidence"][row] == pred.mean[row, label]
        assert found["confidence_std"][row] == pytest.approx(float(pred.total[row, label]) ** 0.5)
    parts = sum(found[part] for part in all_parts())
    assert found["total"] == pytest.approx(parts, rel=1e-6)


def test_the_plain_network_stands_beside_the_answer():
    pred = prediction(NODES, 3)
    plain = torch.rand(NODES, 3).softmax(1)
    found = table_columns(replace(pred, plain=plain))
    for row in range(NODES):
        assert found["plain"][row] == plain[row, int(pred.mean[row].argmax())]
    assert (found["plain_2"] == plain[:, 2].numpy()).all()


def test_columns_of_yes_and_no():
    pred = prediction(NODES, 1, task="binary", outputs=["edible", "poisonous"])
    found = table_columns(replace(pred, plain=1 - pred.mean))
    for row, mean in enumerate(pred.mean[:, 0].tolist()):
        assert found["predicted_name"][row] == ("poisonous" if mean > 0.5 else "edible")
        assert found["confidence"][row] == pytest.approx(max(mean, 1 - mean))
        assert found["plain"][row] == pytest.approx(min(mean, 1 - mean), abs=1e-6)


def test_columns_of_one_value():
    pred = prediction(4, 1, task="regression", sampled=True, nodes=torch.tensor([3, 1, 0, 7]))
    found = table_columns(pred)
    assert list(found) == [
        *("node", "mean", "std", "trust", "total", *all_parts()),
        *("mean_se", "total_se"),
    ]
    assert found["node"].tolist() == [3, 1, 0, 7]
    assert found["std"] == pytest.approx(pred.total.flatten().sqrt().numpy())
    assert found["mean_se"] == pytest.approx(found["mean"] / 10)


def test_columns_of_several_values():
    found = table_columns(prediction(4, 2, task="regression"))
    assert list(found)[:8] == ["node", "trust", "total", *all_parts(), "mean_0"]
    assert "predicted" not in found


def test_a_frame_is_read_by_name():
    pred = prediction(NODES, 3, names=NAMES)
    frame = pred.to_pandas()
    assert frame.loc[NAMES[2], "mean_1"] == pred.mean[2, 1].item()
    assert list(frame.index) == NAMES
    assert prediction(NODES, 3).to_pandas().loc[2, "mean_1"] == pred.mean[2, 1].item()


def test_a_frame_has_intervals_and_classes_where_they_are_asked_for():
    mean, y = drawn(300, 3)
    pred = made_up(mean, outputs=["a", "b", "c"])
    assert "low_0" not in pred.to_pandas()
    frame = pred.to_pandas(interval=0.8)
    low, high = pred.interval(0.8)
    assert (frame["low_1"] == low[:, 1].numpy()).all()
    assert (frame["high_2"] == high[:, 2].numpy()).all()
    assert "classes" not in frame
    calibrated = vg.calibrate(pred, y, nodes=range(300)).apply(pred)
    sets = calibrated.class_sets(0.8)
    shown = calibrated.to_pandas(interval=0.8)["classes"]
    assert list(shown) == [", ".join(each) for each in sets]
    assert np.mean([len(each.split(", ")) for each in shown if each]) > 1


def test_pandas_is_optional(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(OptionError, match=r"pandas is not installed[\s\S]*pip install pandas"):
        prediction(4, 2).to_pandas()
