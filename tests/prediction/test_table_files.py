import csv

import numpy as np
import pytest
import torch

from cli.own_networks import NAMES, NODES
from varigraph.errors import FileError, OptionError
from varigraph.prediction.table import check_table_file, write_table


def test_names_and_numbers_come_back_from_csv(tmp_path):
    mean = torch.rand(NODES, 3, generator=torch.Generator().manual_seed(0)).numpy()
    columns = {"name": NAMES, **{f"mean_{place}": mean[:, place] for place in range(3)}}
    write_table(tmp_path / "nodes.csv", columns)
    with (tmp_path / "nodes.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == list(columns)
    assert [row["name"] for row in rows] == NAMES
    back = np.array([row["mean_1"] for row in rows], dtype=np.float32)
    assert (back == mean[:, 1]).all()  # to the last bit
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
