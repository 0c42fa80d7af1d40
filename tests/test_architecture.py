"""What holds for the package as a whole: who imports whom, and that it stays small."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "varigraph"
FILES = sorted(PACKAGE.rglob("*.py"))
FLOW = [
    "errors",
    "choices",
    "interrupts",
    "options",
    "files",
    "kernels",
    "sparse",
    "metrics",
    "data",
    "links",
    "moments",
    "rules",
    "trust",
    "prediction",
    "sources",
    "training",
    "baselines",
    "quantify",
    "distributed",
    "reporting",
    "studies",
    "cli",
    "__main__",
]
#: What each part may import: itself and what is left of it in the flow.
ALLOWED = {part: FLOW[: place + 1] for place, part in enumerate(FLOW)}
ALLOWED["testing"] = ["errors", "data", "moments", "prediction", "testing"]
ALLOWED["__init__"] = FLOW
#: Files that ask the package itself for its version.
VERSION = {"studies/config.py", "cli/__init__.py"}
OPTIONAL = [
    "typer",
    "rich",
    "matplotlib",
    "plotly",
    "safetensors",
    "pandas",
    "sklearn",
    "pyarrow",
    "torchmetrics",
    "hypothesis",
]


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


def imported(path):
    """Full names of the modules that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)} has a relative import"
            whole = node.module == "varigraph"
            yield from (f"varigraph.{a.name}" if whole else node.module for a in node.names)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_flow_from_left_to_right(path):
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    ours = {name for name in imported(path) if name.split(".")[0] == "varigraph"}
    if name_of(path) in VERSION:
        ours.discard("varigraph")
    assert {name.split(".")[1] if "." in name else name for name in ours} <= set(ALLOWED[part])


def test_every_part_has_its_place():
    parts = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES}
    assert parts == set(ALLOWED)


def test_oracles_are_independent_of_the_package():
    names = list(imported(PACKAGE / "testing" / "oracles.py"))
    assert not [name for name in names if name.startswith("varigraph")]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_are_short_and_named_for_what_they_hold(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    assert path.stem not in {"utils", "helpers", "base", "common", "misc"}


#: Classes whose answers methods are to ask for, never what they are.
OPERATORS = {"Dense", "Scale", "Columns", "Sum", "Operator"}
#: Words that a source is called by, where they mean something else: options, columns, folders,
#: keys of files, progress.
OTHER_MEANINGS = {
    "__init__.py": {"links"},
    "baselines/bgcn.py": {"weights"},
    "cli/graphs.py": {"links", "features"},
    "cli/partition.py": {"links"},
    "cli/report.py": {"links", "weights"},
    "cli/study.py": {"features"},
    "data/graphs.py": {"links"},
    "distributed/parts.py": {"links"},
    "distributed/predict.py": {"links", "weights"},
    "data/node_tables.py": {"links"},
    "links/crossfit.py": {"links", "features"},
    "links/subgraphs.py": {"links"},
    "prediction/calling.py": {"features"},
    "prediction/predict.py": {"links", "weights"},
    "quantify/audit.py": {"links"},
    "reporting/page/nodes.py": {"features"},
    "reporting/page/report.py": {"links"},
    "studies/comparison/pieces.py": {"links"},
    "studies/comparison/protocols.py": {"links"},
    "studies/comparison/study.py": {"links"},
    "studies/comparison/tables.py": {"links", "features"},
    "studies/comparison/workers.py": {"links"},
    "studies/folder.py": {"links"},
    "studies/links.py": {"links"},
    "studies/own_model/subject.py": {"links"},
    "testing/networks.py": {"features", "links", "weights"},
}


def nodes_of(path):
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nobody_asks_what_kind_an_operator_is(path):
    calls = [node for node in nodes_of(path) if isinstance(node, ast.Call)]
    asked = [call.args[1] for call in calls if ast.unparse(call.func) == "isinstance"]
    names = {part.id for kind in asked for part in ast.walk(kind) if isinstance(part, ast.Name)}
    assert not names & OPERATORS


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_sources_are_named_in_their_own_files_only(path):
    texts = {node.value for node in nodes_of(path) if isinstance(node, ast.Constant)}
    allowed = OTHER_MEANINGS.get(name_of(path), set())
    if "sources" not in path.parts:
        assert {"features", "links", "weights"} & texts == allowed


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_known_by_its_address(path):
    names = [node.id for node in nodes_of(path) if isinstance(node, ast.Name)]
    assert "id" not in names


def test_files_are_chapters():
    assert len(FILES) <= 254


BARE = """
import sys
import warnings

sys.modules.update(dict.fromkeys(OPTIONAL))  # None: as if not installed, for find_spec as well
warnings.simplefilter("ignore")

import torch
import varigraph as vg
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

links = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
graph = Data(x=torch.rand(3, 4), edge_index=links, x_var=0.1, edge_prob=torch.full((4,), 0.9))
pred = vg.predict(GraphSAGE(4, 8, 2, 3, dropout=0.5), graph, samples=3)
assert pred.total.shape == (3, 3)
assert vg.add_noise(vg.load("cora"), percent=5).x_var > 0
"""


def test_the_core_works_without_optional_packages():
    code = f"OPTIONAL = {OPTIONAL}\n{BARE}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
