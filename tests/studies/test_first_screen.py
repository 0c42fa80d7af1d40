import numpy as np
import pytest
import torch

from varigraph.data import add_noise
from varigraph.studies import brute_force as comparison
from varigraph.studies.brute_force import FILE
from varigraph.studies.first_screen import Refusal, first_screen

QUICK = {"samples": 20, "noise": (0, 12), "epochs": 2, "explain": 0}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return first_screen("cora", out=tmp_path_factory.mktemp("runs") / "cora", **QUICK)


def drawn_error_bars(model, graph, draws, *, masks):
    """Standard deviations of the softmax over plain runs with noise, and with masks if wanted."""
    torch.manual_seed(5)
    model.train(masks)
    std = graph.x_var**0.5
    with torch.no_grad():
        runs = [
            model(graph.x + std * torch.randn(graph.x.shape), graph.edge_index).softmax(1)
            for _ in range(draws)
        ]
    model.eval()
    return torch.stack(runs).std(0).numpy()


def test_the_size_of_our_error_bars_is_that_of_plain_draws(shown):
    graph = add_noise(shown.outcome.graph, percent=12)
    test = graph.test_mask.numpy()
    with np.load(shown.outcome.folder / "predictions-12.npz") as stored:
        mean, features = stored["mean"][test], stored["features"][test]
    rows, answer = np.arange(len(mean)), mean.argmax(1)
    drawn = drawn_error_bars(shown.outcome.model, graph, 100, masks=False)[test]
    ratio = np.median(features[rows, answer] ** 0.5 / drawn[rows, answer])
    assert shown.brute_force.ours_features == pytest.approx(ratio, rel=0.15)
    assert shown.brute_force.published_features < 0.3
    assert shown.brute_force.published < shown.brute_force.ours


def test_refusing_leaves_the_most_trusted():
    trust = torch.tensor([0.5, 0.9, 0.1, 0.7])
    right = torch.tensor([True, True, False, False])
    assert Refusal.of(trust, right, share=0.25) == Refusal(0.5, 2 / 3)
    assert Refusal.of(trust, right, share=0.5) == Refusal(0.5, 0.5)
    assert Refusal.of(trust, right, share=0.0) == Refusal(0.5, 0.5)


def test_the_three_answers_go_from_most_to_least_trusted(shown):
    trust = [each.doubtful.trust for each in shown.answers]
    assert trust == sorted(trust, reverse=True)
    graph = shown.outcome.graph
    for each in shown.answers:
        node = each.doubtful.node
        assert bool(graph.test_mask[node])
        label = graph.class_names.index(each.doubtful.answer)
        assert each.right == (label == int(graph.y[node]))


def test_a_second_screen_draws_nothing(shown, monkeypatch):
    monkeypatch.setattr(comparison, "predict", None)
    again = first_screen("cora", out=shown.outcome.folder, **QUICK)
    assert again.brute_force == shown.brute_force
    assert str(again) == str(shown)
    assert (shown.outcome.folder / FILE).is_file()


def test_without_noise_there_is_nothing_to_say_about_it(tmp_path):
    shown = first_screen("cora", out=tmp_path / "run", **{**QUICK, "noise": (0,), "epochs": 1})
    assert shown.brute_force.ours_features is None
    assert "due to the noise alone" not in str(shown)


def test_it_says_what_the_nodes_are(shown):
    assert "2,708 papers on machine learning, linked by citations" in " ".join(str(shown).split())
