"""Calibration on held-out nodes, against optimisers and draws that share no code with it."""

import numpy as np
import pytest
import torch
from scipy.optimize import brute, minimize_scalar
from torch_geometric.nn import GCN

import varigraph as vg
from trust.made_up import drawn, links_of, prediction
from varigraph.errors import FileError, OptionError
from varigraph.prediction.calibrator import graph_numbers
from varigraph.trust.fitted import fitted_residual


def log_loss(prob, y):
    return -np.log(prob[np.arange(len(y)), y]).mean()


def test_the_temperature_is_that_of_least_log_loss():
    mean, y = drawn()
    pred, nodes = prediction(mean), torch.arange(500)
    found = vg.calibrate(pred, y, nodes=nodes, kind="temperature")

    def loss(scale):
        moved = mean[:500].numpy() ** scale
        return log_loss(moved / moved.sum(1, keepdims=True), y[:500].numpy())

    best = minimize_scalar(loss, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-9}).x
    assert float(found.learned["scale"]) == pytest.approx(best, rel=1e-4)
    assert best == pytest.approx(1 / 0.4, rel=0.15)  # what the truths were drawn with
    applied = found.apply(pred)
    moved = mean.numpy() ** best
    assert np.allclose(applied.mean, moved / moved.sum(1, keepdims=True), atol=1e-4)
    assert torch.equal(applied.mean.argmax(1), mean.argmax(1))
    assert applied.calibrator is found


def test_variances_follow_the_slope_of_two_classes():
    """With two classes the new probability is a function of the old one alone: draws tell."""
    rng = np.random.default_rng(0)
    p, std = np.array([0.3, 0.6, 0.9]), 0.004
    mean, y = drawn(300, 2)
    mean[:3] = torch.tensor(np.stack([p, 1 - p], 1))
    pred = prediction(mean, torch.full_like(mean, std**2))
    found = vg.calibrate(pred, y, nodes=torch.arange(10, 300), kind="temperature")
    scale = float(found.learned["scale"])
    draws = p + std * rng.normal(size=(100_000, 3))
    moved = draws**scale / (draws**scale + (1 - draws) ** scale)
    assert np.allclose(found.apply(pred).std[:3, 0], moved.std(0), rtol=0.02)
    shares = found.apply(pred)
    assert torch.allclose(shares.total, shares.by_source["features"])


def test_no_variance_exceeds_that_of_a_coin():
    mean, y = drawn(300, 3, temperature=3)  # overconfident: tiny probabilities grow
    pred = prediction(mean, mean * (1 - mean))
    applied = vg.calibrate(pred, y, nodes=torch.arange(300), kind="temperature").apply(pred)
    assert bool((applied.total <= applied.mean * (1 - applied.mean) + 1e-9).all())


@pytest.fixture(scope="module")
def homophilous():
    mean, y = drawn(4000, 3)
    ends = links_of(y.numpy(), rng=np.random.default_rng(1))
    return prediction(mean, edge_index=ends, trained_on=torch.arange(4000) < 100), y


def test_neighbours_tell_who_is_right(homophilous):
    pred, y = homophilous
    nodes, test = torch.arange(500, 1500), slice(1500, None)
    by_kind = {
        kind: vg.calibrate(pred, y, nodes=nodes, kind=kind).apply(pred)
        for kind in ("temperature", "graph")
    }
    wrong = (pred.mean.argmax(1) != y)[test]
    area = {
        kind: vg.metrics.risk_coverage(-found.trust[test], wrong).area
        for kind, found in by_kind.items()
    }
    assert area["graph"] < 0.8 * area["temperature"]
    # Confidence is the chance of being right, group by group, and the answers stay.
    trust, right = by_kind["graph"].trust[test].numpy(), (~wrong).numpy()
    for group in np.array_split(np.argsort(trust), 6):
        assert trust[group].mean() == pytest.approx(right[group].mean(), abs=0.07)
    assert torch.equal(by_kind["graph"].mean.argmax(1), pred.mean.argmax(1))
    above = by_kind["graph"].trust > 0.4  # of three classes the likeliest has a third or more
    found = by_kind["graph"]
    same = (found.mean.amax(1) - found.trust).abs()[above] < 1e-9
    assert same.float().mean() > 0.99  # but for ties, which no temperature breaks
    assert torch.allclose(by_kind["graph"].mean.sum(1), torch.ones(4000).double())


def test_what_is_learned_from_is_what_neighbours_say(homophilous):
    pred, _ = homophilous
    found = graph_numbers(pred, 1.0).numpy()
    mean, ends = pred.mean.numpy(), pred.rows.edge_index.numpy()
    best = mean.argmax(1)
    about = [ends[0][ends[1] == node] for node in range(4000)]
    near = np.stack([mean[n].mean(0) if len(n) else mean[i] for i, n in enumerate(about)])
    for node in range(0, 4000, 400):
        far = near[about[node]].mean(0) if len(about[node]) else near[node]
        p = mean[node, best[node]]
        wanted = [
            *(np.log(p / (1 - p)), near[node, best[node]], far[best[node]]),
            *(np.log1p(len(about[node])), np.log(min(1, 0.01 / (p * (1 - p))))),
        ]
        assert found[node] == pytest.approx(wanted, abs=1e-9)


