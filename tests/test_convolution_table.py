"""docs/convolutions.md lists every convolution, and how it is answered for."""

import importlib.util
import sys
from pathlib import Path

import pytest
from torch_geometric.nn import conv

from corpus.convolutions import CONVOLUTIONS, LEFT_OUT

ROOT = Path(__file__).parents[1]
#: One of each sort: these are asked about again, which takes some seconds.
SAMPLE = ("GCNConv", "GATConv", "GINConv", "ChebConv", "EdgeConv", "MeshCNNConv", "HeteroConv")


@pytest.fixture(scope="module")
def table():
    path = ROOT / "scripts" / "convolutions.py"
    spec = importlib.util.spec_from_file_location("convolution_table", path)
    module = sys.modules["convolution_table"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["convolution_table"]


@pytest.fixture(scope="module")
def rows(table):
    lines = table.TARGET.read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:3] == "| `"
    ]
    return {name.strip("`"): others for name, *others in cells}


def test_it_lists_every_convolution(rows):
    assert list(rows) == [name for name in conv.__all__ if name != "MessagePassing"]
    assert set(rows) == {*CONVOLUTIONS, *LEFT_OUT}


def test_its_text_is_that_of_the_script(table):
    assert table.TARGET.read_text(encoding="utf-8").startswith(table.TEXT), "make convolutions"


def test_what_has_no_answer_has_a_reason(rows):
    bare = [name for name, cells in rows.items() if "–" in cells]
    assert all(rows[name][-1] for name in bare)
    assert len(bare) < len(rows) / 4


@pytest.mark.parametrize("name", SAMPLE)
def test_states_are_those_of_today(table, rows, name):
    found = table.row(name, table.verdict)
    assert [found[1], found[3]] == [rows[name][0], rows[name][2]], "make convolutions"
