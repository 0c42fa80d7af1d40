import csv

import numpy as np
import pytest
import torch

from cli.own_networks import NAMES, NODES, small_graph
from varigraph.errors import FileError, OptionError
from varigraph.moments import Gaussian
from varigraph.prediction.prediction import Prediction, StandardErrors
from varigraph.prediction.sources.source import all_parts
from varigraph.studies.own_model.prediction_table import (
    check_table_file,
    table_columns,
    write_table,
)


def prediction(*shape, task="classification", sampled=False):
    draw = torch.Generator().manual_seed(0)
    mean = torch.rand(*shape, generator=draw)
    parts = {part: torch.rand(*shape, generator=draw) for part in all_parts()}
    error = StandardErrors(mean / 10, mean / 5, parts) if sampled else None
    return Prediction(mean, parts, Gaussian.certain(mean), "made up", 0, task, error)


def test_columns_of_classes():
    pred, graph = prediction(NODES, 3), small_graph(node_names=NAMES)
    graph.class_names = ["A", "B", "C"]
    found = table_columns(pred, graph, range(NODES))
    assert list(found)[:10] == [
        *("node", "name", "predicted", "predicted_name", "confidence", "confidence_std"),
        *("total", "features", "links", "weights"),
    ]
    assert list(found)[10:15] == ["interactions", "mean_0", "mean_1", "mean_2", "total_0"]
    assert len(found) == 11 + 3 * 6
    for row in range(NODES):
        label = int(pred.mean[row].argmax())
        assert found["predicted"][row] == label
        assert found["predicted_name"][row] == "ABC"[label]
        assert found["confidence"][row] == pred.mean[row, label]
        assert found["confidence_std"][row] == pytest.approx(float(pred.total[row, label]) ** 0.5)
    parts = sum(found[part] for part in all_parts())
    assert found["total"] == pytest.approx(parts, rel=1e-6)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_columns_of_one_value(shape):
    pred = prediction(*shape, task="regression", sampled=True)
    found = table_columns(pred, small_graph(), [3, 1, 0, 7])
    assert list(found) == ["node", "mean", "std", "total", *all_parts(), "mean_se", "total_se"]
    assert found["node"].tolist() == [3, 1, 0, 7]
    assert found["std"] == pytest.approx(pred.total.flatten().sqrt().numpy())
    assert found["mean_se"] == pytest.approx(found["mean"] / 10)


def test_columns_of_several_values():
    found = table_columns(prediction(4, 2, task="regression"), small_graph(), range(4))
    assert list(found)[:7] == ["node", "total", *all_parts(), "mean_0"]
    assert "predicted" not in found


def test_names_and_numbers_come_back_from_csv(tmp_path):
    pred, graph = prediction(NODES, 3), small_graph(node_names=NAMES)
    columns = table_columns(pred, graph, range(NODES))
    write_table(tmp_path / "nodes.csv", columns)
    with (tmp_path / "nodes.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == list(columns)
    assert [row["name"] for row in rows] == NAMES
    back = np.array([row["mean_1"] for row in rows], dtype=np.float32)
    assert (back == pred.mean[:, 1].numpy()).all()  # to the last bit
    assert max(len(row["mean_1"]) for row in rows) < 14


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_private_table_stays_private_and_names_are_no_formulas(tmp_path, suffix):
    path = tmp_path / f"nodes{suffix}"
    path.touch(mode=0o600)
    write_table(path, {"name": ["=1+2", "b"], "mean": np.array([-1.5, 2])})
    assert path.stat().st_mode & 0o777 == 0o600
    if suffix == ".csv":
        assert path.read_text().splitlines() == ["name,mean", "'=1+2,-1.5", "b,2.0"]


def test_nothing_is_left_where_writing_fails(tmp_path):
    columns = {"node": np.arange(3), "mean": np.arange(2)}  # a row is missing
    with pytest.raises(ValueError, match="zip"):
        write_table(tmp_path / "nodes.csv", columns)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileError, match=r"there is no folder[\s\S]*mkdir -p"):
        write_table(tmp_path / "none" / "nodes.csv", {"node": np.arange(3)})


def test_files_that_could_not_be_written(tmp_path):
    (tmp_path / "a.csv").mkdir()
    for name in ("a.csv", "b.xlsx", "c", "none/d.csv"):
        with pytest.raises((OptionError, FileError)):
            check_table_file(tmp_path / name)
    check_table_file(tmp_path / "e.CSV")
