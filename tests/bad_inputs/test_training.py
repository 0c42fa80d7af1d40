"""Mistakes in calls of ``vg.train``."""

import math

import numpy as np
import pytest
import torch

import varigraph as vg
from bad_inputs.cases import NODES, Answering, network, refusal, ring
from varigraph.errors import ModelError

pytestmark = pytest.mark.filterwarnings("ignore:the network has no dropout")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("noise", value) for value in ("typo", 3, [])],
        *[("epochs", value) for value in (0, 1.5, "a", None, True)],
        *[("batch_size", value) for value in (0, 1.5, "a", True)],
        *[("batch_size", 2**70), ("progress", 3), ("progress", lambda epoch: epoch)],
        *[("patience", value) for value in (0, 1.5, "a")],
        *[("learning_rate", value) for value in (-1, math.nan, "a", None)],
        *[("weight_decay", value) for value in (-1, math.nan, "a", None)],
        *[("fanouts", value) for value in ([], [0], [1.5], "ab", None, 3, [None], [2**70])],
    ],
)
def test_training_with_options_that_make_no_sense(name, value):
    refusal(lambda: vg.train(network(), ring(), **{"epochs": 1, name: value}))


@pytest.mark.parametrize(
    ("fields", "culprit"),
    [
        ({"y": torch.full((NODES,), 9)}, "labels up to 9"),
        ({"y": [0] * NODES}, "y"),
        ({"y": torch.zeros(NODES, device="meta").long()}, "y is on meta"),
        ({"y": torch.rand(NODES)}, "y"),
        ({"train_mask": torch.ones(NODES)}, "train_mask"),
        ({"train_mask": [True] * NODES}, "train_mask"),
        ({"val_mask": torch.arange(NODES)}, "val_mask"),
    ],
)
def test_training_without_truth(fields, culprit):
    assert culprit in refusal(lambda: vg.train(network(), ring(**fields), epochs=1)).problem


@pytest.mark.parametrize(
    "change",
    [
        lambda out: None,
        lambda out: (out, out),
        lambda out: out[:3],
        lambda out: out.argmax(1),
        lambda out: 1 / 0,
        lambda out: out.view(NODES, 3),  # but batches have fewer nodes
    ],
)
def test_training_networks_that_do_not_classify(change):
    refusal(lambda: vg.train(Answering(change), ring(), epochs=1, batch_size=2))


def test_training_takes_numbers_of_numpy_and_any_surroundings():
    with torch.no_grad():
        history = vg.train(
            network(),
            ring(y=ring().y.int()),
            epochs=np.int64(1),
            seed=np.int64(1),
            fanouts=np.array([2]),
        )
    assert len(history.loss) == 1


class Cached(Answering):
    """A network that keeps what it computed for its next call."""

    def __init__(self):
        super().__init__(lambda out: out)
        self.kept = None

    def forward(self, x, edge_index):
        if torch.is_grad_enabled() and self.kept is None:
            self.kept = super().forward(x, edge_index)
        return self.kept if torch.is_grad_enabled() else super().forward(x, edge_index)


@pytest.mark.parametrize("noise", [None, "inject"])
@pytest.mark.parametrize("batch_size", [2, None])
@pytest.mark.parametrize(
    "change",
    [
        lambda out: out.detach(),
        lambda out: (out > 0).float(),
        torch.zeros_like,
    ],
)
def test_training_networks_whose_answer_does_not_depend_on_their_weights(change, batch_size, noise):
    told, model = [], Answering(change)
    options = {
        "batch_size": batch_size,
        "noise": noise,
        "progress": lambda *said: told.append(said),
    }
    error = refusal(lambda: vg.train(model, ring(), epochs=1, **options))
    assert isinstance(error, ModelError)
    assert "Answering does not depend on weights" in error.problem
    assert not told
    wanted = network().state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in model.inner.state_dict().items())


def changed_in_place(out):
    factor = out.exp()
    answer = factor * out
    factor.add_(1)
    return answer


@pytest.mark.parametrize("make", [lambda: Answering(changed_in_place), Cached])
def test_training_networks_without_gradients(make):
    model = make()
    error = refusal(lambda: vg.train(model, ring(), epochs=2, batch_size=None))
    assert isinstance(error, ModelError)
    assert f"{type(model).__name__} has no gradients: RuntimeError" in error.problem
