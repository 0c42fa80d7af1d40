import sys

import pytest
from torch_geometric.nn import GraphSAGE

from varigraph.errors import OptionError
from varigraph.studies.own_model.network import named_object


def test_modules_and_files(tmp_path):
    assert named_object("torch_geometric.nn:GraphSAGE") is GraphSAGE
    assert named_object("torch_geometric:nn.GraphSAGE") is GraphSAGE
    (tmp_path / "part.py").write_text("answer = 42")
    (tmp_path / "json.py").write_text("from part import answer\nclass A:\n    b = answer\n")
    before = list(sys.path)
    assert named_object(f"{tmp_path}/json.py:A.b") == 42
    assert sys.path == before
    assert sys.modules["json"].__name__ == "json"  # the library's own is still there
    assert hasattr(sys.modules["json"], "dumps")


def test_modules_of_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "own_things.py").write_text("thing = 1")
    monkeypatch.chdir(tmp_path)
    assert named_object("own_things:thing") == 1


def test_two_objects_of_a_file_are_of_one_world(tmp_path):
    (tmp_path / "kinds.py").write_text("class A: pass\na = A()\n")
    assert isinstance(
        named_object(f"{tmp_path}/kinds.py:a"), named_object(f"{tmp_path}/kinds.py:A")
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name' (bad.py, line 1)"),
        ("\n\n1 / 0", "ZeroDivisionError: division by zero (bad.py, line 3)"),
        ("def f(:", "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("good = 1", "has no 'name'"),
    ],
)
def test_files_that_cannot_be_imported(tmp_path, text, problem):
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(OptionError) as caught:
        named_object(f"{tmp_path}/bad.py:name")
    assert problem in caught.value.problem


@pytest.mark.parametrize("spec", ["", ":", "torch:", ":nn", "torch", "model.pt"])
def test_what_names_nothing(spec):
    with pytest.raises(OptionError, match="names no object"):
        named_object(spec)


def test_the_nearest_name_is_offered():
    with pytest.raises(OptionError, match="GraphSAGE") as caught:
        named_object("torch_geometric.nn:GraphSAG")
    assert "GraphSAGE" in caught.value.remedy
