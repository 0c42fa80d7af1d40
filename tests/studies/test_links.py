import json

import pytest
import torch

import varigraph as vg
from varigraph.errors import DatasetError, OptionError
from varigraph.studies.links import links_study

FOLDS = [f"fold-{n}.npz" for n in (1, 2, 3)]
REPORT = ["links.csv", "quality.json", "reliability.png"]


@pytest.fixture
def study(counted, link_file, tmp_path):
    def run(out="out", **options):
        return links_study(
            str(link_file), **{"method": "seal", "folds": 3, "out": tmp_path / out, **options}
        )

    return run


def stop_after_the_first_fold(fraction, what):
    if what == "fold 2 of 3":
        raise KeyboardInterrupt


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_folder_holds_everything(study):
    done = study()
    assert sorted(contents(done.folder)) == [*FOLDS, *REPORT]
    assert contents(done.folder)["reliability.png"].startswith(b"\x89PNG")
    quality = json.loads(contents(done.folder)["quality.json"])
    assert quality["auc"] == done.quality.auc > 0.9  # in cliques, common neighbours tell nearly all
    assert (quality["nodes"], quality["links"], quality["seed"]) == (16, 56, 0)


def test_the_table_is_read_back_as_it_was(study):
    done = study()
    read = vg.read_links(done.folder / "links.csv")
    ends = done.graph.edge_index.t().tolist()
    probs = {
        (done.graph.node_names[u], done.graph.node_names[v]): p
        for (u, v), p in zip(ends, done.graph.edge_prob.tolist(), strict=True)
    }
    found = {
        (read.node_names[u], read.node_names[v]): p
        for (u, v), p in zip(read.edge_index.t().tolist(), read.edge_prob.tolist(), strict=True)
    }
    assert found == probs
    assert len(found) == 2 * 56


def test_what_was_broken_off_is_not_repeated_and_ends_the_same(study, counted):
    whole = contents(study("whole").folder)
    counted.clear()

    with pytest.raises(KeyboardInterrupt):
        study(progress=stop_after_the_first_fold)
    done = study()
    assert len(counted) == 3  # one before the interruption, two after it
    assert contents(done.folder) == whole
    study()
    assert len(counted) == 3


def test_an_interruption_leaves_whole_folds_only(study, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        study(progress=stop_after_the_first_fold)
    assert list(contents(tmp_path / "out")) == FOLDS[:1]


def test_other_odds_use_the_same_folds(study, counted):
    balanced = study().graph.edge_prob.double()
    density = study(odds="density").graph.edge_prob.double()
    assert len(counted) == 3
    shift = torch.tensor(56 / 64).log()  # 56 links, 64 other pairs
    torch.testing.assert_close(density.logit(), balanced.logit() + shift, atol=1e-4, rtol=1e-4)


def test_fresh_starts_again_and_leaves_what_is_not_ours(study, counted, tmp_path):
    study()
    (tmp_path / "out" / "notes.txt").touch()
    with pytest.raises(OptionError, match="seed 0, not 1"):
        study(seed=1)
    study(seed=1, fresh=True)
    assert len(counted) == 6
    assert sorted(contents(tmp_path / "out")) == [*FOLDS, "links.csv", "notes.txt", *REPORT[1:]]


def test_a_folder_of_somebody_else_is_left_alone(study, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "links.csv").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(OptionError, match="no folds"):
            study(fresh=fresh)
    assert (tmp_path / "out" / "links.csv").read_text() == "mine"


def test_a_file_in_the_way_is_explained(study, tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(OptionError, match="cannot be used"):
        study()


@pytest.mark.parametrize(
    ("name", "expected"), [("a.txt", "a"), ("b.links.tsv.gz", "b.links"), ("c", "c")]
)
def test_the_default_folder_names_file_method_and_seed(
    study, link_file, tmp_path, monkeypatch, name, expected
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(link_file.read_text())
    done = links_study(name, folds=2, seed=4)
    assert str(done.folder) == f"links/{expected}-seal-seed4"


def test_scores_in_the_file_do_not_count(study, link_file):
    bare = study("bare").graph.edge_prob
    link_file.write_text("".join(f"{line} 0.3\n" for line in link_file.read_text().splitlines()))
    assert study("scored").graph.edge_prob.equal(bare)


def test_neither_a_data_set_nor_a_file():
    with pytest.raises(DatasetError, match=r"coral is no file[\s\S]*cora, "):
        links_study("coral")
