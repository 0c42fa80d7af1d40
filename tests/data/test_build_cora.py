import hashlib
import importlib.util
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from varigraph.data.graphs import CORA_CLASSES

SCRIPT = Path(__file__).parents[2] / "scripts" / "build_cora.py"


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("build_cora", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path, build):
    """Three papers, cited both ways, twice and by themselves."""
    inside = tmp_path / "unpacked" / "graphdatascience" / "resources" / "cora"
    inside.mkdir(parents=True)
    papers = {
        "nodeId": [70, 10, 50],
        "subject": [4, 0, 6],
        "features": [[0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]],
    }
    cites = {"sourceNodeId": [70, 10, 70, 50, 50], "targetNodeId": [10, 70, 10, 50, 70]}
    parquet.write_table(pa.table(papers), inside / build.NODES)
    parquet.write_table(pa.table(cites), inside / build.LINKS)
    return tmp_path / "unpacked"


@pytest.fixture
def wheel(tmp_path, folder):
    path = tmp_path / "package.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for file in folder.rglob("*.gzip"):
            packed.write(file, file.relative_to(folder))
    return path


def run(build, source, target, monkeypatch):
    monkeypatch.setattr(build, "TARGET", target)
    monkeypatch.setattr(sys, "argv", ["build_cora.py", str(source)])
    build.main()
    return target.read_bytes()


def test_the_arrays_say_what_the_tables_say(build, folder, tmp_path, monkeypatch):
    run(build, folder, tmp_path / "out.npz", monkeypatch)
    with np.load(tmp_path / "out.npz", allow_pickle=False) as stored:
        assert stored["links"].tolist() == [[0, 0], [1, 2]]
        names = [CORA_CLASSES[label] for label in stored["labels"]]
        assert stored["words"].tolist() == [1, 2, 0]
        assert stored["word_start"].tolist() == [0, 2, 2, 3]
        assert stored["word_count"] == 4
    assert names == ["Theory", "Neural_Networks", "Case_Based"]


def test_wheel_and_folder_give_the_same_bytes(build, folder, wheel, tmp_path, monkeypatch):
    one = run(build, folder, tmp_path / "one.npz", monkeypatch)
    two = run(build, wheel, tmp_path / "two.npz", monkeypatch)
    assert one == two


def test_members_carry_no_date_of_the_day(build, folder, tmp_path, monkeypatch):
    run(build, folder, tmp_path / "out.npz", monkeypatch)
    with zipfile.ZipFile(tmp_path / "out.npz") as packed:
        assert {member.date_time[0] for member in packed.infolist()} == {1980}


def test_missing_tables_are_named(build, tmp_path):
    with zipfile.ZipFile(tmp_path / "empty.whl", "w"):
        pass
    with pytest.raises(SystemExit, match=r"no cora_nodes\.parquet\.gzip in .*empty\.whl"):
        build.content(tmp_path / "empty.whl", build.NODES)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SystemExit, match=r"no cora_rels\.parquet\.gzip under .*nothing"):
        build.content(tmp_path / "nothing", build.LINKS)


def test_subjects_and_class_names_are_the_same_seven(build):
    assert sorted(build.SUBJECTS) == sorted(CORA_CLASSES)


def test_the_checksum_is_printed(build, folder, tmp_path, monkeypatch, capsys):
    packed = run(build, folder, tmp_path / "out.npz", monkeypatch)
    assert f"sha256 {hashlib.sha256(packed).hexdigest()}" in capsys.readouterr().out
