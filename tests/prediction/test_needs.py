"""Closed forms keep to the memory that they are given, or say how much they need."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.nn import GCN, GraphSAGE

import varigraph as vg
from prediction import measured
from prediction.networks import Functional, made, noisy_ring
from varigraph.errors import TooLargeError
from varigraph.moments import Gaussian
from varigraph.moments.tape import Bend, Noise, Scale, Tape
from varigraph.prediction import memory
from varigraph.prediction.covariance import NodeBlocks
from varigraph.prediction.first_order import method as first_order
from varigraph.prediction.memory import as_bytes
from varigraph.prediction.predict import ask


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of a process from /proc")
@pytest.mark.parametrize(
    "case", ["first-order 80MiB", "first-order 128MiB coins", "covariance 180MiB"]
)
def test_a_process_grows_no_more_than_it_may(case):
    script = Path(measured.__file__)
    run = subprocess.run(
        [sys.executable, script, *case.split()], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["added"] <= 1.1 * as_bytes(case.split()[1])
    assert found["difference"] < 1e-5


def needed(error):
    """How much memory a refusal asks for."""
    return re.fullmatch(r'memory="(\d+MiB)" or more, or method="sampled"', error.remedy)[1]


@pytest.mark.parametrize("method", ["first-order", "covariance"])
@pytest.mark.parametrize("coins", [False, True])
def test_what_is_too_large_is_refused_before_the_work_and_what_is_asked_for_is_enough(
    method, coins, monkeypatch
):
    model, data = measured.network(), measured.graph(2000, 6000, coins=coins)
    asked = {"method": method, "links": "bernoulli"}

    def work(*args, **kwargs):
        raise AssertionError("the work has begun")

    with monkeypatch.context() as patch:
        patch.setattr(first_order, "walk_back", work)
        patch.setattr(NodeBlocks, "covariance", property(work))
        with pytest.raises(
            TooLargeError, match=r"need \d+ MiB, more than the memory of 24 MiB"
        ) as e:
            vg.predict(model, data, memory="24MiB", **asked)
    answer = vg.predict(model, data, memory=needed(e.value), **asked)
    assert answer.method.partition(": ")[0] == method


def test_the_walks_of_one_node_may_be_too_many():
    """Over its hub every leaf of a star reaches all others."""
    leaves = torch.arange(1, 4000)
    there = torch.stack([leaves, torch.zeros_like(leaves)])
    data = measured.graph(4000, 1, coins=False)
    data.edge_index = torch.cat([there, there.flip(0)], 1)
    with pytest.raises(TooLargeError, match=r"the walks that reach node \d+ need"):
        vg.predict(measured.network(), data, method="first-order", memory="64MiB")
    some = vg.predict(measured.network(), data, samples=4, memory="64MiB")
    assert some.method.startswith("sampled: the walks that reach node ")


def test_bytes_of_a_pass_are_those_of_its_numbers():
    x, tape = Gaussian(torch.zeros(10, 3), torch.ones(1, 1).expand(10, 3)), Tape()
    y = Gaussian(torch.zeros(10, 4), torch.zeros(10, 4))
    z = Gaussian(y.mean, torch.zeros(10, 4))
    tape.record(x)
    tape.record(y, (x, Scale(torch.zeros(10, 4))))
    tape.record(z, (y, Scale(torch.zeros(4))))
    tape.noises.append(Noise(z, torch.zeros(10, 4), "weights"))
    tape.bends.append(Bend(z, y, torch.zeros(10, 4)))
    # One for the features' variance, mean and variance of y, variance of z, and the rest.
    assert memory.held_by(tape) == 4 * (1 + 80 + 40 + 40 + 4 + 40 + 40)
    question = ask(made(Functional), noisy_ring())
    assert memory.of_answer(5, y, question) == 4 * 5 * 4 * (3 + len(question.parts))


@pytest.mark.parametrize("build", [Functional, lambda: GCN(4, 8, 2, 3, dropout=0.2)])
def test_blocks_share_what_there_is_room_for(build):
    question = ask(made(build), noisy_ring(), memory="64MiB")
    budget = memory.Budget(question, question.room - 1000)
    rows, cost = torch.arange(6), torch.tensor([400.0, 500.0, 100.0, 1000.0, 1.0, 1.0])
    blocks = [block.tolist() for block in budget.blocks(rows, cost)]
    assert blocks == [[0, 1, 2], [3], [4, 5]]
    with pytest.raises(TooLargeError, match="the walks that reach node 3 need 65 MiB"):
        budget.blocks(rows, cost + 1)


def test_masks_by_sampling_are_counted():
    model, data = measured.network(), measured.graph(2000, 6000, coins=False)
    errors = []
    for weights in (None, "sampled"):
        with pytest.raises(TooLargeError) as caught:
            vg.predict(model, data, method="covariance", memory="24MiB", weights=weights)
        errors.append(int(needed(caught.value)[:-3]))
    assert errors[1] - errors[0] == pytest.approx(4 * 4 * 100 * 2000 * 5 / 2**20, rel=0.2)


def test_a_deeper_network_needs_more():
    data, found = measured.graph(2000, 6000, coins=False), []
    for layers in (2, 4):
        torch.manual_seed(0)
        model = GraphSAGE(measured.FEATURES, 32, layers, 5, dropout=0.3).eval()
        with pytest.raises(TooLargeError) as caught:
            vg.predict(model, data, method="first-order", memory="24MiB")
        found.append(int(needed(caught.value)[:-3]))
    assert found[1] > found[0]
