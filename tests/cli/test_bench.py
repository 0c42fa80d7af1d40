"""The benchmark from the command line."""

import json

import pytest
from typer.testing import CliRunner

from varigraph.cli import app
from varigraph.studies.speed import bench as study
from varigraph.studies.speed.contenders import present
from varigraph.studies.speed.results import HEADER, ContenderRow, Machine, Speed

QUICK = [
    "bench",
    "cora",
    "--repeats",
    "1",
    "--masks",
    "2",
    "--epochs",
    "1",
    "--draws",
    "20",
    "--threads",
    "1",
]


#: All but the slowest of ours, which alone takes a third of the time.
QUICKEST = [each for each in present() if each.name != "vg: covariance"]


@pytest.fixture(scope="module")
def shown():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "present", lambda: QUICKEST)
        return CliRunner().invoke(app, QUICK, env={"COLUMNS": "80"})


def test_every_contender_has_a_row(shown):
    assert shown.exit_code == 0, shown.output
    assert all(name in shown.stdout for name in HEADER)
    lines = shown.stdout.splitlines()
    for contender in QUICKEST:
        (line,) = (row for row in lines if row.strip().startswith(f"{contender.name}  "))
        assert "MiB" in line
    assert "torch_geometric" in shown.stdout


def test_it_speaks_json(monkeypatch):
    machine = Machine("a processor", 2, "3.11", "2.13", "2.8")
    rows = (
        ContenderRow("plain forward", (), 0.5, 1, None, 2),
        ContenderRow("plain forward, CSR", (), 0.25, 1, None, 2),
    )
    asked = {}

    def bench(dataset, **options):
        asked.update(options, dataset=dataset)
        return Speed("cora", 1, 1, 1, 2, 1, 1, "4GiB", 1, machine, rows)

    monkeypatch.setattr(study, "bench", bench)
    result = CliRunner().invoke(app, [*QUICK, "--memory", "1GiB", "--json"])
    found = json.loads(result.stdout)
    assert [row["times_csr"] for row in found["rows"]] == [2, 1]
    keys = {"name", "sources", "seconds", "memory", "fidelity", "masks", "problem", "beside"}
    assert set(found["rows"][0]) == keys | {"times_plain", "times_csr"}
    assert set(found) >= {"dataset", "nodes", "links", "masks", "threads", "machine", "rows"}
    assert {**asked, "progress": None} == {
        **{"dataset": "cora", "masks": 2, "repeats": 1, "memory": "1GiB", "threads": 1},
        **{"epochs": 1, "draws": 20, "seed": 0, "root": None, "progress": None},
    }


@pytest.mark.parametrize("mistake", [["coral"], ["--masks", "1"], ["--memory", "much"]])
def test_mistakes_are_explained_without_a_traceback(mistake, explained):
    explained("bench", *mistake)
