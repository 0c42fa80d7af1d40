import csv
import json

import pytest
import torch
from typer.testing import CliRunner

import varigraph as vg
from cli.own_networks import network, small_graph, write_networks
from varigraph.cli import app

COPIES = 30


@pytest.fixture
def networks(tmp_path):
    return write_networks(tmp_path)


@pytest.fixture
def graph(networks):
    """Copies of a small graph; the truth follows the network's answers half of the time."""
    one = small_graph()
    count = COPIES * one.num_nodes
    draw = torch.Generator().manual_seed(0)
    shift = one.num_nodes * torch.arange(COPIES).repeat_interleave(one.num_edges)
    found = one.clone()
    found.x = torch.rand(count, one.num_features, generator=draw)
    found.edge_index = one.edge_index.repeat(1, COPIES) + shift
    found.x_var = 0.02
    with torch.no_grad():
        answer = network(networks)(found.x, found.edge_index).argmax(1)
    guess = torch.randint(3, (count,), generator=draw)
    found.y = torch.where(torch.rand(count, generator=draw) < 0.5, answer, guess)
    place = torch.arange(count) % 3
    found.train_mask, found.val_mask, found.test_mask = place == 0, place == 1, place == 2
    return found


@pytest.fixture
def command(networks, graph, tmp_path):
    torch.save(network(networks).state_dict(), tmp_path / "weights.pt")
    torch.save(graph, tmp_path / "graph.pt")
    return [f"{networks}:Net", tmp_path / "graph.pt", "--weights", tmp_path / "weights.pt"]


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.mark.parametrize("kind", ["temperature", "graph"])
def test_it_learns_what_the_library_learns(command, networks, graph, tmp_path, kind):
    file = tmp_path / "learned.json"
    done = call("calibrate", *command, "--kind", kind, "--out", file, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    pred = vg.predict(network(networks), graph)
    wanted = vg.calibrate(pred, graph.y, nodes=graph.val_mask, kind=kind)
    learned = vg.Calibrator.load(file)
    for name, values in wanted.learned.items():
        assert torch.allclose(learned.learned[name], values)
        assert found["learned"][name] == pytest.approx(values.tolist())
    assert (found["learned_from"], found["judged"]) == (120, 120)
    test = graph.test_mask
    judged = {"before": pred, "after": wanted.apply(pred)}
    for when, each in judged.items():
        measured = vg.metrics.ece(each.mean[test], graph.y[test])
        assert found[when]["calibration error (ECE)"] == pytest.approx(measured, abs=1e-6)


def test_predict_takes_what_was_learned(command, networks, graph, tmp_path):
    file, table = tmp_path / "calibrator.json", tmp_path / "nodes.csv"
    done = call("calibrate", *command, "--kind", "temperature", "--out", file)
    assert "temperature " in done.stdout
    assert "judged on 120 test nodes" in done.stdout
    assert done.stdout.splitlines()[-1] == str(file)
    done = call("predict", *command, "--calibrator", file, "--nodes", "test", "--out", table)
    assert "calibrated" in done.stdout
    with table.open(encoding="utf-8", newline="") as stream:
        shown = [float(row["confidence"]) for row in csv.DictReader(stream)]
    pred = vg.predict(network(networks), graph, nodes=graph.test_mask)
    wanted = vg.Calibrator.load(file).apply(pred).mean.amax(1)
    assert shown == pytest.approx(wanted.tolist(), rel=1e-5)


def test_calibrated_sets_of_classes_are_shown_and_written(command, networks, graph, tmp_path):
    file, table = tmp_path / "calibrator.json", tmp_path / "nodes.csv"
    call("calibrate", *command, "--kind", "temperature", "--out", file)
    options = ["--calibrator", file, "--interval", "0.8"]
    shown = call("predict", *command, *options)
    assert "80% set" in shown.stdout
    assert "intervals cover noise" not in shown.stdout
    assert call("predict", *command, *options, "--out", table).exit_code == 0
    with table.open(encoding="utf-8", newline="") as stream:
        found = [row["classes"] for row in csv.DictReader(stream)]
    pred = vg.Calibrator.load(file).apply(vg.predict(network(networks), graph))
    wanted = [", ".join(names) for names in pred.class_sets(0.8)]
    assert found == wanted
    assert len(set(map(len, found))) > 1


def test_regression_learns_a_residual(networks, graph, tmp_path):
    with torch.no_grad():
        answer = network(networks, "value", rate=0.0)(graph.x, graph.edge_index)
    draw = torch.Generator().manual_seed(1)
    graph.y = answer + 0.5 * torch.randn(answer.shape, generator=draw)
    torch.save(graph, tmp_path / "graph.pt")
    torch.save(network(networks, "value").state_dict(), tmp_path / "weights.pt")
    command = [f"{networks}:value", tmp_path / "graph.pt", "--weights", tmp_path / "weights.pt"]
    options = ["--task", "regression", "--samples", "0", "--out", tmp_path / "c.json", "--json"]
    found = json.loads(call("calibrate", *command, *options).stdout)
    assert found["before"]["within 90 % intervals"] < 0.7
    assert found["after"]["within 90 % intervals"] == pytest.approx(0.9, abs=0.08)
    ((_, own),) = found["learned"]["variance"]
    assert own == pytest.approx(0.25, rel=0.4)


@pytest.mark.parametrize("grow", [True, False])
def test_error_bars_that_say_nothing_about_errors_are_noted(networks, graph, tmp_path, grow):
    model = network(networks, "value", rate=0.0)
    graph.x_var = 0.2 * torch.rand(graph.num_nodes, 1, generator=torch.Generator().manual_seed(3))
    pred = vg.predict(model, graph, task="regression", samples=0)
    size = pred.total.sqrt()
    draw = torch.Generator().manual_seed(1)
    error = 3 * (size if grow else size.max() - size) * torch.randn(size.shape, generator=draw)
    graph.y = pred.mean + error
    torch.save(graph, tmp_path / "graph.pt")
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    command = [f"{networks}:value", tmp_path / "graph.pt", "--weights", tmp_path / "weights.pt"]
    options = ["--task", "regression", "--samples", "0", "--out", tmp_path / "c.json", "--json"]
    found = json.loads(call("calibrate", *command, *options).stdout)
    assert any("do not grow with their error bars" in note for note in found["notes"]) != grow


def test_without_test_nodes_it_says_that_nothing_was_judged(command, graph, tmp_path):
    del graph.test_mask
    torch.save(graph, tmp_path / "graph.pt")
    done = call("calibrate", *command, "--out", tmp_path / "c.json")
    assert "note: the graph has no test_mask with known answers" in done.stdout
    assert "judged on" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (["--nodes", "train"], "are in train_mask"),
        (["--nodes", "1,4"], "2 nodes are too few to learn from"),
        (["--kind", "residual"], '--kind "residual" does not fit --task "classification"'),
        (["--kind", "luck"], "--kind 'luck' is unknown"),
        (["--out", "no/folder/c.json"], "no/folder"),
    ],
)
def test_mistakes_are_explained_as_on_the_command_line(explained, command, arguments, culprit):
    said = explained("calibrate", *command, *arguments)
    assert culprit in said
    assert "data.val_mask" not in said


def test_a_graph_without_truth_is_refused(explained, command, graph, tmp_path):
    del graph.y
    torch.save(graph, tmp_path / "graph.pt")
    assert "the graph has no y" in explained("calibrate", *command)
