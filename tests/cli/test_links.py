import json
from contextlib import contextmanager
from importlib import import_module

import pytest
from typer.testing import CliRunner

import varigraph as vg
from varigraph.cli import app

pytestmark = pytest.mark.usefixtures("quick")
FILES = [*(f"fold-{n}.npz" for n in (1, 2, 3)), "links.csv", "quality.json", "reliability.png"]


def invoke(*arguments):
    return CliRunner().invoke(app, ["links", *map(str, arguments)])


def test_it_ends_with_the_measures_and_the_file(link_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke(link_file, "--method", "hadamard", "--folds", 3)
    assert done.exit_code == 0, done.output
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[0] == "cliques, hadamard, 3 folds, seed 0: quality at balanced odds"
    assert any(line.split()[:1] == ["AUC"] and line.endswith("log loss") for line in lines)
    assert lines[-1] == "links/cliques-hadamard-seed0/links.csv"
    assert done.stderr.splitlines()[-1].startswith("links: 100 of 100, ")
    folder = tmp_path / "links" / "cliques-hadamard-seed0"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert vg.read_links(folder / "links.csv").reading.links == 56


def test_ctrl_c_keeps_finished_folds_and_a_second_call_ends_the_same(
    link_file, tmp_path, monkeypatch
):
    @contextmanager
    def stopping():
        def show(stage, done, total):
            if done > 40:  # into the second fold of three
                raise KeyboardInterrupt

        yield show

    options = [link_file, "--folds", 3, "--json", "--out"]
    whole = invoke(*options, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(import_module("varigraph.cli.graphs"), "progress_bars", stopping)
        stopped = invoke(*options, tmp_path / "out")
    assert stopped.exit_code == 130
    assert stopped.stderr.count("\n") == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == FILES[:1]
    first = (tmp_path / "out" / FILES[0]).stat().st_mtime_ns
    again = invoke(*options, tmp_path / "out")
    assert again.stdout == whole.stdout.replace("whole", "out")
    assert (tmp_path / "out" / FILES[0]).stat().st_mtime_ns == first
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_it_speaks_json(link_file, tmp_path):
    options = [link_file, "--folds", 3, "--odds", "density", "--out", tmp_path / "out"]
    found = json.loads(invoke(*options, "--json").stdout)
    assert found["folder"] == str(tmp_path / "out")
    assert (found["method"], found["odds"], found["folds"]) == ("seal", "density", 3)
    assert 0 < found["auc"] <= 1
    stored = json.loads((tmp_path / "out" / "quality.json").read_text())
    assert stored == {name: value for name, value in found.items() if name != "folder"}


def test_self_links_are_noted(link_file, tmp_path):
    link_file.write_text(link_file.read_text() + "P1 P1\n")
    done = invoke(link_file, "--folds", 2, "--out", tmp_path / "out")
    assert done.stdout.splitlines()[-2] == "57 lines, 56 links, 1 self link dropped"


def test_a_data_set(tmp_path):
    done = invoke("Cora", "--method", "hadamard", "--folds", 2, "--out", tmp_path, "--json")
    found = json.loads(done.stdout)
    assert (found["nodes"], found["links"]) == (2708, 5278)
    assert found["auc"] > 0.8
    lines = (tmp_path / "links.csv").read_text().splitlines()
    assert lines[0] == "from,to,computed"
    assert len(lines) == 1 + 5278


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        (["--method", "guess"], "--method 'guess' is unknown"),
        (["--odds", "even"], "--odds 'even' is unknown"),
        (["--folds", "1"], "--folds 1 is not from 2"),
        (["--folds", "50"], "too few for 50 folds"),
        (["--seed", "-1"], "--seed -1 is not from 0"),
    ],
)
def test_mistakes_leave_nothing_behind(explained, link_file, tmp_path, options, culprit):
    said = explained("links", link_file, *options, "--out", tmp_path / "out")
    assert culprit in said
    assert not (tmp_path / "out").exists()


def test_neither_a_data_set_nor_a_file(explained):
    said = explained("links", "coral")
    assert "coral is no file" in said
    assert "cora, " in said


def test_a_line_that_is_no_link_is_named(explained, tmp_path):
    path = tmp_path / "links.txt"
    path.write_text("a b\nc\n")
    assert f"{path}, line 2: too few fields" in explained("links", path)


def test_other_settings_need_another_folder_or_fresh(explained, link_file, tmp_path):
    options = [link_file, "--folds", 2, "--out", tmp_path / "out"]
    assert invoke(*options).exit_code == 0
    assert "seed 0, not 1" in explained("links", *options, "--seed", 1)
    assert invoke(*options, "--seed", 1, "--fresh").exit_code == 0
    assert json.loads((tmp_path / "out" / "quality.json").read_text())["seed"] == 1


def scored(path, header, *, last=None):
    """The links of a file with scores of 0.9, as a table with commas."""
    pairs = [line.split() for line in path.read_text().splitlines()]
    scores = ["0.9"] * len(pairs)
    scores[-1] = last or scores[-1]
    rows = [",".join((*pair, score)) for pair, score in zip(pairs, scores, strict=True)]
    table = path.with_suffix(".csv")
    table.write_text("\n".join([header, *rows, ""]))
    return table


def test_measured_scores_are_kept(link_file, tmp_path):
    table = scored(link_file, "a,b,reliability", last="0.01")
    options = ["--score", "reliability", "--folds", 2, "--out", tmp_path / "out"]
    done = invoke(table, *options)
    assert done.exit_code == 0, done.output
    read = vg.read_links(tmp_path / "out" / "links.csv")
    assert sorted(read.edge_prob.tolist())[:3] == pytest.approx([0.01, 0.01, 0.9])
    found = json.loads(invoke(table, *options, "--json").stdout)
    line = f"measured and computed are more than 0.5 apart for {found['disagreeing']} of 56 links:"
    assert line in done.stdout
    assert found["disagreeing"] >= 1


def test_scores_of_which_the_column_is_unclear_are_not_passed_over(explained, link_file, tmp_path):
    table = scored(link_file, "a,b,reliability")
    said = explained("links", table, "--out", tmp_path / "out")
    assert "unclear which column is the score; there are 'a', 'b', 'reliability'" in said
    assert "say which: --score 'reliability', or --score none if none is" in said
    assert invoke(table, "--score", "none", "--folds", 2, "--out", tmp_path / "out").exit_code == 0
    assert "measured" not in (tmp_path / "out" / "links.csv").read_text()


def test_columns_may_be_named(explained, link_file, tmp_path):
    table = scored(link_file, "b,a,probability")
    options = ["--folds", 2, "--out", tmp_path / "out"]
    assert invoke(table, "--ends", "a,b", *options).exit_code == 0
    assert "no column is called 'c'" in explained("links", table, "--ends", "a,c", *options)
    assert "--ends a are not two columns" in explained("links", table, "--ends", "a", *options)
    assert "cora is a data set" in explained("links", "cora", "--scale", 2, *options)