def test_the_kind_is_chosen_by_what_is_known(homophilous):
    pred, y = homophilous
    assert vg.calibrate(pred, y, nodes=torch.arange(200, 400)).kind == "graph"
    assert vg.calibrate(pred, y, nodes=torch.arange(200, 250)).kind == "temperature"
    assert vg.calibrate(prediction(pred.mean), y, nodes=range(200)).kind == "temperature"


@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_labels_share_a_temperature(task):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(800, 1 if task == "binary" else 3)) * 2
    y = torch.from_numpy(rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).float()
    pred = prediction(torch.from_numpy(1 / (1 + np.exp(-logits / 3))), task=task)
    found = vg.calibrate(pred, y.squeeze(1) if task == "binary" else y, nodes=range(800))

    def loss(scale):
        p = 1 / (1 + np.exp(-logits / 3 * scale))
        return -np.log(np.where(y.numpy() == 1, p, 1 - p)).mean()

    best = minimize_scalar(loss, bounds=(0.1, 20), method="bounded", options={"xatol": 1e-9}).x
    assert float(found.learned["scale"]) == pytest.approx(best, rel=1e-4)
    assert np.allclose(found.apply(pred).mean, 1 / (1 + np.exp(-logits / 3 * best)), atol=1e-4)


def test_the_residual_is_that_of_least_surprise():
    rng = np.random.default_rng(0)
    var = rng.gamma(2, 0.5, size=3000)
    error = rng.normal(size=3000) * np.sqrt(1.5 * var + 0.8)
    scale, own = fitted_residual(torch.from_numpy(error), torch.from_numpy(var))

    def surprise(parts):
        v = parts[0] * var + parts[1]
        return np.mean(np.log(v) + error**2 / v)

    grid = brute(surprise, [(0.05, 4), (0.05, 3)], Ns=15)  # a grid, then a simplex
    assert (scale, own) == pytest.approx(tuple(grid), rel=0.01)
    assert (scale, own) == pytest.approx((1.5, 0.8), rel=0.25)


def test_values_get_the_networks_own_error_as_a_part():
    rng = np.random.default_rng(1)
    mean = torch.from_numpy(rng.normal(size=(900, 2)))
    var = torch.from_numpy(rng.gamma(2, 0.05, size=(900, 2)))
    y = mean + torch.from_numpy(rng.normal(size=(900, 2))) * (var + 0.5).sqrt()
    pred = prediction(mean, var, "regression")
    found = vg.calibrate(pred, y, nodes=range(500))
    applied = found.apply(pred)
    (scale, own) = found.learned["variance"][1]
    assert torch.allclose(applied.by_source["residual"][:, 1], own.expand(900))
    assert torch.allclose(applied.total[:, 1], scale * var[:, 1] + own)
    covered = vg.metrics.interval_coverage
    assert covered(mean[500:], var[500:], y[500:]) < 0.6
    assert covered(mean[500:], applied.total[500:], y[500:]) == pytest.approx(0.9, abs=0.03)
    shares = applied.least_trusted(900)[-1]
    assert (shares.cause, shares.remedy) == ("residual", "train a better network")
    assert torch.equal(applied.mean, pred.mean)


def test_a_network_that_is_never_wrong_has_no_residual():
    mean = torch.rand(50, 1).double()
    found = vg.calibrate(prediction(mean, task="regression"), mean, nodes=range(50))
    assert float(found.learned["variance"].abs().max()) < 1e-6


def test_all_right_keeps_everything_finite(homophilous):
    pred, _ = homophilous
    y = pred.mean.argmax(1)
    applied = vg.calibrate(pred, y, nodes=range(200, 600), kind="graph").apply(pred)
    assert bool(applied.mean.isfinite().all())
    assert bool(applied.total.isfinite().all())


def test_the_report_shows_the_residual_too(tmp_path):
    pytest.importorskip("plotly")
    from reporting.page.made_up import content_of, regression

    pred, graph = regression()
    y = graph.y.nan_to_num()
    applied = vg.calibrate(pred, y, nodes=range(30)).apply(pred)
    content = content_of(vg.report(applied, graph, path=tmp_path / "page.html"))
    assert "residual" in content["parts"]
    shares = content["headline"]["shares"]
    widest = applied.total.argmax(1, keepdim=True)  # of a node's outputs, the one that is shown
    own = applied.by_source["residual"].gather(1, widest).mean()
    own = float(own / applied.total.gather(1, widest).mean())
    assert shares["residual"] == pytest.approx(own, rel=1e-3)


# ---- what is refused ----


