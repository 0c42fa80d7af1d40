import json

import pytest
import torch

from varigraph.data import load
from varigraph.files.whole_file import UnusedFileWarning
from varigraph.studies import run as module
from varigraph.studies.folder import Pieces
from varigraph.studies.run import trained_network
from varigraph.training import History

OPTIONS = {"epochs": 1, "seed": 3}


@pytest.fixture(scope="module")
def graph():
    return load("cora")


def ignore(stage, done, total):
    """A progress bar that nobody watches."""


def test_it_is_trained_once_and_then_read_back(graph, tmp_path, monkeypatch):
    told = []
    model, again = trained_network(
        graph, Pieces(tmp_path, OPTIONS), progress=lambda *step: told.append(step), **OPTIONS
    )
    assert not again
    assert told == [("training", 1, 1)]
    assert json.loads((tmp_path / "training.json").read_text())["best_epoch"] == 1
    monkeypatch.setattr(module, "train", None)
    other, again = trained_network(graph, Pieces(tmp_path, OPTIONS), progress=ignore, **OPTIONS)
    assert again
    assert not other.training
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)


@pytest.mark.parametrize("content", [None, {}, {"weight": torch.zeros(2)}, torch.zeros(2)])
def test_weights_that_do_not_fit_are_made_again(graph, tmp_path, content, monkeypatch):
    trained = []

    def train(model, *args, **options):
        trained.append(model)
        return History(loss=(1.0,), validation=(1.0,), best_epoch=1, seconds=0.0)

    monkeypatch.setattr(module, "train", train)
    if content is None:
        (tmp_path / "model.pt").write_bytes(b"damaged")
    else:
        torch.save(content, tmp_path / "model.pt")
    with pytest.warns(UnusedFileWarning, match=r"model\.pt is damaged, or other options made it"):
        model, again = trained_network(graph, Pieces(tmp_path, OPTIONS), progress=ignore, **OPTIONS)
    assert not again
    assert trained == [model]


def test_small_batches_get_one_thread_and_what_follows_gets_all(graph, tmp_path, monkeypatch):
    seen, before = [], torch.get_num_threads()

    def train(model, *args, **options):
        seen.append(torch.get_num_threads())
        return History(loss=(1.0,), validation=(1.0,), best_epoch=1, seconds=0.0)

    monkeypatch.setattr(module, "train", train)
    torch.set_num_threads(3)
    try:
        trained_network(graph, Pieces(tmp_path, OPTIONS), progress=ignore, **OPTIONS)
        assert (seen, torch.get_num_threads()) == ([1], 3)
    finally:
        torch.set_num_threads(before)
