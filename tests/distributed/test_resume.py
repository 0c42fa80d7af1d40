"""A run that was killed goes on from where it was, and says the same."""

import json
import os
import signal

import pytest
import torch

from distributed.networks import Net
from distributed.processes import in_processes
from distributed.test_predict import double_graph
from varigraph.distributed import exchange, partition, predict, read_answer, sampling
from varigraph.distributed.unfinished import Unfinished
from varigraph.errors import OptionError

PARTS, SAMPLES = 4, 24


class Mortal(Net):
    """Counts its runs, and ends its process at one of them."""

    runs = 0

    def __init__(self, kind, last=None):
        super().__init__(kind)
        self.last, Mortal.runs = last, 0

    def forward(self, x, edge_index):
        Mortal.runs += 1
        if Mortal.runs == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x, edge_index)


def answer(folder, out, killed=None, at=None, samples=SAMPLES):
    """Runs of the network that it took; keeps what is done as often as can be."""
    sampling.EVERY, sampling.ON_DISK, exchange.GRACE = 0, 1, 1
    rank = int(os.environ.get("RANK", "0"))
    kind = "GCNConv" if folder.name == "2 parts" else "SAGEConv"
    predict(Mortal(kind, at if rank == killed else None), folder, out, samples=samples)
    return Mortal.runs


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Parts, the answer of a run that nobody has killed, and the runs that it took."""
    folder = tmp_path_factory.mktemp("resumed")
    for parts in (2, PARTS):
        partition(double_graph(), folder / f"{parts} parts", parts=parts, by="hash")
    whole = {
        (parts, processes): in_processes(
            processes, answer, folder / f"{parts} parts", folder / f"{parts} by {processes}"
        )
        for parts, processes in [(2, 2), (PARTS, 2)]
    }
    return folder, whole


def assert_same(one, two):
    for a, b in [(one.mean, two.mean), (one.total, two.total), (one.logits.var, two.logits.var)]:
        assert torch.equal(a, b)


#: Parts, which process is killed, and in what share of the runs that it would have made.
KILLED = [(2, 0, 0.2), (2, 1, 0.6), (2, 0, 0.95), (4, 1, 0.3), (4, 0, 0.5), (4, 1, 0.9)]


@pytest.mark.parametrize(("parts", "killed", "share"), KILLED)
def test_a_killed_run_goes_on_and_says_the_same(begun, tmp_path, parts, killed, share):
    folder, whole = begun
    runs = whole[parts, 2][killed]
    found = in_processes(
        2, answer, folder / f"{parts} parts", tmp_path / "out", killed, int(share * runs)
    )
    assert found[killed] is None
    assert found[1 - killed][0] == "ProcessError"
    assert f"process {killed} of 2 has ended" in found[1 - killed][1]
    again = in_processes(2, answer, folder / f"{parts} parts", tmp_path / "out")
    assert all(isinstance(each, int) for each in again), again
    if share > 0.4:  # what was done is not done again
        assert max(again) < 0.75 * runs
    assert_same(read_answer(tmp_path / "out"), read_answer(folder / f"{parts} by 2"))
    assert not (tmp_path / "out" / "unfinished").exists()


def test_a_run_goes_on_with_fewer_processes(begun, tmp_path):
    folder, whole = begun
    runs = whole[PARTS, 2][1]
    in_processes(2, answer, folder / "4 parts", tmp_path / "out", 1, int(0.7 * runs))
    assert answer(folder / "4 parts", tmp_path / "out") < 1.5 * runs  # both took twice that
    assert_same(read_answer(tmp_path / "out"), read_answer(folder / "4 by 2"))


def test_what_is_done_is_not_done_again(begun):
    folder, _ = begun
    before = (folder / "2 by 2" / "answer.json").stat().st_mtime_ns
    assert answer(folder / "2 parts", folder / "2 by 2") <= 1  # to see whether it can be called
    assert (folder / "2 by 2" / "answer.json").stat().st_mtime_ns == before


def test_a_run_of_something_else_is_not_gone_on_with(begun, tmp_path):
    folder, _ = begun
    in_processes(2, answer, folder / "2 parts", tmp_path / "out", 1, 20)
    with pytest.raises(OptionError, match="begun with another samples"):
        answer(folder / "2 parts", tmp_path / "out", samples=SAMPLES + 4)
    with pytest.raises(OptionError, match="begun with another graph"):
        answer(folder / "4 parts", tmp_path / "out")
    about = json.loads((tmp_path / "out" / "unfinished" / "run.json").read_text())
    about["weights"] = "other"
    (tmp_path / "out" / "unfinished" / "run.json").write_text(json.dumps(about))
    with pytest.raises(OptionError, match="begun with another weights"):
        answer(folder / "2 parts", tmp_path / "out")


def test_sums_are_kept_until_all_have_newer_ones(tmp_path):
    kept = Unfinished(tmp_path)
    kept.begin({})
    for draws in (4, 8):
        kept.save(3, f"sums-{draws:08d}", {"a": torch.full((2,), float(draws))})
    assert kept.done(3) == 8
    assert kept.done(1) == 0
    kept.drop_before(3, 8)
    assert not kept.has(3, "sums-00000004")
    assert kept.load(3, "sums-00000008")["a"].tolist() == [8, 8]
