"""Several processes answer as one does."""

import os
import shutil
import time

import numpy as np
import pytest
import torch

import varigraph as vg
from distributed.graphs import small_graph
from distributed.networks import HIDDEN, Net
from distributed.processes import in_processes
from varigraph.distributed import partition, predict, read_answer
from varigraph.distributed.exchange import joined
from varigraph.errors import FileError

PARTS, SAMPLES = 4, 8
#: Networks, methods, and how links are read; with noise in the features and masks throughout.
CASES = [
    ("SAGEConv", "sampled", "removed"),
    ("GCNConv", "sampled", "removed"),
    ("GCNConv", "sampled", "bernoulli"),
    ("GINConv", "sampled", "removed"),
    ("GraphConv", "sampled", "removed"),
    ("GATConv", "sampled", "removed"),
    ("GATv2Conv", "sampled", "removed"),
    ("SAGEConv", "diagonal", "removed"),
    ("SAGEConv", "diagonal", "bernoulli"),
    ("SAGEConv max", "diagonal", "bernoulli"),
    ("GCNConv", "diagonal", "bernoulli"),
    ("GCNConv", "diagonal", "weight"),
    ("GINConv", "diagonal", "removed"),
    ("GraphConv", "diagonal", "removed"),
    ("GATConv", "diagonal", "certain"),
    ("GATv2Conv", "diagonal", "certain"),
]


def double_graph():
    graph = small_graph(loops=False)
    return graph.apply(lambda t: t.double() if t.is_floating_point() else t)


def options(links):
    if links == "certain":
        return {"sources": ("features", "weights"), "samples": SAMPLES}
    return {"links": links, "samples": SAMPLES}


def out_of(folder, count, case):
    return folder / f"{count}-{'-'.join(case)}"


def answer_all(folder, count):
    found = []
    for case in CASES:
        kind, method, links = case
        out = out_of(folder, count, case)
        made = predict(Net(kind), folder / "parts", out, method=method, **options(links))
        found.append((made.exchanges, made.rows_sent, made.bytes_sent))
    return found


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """The answers of 1, 2 and 4 processes on disk, and what each process has sent."""
    folder = tmp_path_factory.mktemp("answers")
    parts = partition(double_graph(), folder / "parts", parts=PARTS, by="hash")
    sent = {count: in_processes(count, answer_all, folder, count) for count in (2, 4)}
    sent[1] = [answer_all(folder, 1)]
    return folder, parts, sent


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_processes_answer_as_one_does(answered, case):
    folder, _, sent = answered
    assert all(isinstance(each, list) for count in (2, 4) for each in sent[count]), sent
    kind, method, links = case
    alone = vg.predict(Net(kind), double_graph(), method=method, **options(links))
    assert all((alone.by_source[part] != 0).any() for part in ("features", "weights"))
    assert (alone.by_source["links"] != 0).any() == (links in ("removed", "bernoulli"))
    for count in (1, 2, 4):
        found = read_answer(out_of(folder, count, case))
        assert (found.method, found.samples, found.task) == (
            alone.method,
            alone.samples,
            alone.task,
        )
        torch.testing.assert_close(found.mean, alone.mean, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.plain, alone.plain, rtol=0, atol=1e-12)
        for part, var in alone.by_source.items():
            torch.testing.assert_close(found.by_source[part], var, rtol=0, atol=1e-12)
        torch.testing.assert_close(found.logits.var, alone.logits.var, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [2, 4])
def test_rows_and_bytes_are_those_that_the_parts_foretell(answered, count):
    _, parts, sent = answered
    process = [part * count // PARTS for part in range(PARTS)]
    pairs = [(to, part) for to in range(PARTS) for part in range(PARTS)]
    rows = sum(
        parts.open(to).far_counts[part] for to, part in pairs if process[to] != process[part]
    )
    assert rows == parts.rows_exchanged if count == PARTS else rows < parts.rows_exchanged
    each = [found[CASES.index(("SAGEConv", "sampled", "removed"))] for found in sent[count]]
    times = {exchanges for exchanges, _, _ in each}
    # Before the second and the third layer: in the network's own run, and in all draws.
    assert times == {2 * (1 + SAMPLES)}
    assert sum(sent_rows for _, sent_rows, _ in each) == rows * 2 * (1 + SAMPLES)
    assert sum(size for *_, size in each) == rows * 2 * (1 + SAMPLES) * HIDDEN * 8
    alone = sent[1][0]
    assert all(case == (0, 0, 0) for case in alone)


def test_the_answer_is_one_file_a_part(answered):
    folder, parts, _ = answered
    out = out_of(folder, 2, CASES[0])
    assert sorted(file.name for file in out.iterdir()) == [
        *(f"answer-{part:05d}.npz" for part in range(PARTS)),
        "answer.json",
    ]
    with np.load(out / "answer-00002.npz") as held:
        assert held["node"].tolist() == parts.open(2).own.tolist()
        assert {"mean", "var.features", "var.links", "var.weights"} <= set(held.files)


def test_an_answer_that_is_not_whole_is_refused(answered, tmp_path):
    made = out_of(answered[0], 2, CASES[0])
    shutil.copytree(made, tmp_path / "some")
    (tmp_path / "some" / "answer-00001.npz").unlink()
    with pytest.raises(FileError, match=r"answer-00001.npz: is missing"):
        read_answer(tmp_path / "some")
    shutil.copy(made / "answer-00002.npz", tmp_path / "some" / "answer-00001.npz")
    with pytest.raises(FileError, match=r"answer-00002.npz: is of another answer"):
        read_answer(tmp_path / "some")
    with pytest.raises(FileError, match="there is no whole answer"):
        read_answer(tmp_path)


def exchanged_unevenly():
    torch.distributed.init_process_group("gloo")
    rank, arrived = (
        torch.distributed.get_rank(),
        torch.empty(3 if torch.distributed.get_rank() else 0, 2),
    )
    given = torch.arange(6.0).view(3, 2) if rank == 0 else torch.empty(0, 2)
    sizes = ([0, 0], [0, 3]) if rank == 0 else ([3, 0], [0, 0])
    torch.distributed.all_to_all_single(arrived, given, *sizes)
    return arrived.tolist()


def test_gloo_exchanges_one_tensor_of_uneven_sizes_nothing_included():
    """What an exchange is made of: not every collective of torch works on processors."""
    assert in_processes(2, exchanged_unevenly) == [[], [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]]


def exchanged_as_lists():
    torch.distributed.init_process_group("gloo")
    given = [torch.ones(1), torch.ones(2)]
    torch.distributed.all_to_all([torch.empty(1), torch.empty(2)], given)


def test_gloo_exchanges_lists_of_equal_sizes_alone():
    """Why rows are packed into one tensor; once this fails, they need not be."""
    for name, told, _ in in_processes(2, exchanged_as_lists):
        assert name == "RuntimeError"
        assert "invalid tensor size" in told


def join_again(times):
    """The first process, which keeps the meeting place, is slow to leave a group."""
    leave, found = torch.distributed.destroy_process_group, []

    def leave_late():
        time.sleep(0.5 if os.environ["RANK"] == "0" else 0)
        leave()

    torch.distributed.destroy_process_group = leave_late
    for number in range(times):
        with joined() as processes:
            found.append(processes.largest(number))
    return found


def test_groups_follow_each_other_however_late_a_process_leaves():
    """A quick process that meets the others of the last group would wait for them for ever."""
    assert in_processes(2, join_again, 3) == [[0, 1, 2]] * 2
