"""The scripts in examples/ run, and what they print is true."""

import importlib.util
import runpy
import sys
from pathlib import Path

import pytest
import torch

import varigraph as vg

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.real_data


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("proteins", EXAMPLES / "proteins.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(real_data):
    return [real_data / "links" / f"krogan2006_{name}" for name in ("core.tsv", "complexes.txt")]


@pytest.fixture(scope="module")
def graph(script, files):
    return script.proteins(*files, seed=0)


@pytest.fixture(scope="module")
def model(script, graph):
    return script.trained(graph, seed=0)


@pytest.fixture(scope="module")
def pred(model, graph):
    return vg.predict(model, graph, sources=("links",))


def test_labels_are_those_of_exactly_one_complex(graph, script, files):
    complexes = script.largest_complexes(files[1], graph.node_names)
    for name, label in zip(graph.node_names, graph.y.tolist(), strict=True):
        homes = [number for number, members in enumerate(complexes) if name in members]
        assert label == (homes[0] if len(homes) == 1 else script.UNLABELLED)


def test_masks_share_out_the_labelled_proteins(graph, script):
    masks = torch.stack([graph.train_mask, graph.val_mask, graph.test_mask])
    assert torch.equal(masks.sum(dim=0) == 1, graph.y != script.UNLABELLED)
    assert masks.sum(dim=0).max() == 1
    assert graph.test_mask.sum() > 50


def test_features_are_finite_and_the_same_again(graph, script, files):
    assert graph.x.isfinite().all()
    assert torch.equal(script.proteins(*files, seed=0).x, graph.x)


def test_degree_and_clustering_agree_with_their_definitions(graph, script):
    adjacency = script.expected_adjacency(graph)
    dense = torch.from_numpy(adjacency.toarray())
    degree, pairs = dense.sum(dim=1), dense.sum(dim=1) ** 2 - (dense**2).sum(dim=1)
    near = [p.nonzero().squeeze(1) for p in dense]
    triangles = torch.stack(
        [p[n] @ dense[n][:, n] @ p[n] for p, n in zip(dense, near, strict=True)]
    )
    clustering = torch.where(pairs > 1e-9, triangles / pairs, 0)
    found = script.structure(adjacency).double()
    for column, expected in enumerate([degree.log1p(), clustering]):
        standard = (expected - expected.mean()) / expected.std(correction=0)
        assert torch.allclose(found[:, column], standard, atol=1e-5)


def test_coordinates_are_eigenvectors_with_their_largest_entry_positive(graph, script):
    adjacency = script.expected_adjacency(graph)
    vectors = script.coordinates(adjacency)
    values = ((adjacency @ vectors) * vectors).sum(axis=0)
    assert abs(adjacency @ vectors - vectors * values).max() < 1e-6
    assert (vectors.max(axis=0) == abs(vectors).max(axis=0)).all()


def test_training_leaves_the_global_random_state(script, graph, model):
    before = torch.get_rng_state()
    again = script.trained(graph, seed=0)
    assert torch.equal(torch.get_rng_state(), before)
    for one, two in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)


def test_accuracy_beats_the_majority_class_clearly(script, graph, pred):
    assert script.majority(graph) < 0.3
    assert script.accuracy(pred.mean, graph) > script.majority(graph) + 0.4


def test_all_variance_is_due_to_the_links(script, pred):
    shares = script.shares(pred)
    assert shares["links"] > 0
    assert shares["features"] == 0
    assert sum(shares.values()) == pytest.approx(1)
    assert float(pred.by_source["features"].abs().max()) == 0


def test_the_script_prints_the_report(files, graph, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["proteins.py", *map(str, files)])
    runpy.run_path(str(EXAMPLES / "proteins.py"), run_name="__main__")
    head, answers, blame = capsys.readouterr().out.split("\n\n", 2)
    assert head.startswith("7123 lines, 7123 links\n2708 proteins")
    assert "variance due to features 0%, links " in head
    rows = [line.split() for line in answers.splitlines()[1:]]
    tested = {graph.node_names[node] for node in graph.test_mask.nonzero().squeeze(1)}
    assert len(rows) == 10
    assert {row[0] for row in rows} <= tested
    assert f"node {rows[0][0]}, probability of class" in blame
    assert "verify: link " in blame
