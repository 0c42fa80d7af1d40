import os
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import varigraph as vg
from varigraph.errors import OptionError
from varigraph.studies.speed.contenders import DIAGONAL, ONE_PASS, PLAIN
from varigraph.studies.speed.trial import (
    PeakMemory,
    ProcessDiedError,
    Terms,
    Trial,
    in_fresh_process,
    tried,
)
from varigraph.studies.speed.workload import Saved, Synthetic, Workload

ONCE = Terms(repeats=1, threads=1)
LOOP = "dropout, T passes"


@dataclass(frozen=True)
class Refused:
    """Makes nothing but an error, in the other process."""

    error: type

    def build(self):
        if self.error is OptionError:
            raise OptionError("that is too much", "take less")
        raise self.error("a rival fails\nin two lines")


@dataclass(frozen=True)
class Dead:
    """Ends the process that is to measure."""

    def build(self):
        os._exit(7)


def allocated(count):
    peak = PeakMemory(torch.device("cpu"))
    kept = np.ones(count, dtype=np.uint8).sum()
    return int(kept), peak.bytes()


def number_of_process():
    return os.getpid()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    draw = torch.Generator().manual_seed(0)
    graph = Data(
        x=torch.rand(50, 9, generator=draw),
        edge_index=torch.randint(0, 50, (2, 200), generator=draw),
        y=torch.arange(50) % 3,
    )
    noisy = vg.add_noise(graph, percent=12)
    workload = Workload(vg.paper_network(graph).eval(), noisy, 5, "1GiB", 4)
    return Saved.of(workload, tmp_path_factory.mktemp("saved") / "s.pt", device="cpu"), workload


def test_a_workload_comes_back_as_it_was(saved):
    builder, workload = saved
    back = builder.build()
    assert (back.masks, back.memory, back.seed) == (5, "1GiB", 4)
    assert back.graph.x.equal(workload.graph.x)
    assert back.graph.x_var == workload.graph.x_var
    x, links = workload.graph.x, workload.graph.edge_index
    assert back.model(x, links).equal(workload.model(x, links))


def test_another_process_finds_the_same_answer(saved):
    builder, workload = saved
    found = tried(DIAGONAL, builder, ONCE)
    here = vg.predict(workload.model, workload.graph, method="diagonal", samples=5, seed=4)
    np.testing.assert_allclose(found.logits_var, here.logits.var, rtol=1e-5)
    assert found.seconds > 0
    assert found.peak >= 0
    assert (found.masks, found.problem) == (5, None)
    assert tried(PLAIN, builder, ONCE).logits_var is None


def test_two_trials_differ_in_their_time_only(saved):
    one, two = (tried(LOOP, saved[0], ONCE) for _ in range(2))
    np.testing.assert_array_equal(one.logits_var, two.logits_var)


def test_impatience_cuts_loops_short_and_nothing_else(saved):
    hurried = Terms(repeats=3, threads=1, patience=0.0)
    found = tried(LOOP, saved[0], hurried)
    assert found.masks == 2
    assert found.logits_var is None  # of two masks is not of all
    assert found.seconds > 0
    assert tried(DIAGONAL, saved[0], hurried).masks == 5


def test_without_repeats_nothing_is_timed(saved):
    found = tried(ONE_PASS, saved[0], Terms(repeats=0, threads=1))
    assert found.seconds is None
    assert found.peak is not None


def test_others_are_timed_in_turn(saved):
    found = tried(ONE_PASS, saved[0], Terms(repeats=2, threads=1, beside=(PLAIN, DIAGONAL)))
    assert found.beside.keys() == {PLAIN, DIAGONAL}
    assert min(found.beside.values()) > 0
    assert found.seconds > 0
    np.testing.assert_array_equal(found.logits_var, tried(ONE_PASS, saved[0], ONCE).logits_var)
    assert tried(ONE_PASS, saved[0], Terms(repeats=0, threads=1, beside=(PLAIN,))).beside == {}


@pytest.mark.parametrize(
    ("error", "said"),
    [(OptionError, "that is too much"), (RuntimeError, "RuntimeError: a rival fails")],
)
def test_what_goes_wrong_is_told(error, said):
    assert tried(PLAIN, Refused(error), ONCE).problem == said


def test_a_process_that_dies_is_told():
    found = tried(PLAIN, Dead(), ONCE)
    assert isinstance(found, Trial)
    assert "ended with 7" in found.problem
    with pytest.raises(ProcessDiedError):
        in_fresh_process(os._exit, 3)


def test_every_process_is_a_new_one():
    numbers = {in_fresh_process(number_of_process) for _ in range(3)} | {os.getpid()}
    assert len(numbers) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="nobody tells the largest size there")
def test_the_peak_is_what_was_allocated_in_between():
    count = 300 * 2**20
    kept, peak = in_fresh_process(allocated, count)
    assert kept == count
    assert count <= peak < 1.2 * count


def test_a_synthetic_graph_is_as_large_as_asked_for_and_uneven():
    one, two = Synthetic(20_000).build(), Synthetic(20_000).build()
    links = one.graph.edge_index
    assert links.equal(two.graph.edge_index)
    assert one.graph.num_nodes == 2000
    assert 15_000 < links.shape[1] <= 20_000
    assert (links[0] != links[1]).all()
    assert len({*map(tuple, links.T.tolist())}) == links.shape[1]
    backward = {*map(tuple, links.flip(0).T.tolist())}
    assert backward == {*map(tuple, links.T.tolist())}
    degree = links[1].bincount(minlength=2000).sort(descending=True).values
    assert degree[0] > 20 * degree.float().median()
    # Degrees fall as a power: -1 / (2.5 - 1) of the rank, over the ranks 10 to 200.
    rank = torch.arange(10, 200).double().log()
    slope = np.polyfit(rank.numpy(), degree[10:200].double().log().numpy(), 1)[0]
    assert slope == pytest.approx(-2 / 3, abs=0.12)
    x = one.graph.x
    assert one.model(x, links).equal(two.model(x, links))
