import pytest
import torch

from varigraph import metrics
from varigraph.data import add_noise, load
from varigraph.files.whole_file import UnusedFileWarning
from varigraph.prediction import predict
from varigraph.studies.folder import Pieces
from varigraph.studies.sensitivity import LadderPoints, Ladders
from varigraph.training import paper_network


@pytest.fixture(scope="module")
def graph():
    return load("cora")


@pytest.fixture(scope="module")
def prob(graph):
    return 0.4 + 0.5 * (graph.edge_index.sum(dim=0) % 10) / 10


@pytest.fixture(scope="module")
def model(graph):
    return paper_network(graph, seed=1).eval()


def points_of(graph, prob, folder, told=None):
    doubt = () if prob is None else (0.0, 50.0, 100.0)
    study = Ladders(
        "cora",
        noise=(0.0, 4.0),
        samples=2,
        links=None if prob is None else "made-up.tsv",
        method="diagonal",
        doubt=doubt,
    )
    told = [] if told is None else told
    pieces = Pieces(folder, study.record())
    return LadderPoints(study, graph, prob, pieces, lambda *step: told.append(step))


def expected(model, graph, *, noise, prob):
    """The same prediction by hand, on all nodes."""
    observed = add_noise(graph, percent=noise)
    if prob is not None:
        observed.edge_prob = prob
    return predict(model, observed, method="diagonal", samples=2, links="bernoulli")


def test_certain_links_have_one_ladder(graph, model, tmp_path):
    ladders, reused = points_of(graph, None, tmp_path).ladders(model)
    assert list(ladders) == ["noise"]
    assert not reused
    nodes = graph.test_mask
    for rung, noise in zip(ladders["noise"], (0, 4), strict=True):
        whole = expected(model, graph, noise=noise, prob=None)
        assert rung.level == noise
        assert rung.input_var == pytest.approx(noise / 100 * graph.x.double().mean().item())
        assert rung.cross_entropy == pytest.approx(
            metrics.cross_entropy(whole.mean[nodes], graph.y[nodes])
        )
        for part, var in whole.by_source.items():
            assert rung.by_source[part] == pytest.approx(var[nodes].mean().item(), rel=1e-4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("predictions-noise-0-doubt-0.npz", "predictions-noise-4-doubt-0.npz")
    ]


def test_doubt_goes_from_certain_links_to_the_probabilities_found(graph, prob, model, tmp_path):
    told = []
    ladders, _ = points_of(graph, prob, tmp_path, told).ladders(model)
    assert told[-1] == ("predicting", 4, 4)  # no noise and full doubt is on both ladders
    assert ladders["noise"][0].by_source == ladders["doubt"][-1].by_source
    nodes = graph.test_mask
    for rung, doubt in zip(ladders["doubt"], (0, 0.5, 1), strict=True):
        chance = 1 - doubt * (1 - prob)
        whole = expected(model, graph, noise=0, prob=chance)
        assert rung.level == 100 * doubt
        assert rung.input_var == pytest.approx((chance * (1 - chance)).mean().item(), rel=1e-5)
        for part, var in whole.by_source.items():
            assert rung.by_source[part] == pytest.approx(var[nodes].mean().item(), rel=1e-4)
    assert [rung.by_source["links"] > 0 for rung in ladders["doubt"]] == [False, True, True]
    assert all(rung.by_source["links"] > 0 for rung in ladders["noise"])


def test_what_is_there_is_used_again_if_it_can_be_trusted(graph, model, tmp_path):
    points = points_of(graph, None, tmp_path)
    first, _ = points.ladders(model)
    again, reused = points.ladders(model)
    assert again == first
    assert reused == ["predictions-noise-0-doubt-0.npz", "predictions-noise-4-doubt-0.npz"]
    (tmp_path / reused[0]).write_bytes(b"damaged")
    with pytest.warns(UnusedFileWarning, match="noise-0"):
        mended, reused = points.ladders(model)
    assert mended == first
    assert reused == ["predictions-noise-4-doubt-0.npz"]


def test_predictions_of_another_network_are_not_used(graph, model, tmp_path):
    points = points_of(graph, None, tmp_path)
    points.ladders(paper_network(graph, seed=2).eval())
    with pytest.warns(UnusedFileWarning):
        found, reused = points.ladders(model)
    assert not reused
    assert found == points_of(graph, None, tmp_path / "other").ladders(model)[0]


def test_the_graph_stays_as_it_was(graph, prob, model, tmp_path):
    before = graph.x.clone()
    points_of(graph, prob, tmp_path).ladders(model)
    assert torch.equal(graph.x, before)
    assert "edge_prob" not in graph
    assert "x_var" not in graph