def test_training_nodes_are_refused():
    graph = vg.load("cora")
    torch.manual_seed(0)
    pred = vg.predict(GCN(1433, 8, 2, 7, dropout=0.5), graph, method="diagonal", samples=2)
    nodes = graph.val_mask.clone()
    nodes[graph.train_mask.nonzero()[0]] = True
    with pytest.raises(OptionError, match=r"1 of the 271 nodes are in train_mask.*\n.*val_mask"):
        vg.calibrate(pred, graph.y, nodes=nodes)
    assert vg.calibrate(pred, graph.y, nodes=graph.val_mask).kind == "graph"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": range(5)}, "5 nodes are too few"),
        ({"nodes": [5000] * 20}, "there is no node 5000"),
        ({"nodes": ["a"] * 20}, "no node_names"),
        ({"kind": "residual"}, "does not fit"),
        ({"kind": "magic"}, "kind='magic' is unknown"),
        ({"kind": "graph"}, "asks neighbours"),
        ({"y": torch.full((300,), -1)}, "truth about node 0 is not known"),
        ({"y": torch.full((300,), 7)}, "truth about node 0 is not known"),
        ({"y": torch.zeros(200).long()}, "y has 200 entries, the prediction 300 rows"),
        (
            {"y": torch.zeros(5).long(), "nodes": torch.ones(300).bool()},
            "y has 5 entries, the prediction 300 rows",
        ),
        ({"y": torch.zeros(300, 2)}, "y has shape"),
    ],
)
def test_what_cannot_be_calibrated(change, message):
    mean, y = drawn(300)
    options = {"y": y, "nodes": range(100), **change}
    with pytest.raises(OptionError, match=message):
        vg.calibrate(prediction(mean), options.pop("y"), **options)


def test_a_calibrator_fits_one_kind_of_prediction(homophilous):
    mean, y = drawn(300, 3)
    found = vg.calibrate(prediction(mean), y, nodes=range(300))
    with pytest.raises(OptionError, match="4 of task='classification'"):
        found.apply(prediction(drawn(300, 4)[0]))
    with pytest.raises(OptionError, match="calibrated already"):
        found.apply(found.apply(prediction(mean)))
    with pytest.raises(OptionError, match="calibrated already"):
        vg.calibrate(found.apply(prediction(mean)), y, nodes=range(300))
    pred, truth = homophilous
    by_node = vg.calibrate(pred, truth, nodes=range(200, 600))
    with pytest.raises(OptionError, match="asks neighbours"):
        by_node.apply(prediction(mean))


def test_a_prediction_of_some_nodes_is_calibrated_by_their_numbers():
    mean, y = drawn(300, 3)
    some = torch.arange(299, -1, -2)
    pred = prediction(mean[some], nodes=some, names=[f"n{node}" for node in range(300)])
    by_number = vg.calibrate(pred, y, nodes=some[:50])
    whole = vg.calibrate(prediction(mean), y, nodes=some[:50])
    assert torch.equal(by_number.learned["scale"], whole.learned["scale"])
    by_name = vg.calibrate(pred, y, nodes=[f"n{node}" for node in some[:50].tolist()])
    assert torch.equal(by_name.learned["scale"], whole.learned["scale"])
    with pytest.raises(OptionError, match="no answer for node 0"):
        vg.calibrate(pred, y, nodes=range(20))


# ---- saved ----


@pytest.fixture(params=["temperature", "graph", "residual"])
def saved(request, homophilous, tmp_path):
    pred, y = homophilous
    if request.param == "residual":
        pred, y = prediction(pred.mean, task="regression"), pred.mean + 0.3
    found = vg.calibrate(pred, y, nodes=range(200, 600), kind=request.param)
    return found, pred, found.save(tmp_path / "calibrator.json")


def test_a_saved_calibrator_is_the_same_bit_by_bit(saved):
    found, pred, path = saved
    again = vg.Calibrator.load(path)
    assert str(again) == str(found)
    one, two = found.apply(pred), again.apply(pred)
    assert torch.equal(one.mean, two.mean)
    assert torch.equal(one.total, two.total)
    assert torch.equal(one.trust, two.trust)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "cannot be read"),
        (lambda text: "[1]", "does not hold a calibrator"),
        (lambda text: text.replace("varigraph calibrator", "x"), "does not hold a calibrator"),
        (lambda text: text.replace('"format": 2', '"format": 1'), "has format 1"),
        (lambda text: text.replace('"learned"', '"lost"'), "is damaged"),
        (lambda text: text.replace('"kind": "', '"kind": "un'), "is damaged"),
    ],
)
def test_a_damaged_file_is_named(saved, change, message):
    _, _, path = saved
    path.write_text(change(path.read_text()))
    with pytest.raises(FileError, match=message) as error:
        vg.Calibrator.load(path)
    assert str(path) in str(error.value)


def test_a_number_of_another_shape_is_noticed(homophilous, tmp_path):
    pred, y = homophilous
    path = vg.calibrate(pred, y, nodes=range(200, 600)).save(tmp_path / "calibrator.json")
    path.write_text(path.read_text().replace("[", "[[", 1).replace("]", "]]", 1))
    with pytest.raises(FileError, match="is damaged: centre"):
        vg.Calibrator.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        vg.Calibrator.load(tmp_path / "none.json")
